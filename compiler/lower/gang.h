// Lowering of a region whose domains are shared by the blocks of a gang (schedule/gang.h), which are anywhere on the device. A gang goes over
// domains in turns, and a block always has the same part of them. What it finds of one it posts in global memory; what the others have
// found of it, it collects some turns later, and only then does the next leg of that domain. So nobody waits for the slowest, and a turn
// has one barrier. Of two legs:
//
//   turn i   threads of the schedule                a warp that collects              a warp that posts
//            last leg of domain i - lag - 1         what all have found of i - lag
//            start to copy domain i + prefetch - 1
//            first leg of domain i
//            --------------------------------- barrier of the block ---------------------------------
//                                                                                     what the block has found of i
#pragma once

#include "compiler/lower/context.h"

namespace bz::compiler {

void lower_gang(const StageContext& stage);

}  // namespace bz::compiler

// Lowering of a region whose domains are shared by the blocks of a gang, which are anywhere on the device. A gang goes over domains in
// turns, and a block always has the same part of them. What it finds of one it posts in global memory; what the others have found of it, it
// collects some turns later, and only then does the last phase of that domain. So nobody waits for the slowest, and a turn has one barrier:
//
//   turn i   threads of the schedule             a warp that collects              a warp that posts
//            first phase of domain i             what all have found of i - lag
//            ------------------------------- barrier of the block -------------------------------
//            last phase of domain i - lag                                          what the block has found of i
//            start to copy domain i + prefetch to where domain i - lag was
#pragma once

#include "compiler/lower/context.h"

namespace bz::compiler {

void lower_gang(const StageContext& stage);

}  // namespace bz::compiler

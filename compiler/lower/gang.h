// Lowering of a region whose domains are shared by the blocks of a gang, which are anywhere on the device. A gang goes over domains in
// turns, and a block always has the same part of them. What it finds of one it posts in global memory; what the others have found of it, it
// collects some turns later, and only then does the last phase of that domain. So nobody waits for the slowest, and a turn has one barrier:
//
//   turn i   collect what all have found of domain i - lag      first phase of domain i
//            combine both among the threads of the block
//            post what the block has found of domain i          last phase of domain i - lag
//            start to copy domain i + prefetch to where domain i - lag was
#pragma once

#include "compiler/lower/context.h"

namespace bz::compiler {

void lower_gang(const StageContext& stage);

}  // namespace bz::compiler

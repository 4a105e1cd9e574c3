// split: a reduction with few results over much data becomes two steps, so that every multiprocessor has work.
//
//   %s = sum %x {axes = [0]}                %r = reshape %x {shape = [512, 2048]}
//     with %x f32[1048576]                  %p = sum %r {axes = [1]}
//                                           %s = sum %p {axes = [0], merge = true}
//
// The first step keeps its state unfinished, one component a node, and the second merges states; an axis that no good
// number of parts divides is padded with elements that do not take part. It runs after online, whose states it splits,
// and leaves alone what one block can hold, or a cluster where rows are needed again: that is better done in one kernel.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"

namespace bz::compiler {

ir::Graph split(const ir::Graph& graph, const Target& target);

}  // namespace bz::compiler

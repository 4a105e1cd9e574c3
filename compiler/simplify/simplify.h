// simplify: puts a graph into canonical form with rewrites that hold for every input - NaN, infinities,
// signed zeros and the unrounded f16/bf16 arithmetic included - so that equal computations become one node.
//
//   before                                             after
//   %c = constant f32[4, 8] 8
//   %m = max %x {axes = [1], keepdims = true}          %m = max %x {axes = [1]}
//   %b = broadcast %m {shape = [4, 8], dims = [0, 1]}  %b = broadcast %m {shape = [4, 8], dims = [0]}
//   %n = neg %b
//   %d = add %x, %n                                    %d = sub %x, %b
//   %q = div %d, %c                                    %q = mul %d, 0.125
//   %d2 = sub %x, %b                                   (is %d)
//
// Canonical forms that later passes rely on:
//   - reductions have keepdims = false, a reshape puts the axes back
//   - views of views of one kind are one view; a view that moves no element is a reshape; the operand of a
//   broadcast
//     has no axis of extent 1
//   - constants have their full shape and stand last among the operands of commutative maps
//   - a map whose operands are alike broadcast (or reshaped) is computed before the broadcast (or reshape)
//   - equal nodes are one node (the first keeps name and scope), nothing is dead but inputs
//
// One forward sweep: every node is built again on operands that are already simple, rules run until none
// applies, and value numbering finds the node if it is there. It is the first pass: online and fuse match on
// its forms.
//
// Inputs (dead ones too), outputs, their order and their names stay. simplify(simplify(g)) is simplify(g).
#pragma once

#include "ir/graph.h"

namespace bz {

ir::Graph simplify(const ir::Graph& g);

}  // namespace bz

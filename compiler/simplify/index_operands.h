// argmax and argmin as users write them have one operand and mean a position. Every later stage reduces
// values with their positions, so these are made an operand:
//
//   before                             after
//   %i = argmax %x {axes = [1, 2]}     %r = iota i64[4, 8, 15] {axis = 1}
//                                      %s = iota i64[4, 8, 15] {axis = 2}
//                                      %p = add (mul %r, 15), %s
//                                      %i = argmax %x, %p {axes = [1, 2]}
//
// Not a graph pass that can be left out: nothing works without it.
#pragma once

#include "ir/graph.h"

namespace bz {

ir::Graph index_operands(const ir::Graph& g);

}  // namespace bz

// online: turns chains of dependent reductions into one reduction with a larger state, so that a row is read
// once. It matches the algebra of the graph, not the names of composites.
//
// Softmax (Milakov and Gimelshein 2018), for any x, and any way the maximum is guarded against infinities:
//
//   %m = max %x {axes = [1]}                   %m = max_sumexp.0 %x {axes = [1]}
//   %b = broadcast %m {...}                    %b = broadcast %m {...}
//   %d = sub %x, %b                            %d = sub %x, %b
//   %e = exp %d                                %e = exp %d
//   %s = sum %e {axes = [1]}                   %t = max_sumexp.1 %x {axes = [1]}
//                                              %i = isinf %m
//                                              %q = select %i, 0, %m       # the state's own guard
//                                              %f = sub %q, %m             # 0 wherever %m is finite
//                                              %g = exp %f
//                                              %s = mul %t, %g
//
// The factor is exp(0) = 1 where the maximum is finite and makes the NaN of the original where it is not:
// +inf gives inf * exp(-inf), a row of -inf gives 0 * exp(inf). It is left out when the program has that
// guard itself.
//
// Moments (Welford 1962; Chan, Golub and LeVeque 1983), for one or several axes:
//
//   %t = sum %x {axes = [1]}
//   %m = mul %t, 0.125                         %h = moments.1 %x {axes = [1]}, %l = moments.2 ...
//                                              %m = add %h, %l
//   %d = sub %x, broadcast(%m)                 %d = sub (sub %x, broadcast(%h)), broadcast(%l)
//   %q = mul %d, %d
//   %v = sum %q {axes = [1]}                   %v = moments.3 %x {axes = [1]}
//
// Only a sum of squared deviations from the mean triggers the second form; a mean alone stays a sum.
//
// It runs after simplify, whose canonical forms it matches (reductions without kept axes, one broadcast from
// the reduced shape), and before fuse, which then sees one phase where there were two.
#pragma once

#include "ir/graph.h"

namespace bz {

ir::Graph online(const ir::Graph& g);

}  // namespace bz

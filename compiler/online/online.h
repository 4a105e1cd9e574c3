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
// A sum of exp(x - max x) * w, for any w that needs no more reductions than x, is a further component of the
// same state, and so is each other: all sums over one maximum are one reduction, whose operands are x and all
// the weights.
//
//   %a = mul %e, %w
//   %u = sum %a {axes = [1]}                   max_sumexp.0, .1 and .2 of %x, %w
//
// The maximum may be written as what a monotone map makes of one (cast(max y), max(y) * c for c > 0), or as
// -(min -x). x / c after the maximum is taken away is another matter: dividing first rounds large x, so
// exp((x - max x) / c) stays a phase of its own.
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
// Only a sum of squared deviations from the mean triggers the second form; a mean alone stays a sum. Where %x repeats %v along
// the axes, simplify takes %v - %m before the broadcast; then %v is the mean, and %v - %v is 0 unless it is infinite or NaN.
//
// It runs after simplify, whose canonical forms it matches (reductions without kept axes, one broadcast from
// the reduced shape), and before fuse, which then sees one phase where there were two.
#pragma once

#include "ir/graph.h"

namespace bz {

ir::Graph online(const ir::Graph& g);

}  // namespace bz

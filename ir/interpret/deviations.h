// Deviations of f64 from their mean, to be the reference for f64 results, which have no wider type to be judged by:
//
//   %d = sub %x, broadcast(%m)        %e = sub %x, broadcast(%m)
//     with %m the mean of %x          %c = the mean of %e, 0 where it is infinite or NaN
//                                     %d = sub %e, broadcast(%c)
//
// %m is rounded to f64, which is much where it is large beside the deviations. The differences are exact to rounding, so
// their mean is what %m lacks (the correction of the two-pass variance in Chan, Golub and LeVeque 1983).
#pragma once

#include <optional>

#include "ir/graph.h"

namespace bz::interpret_detail {

// The graph with such deviations; nullopt when it has none.
std::optional<ir::Graph> corrected_deviations(const ir::Graph& g);

}  // namespace bz::interpret_detail

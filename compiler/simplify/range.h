// What the elements of a floating node can be: NaN or not, and else an interval.
//
// The interval orders -0 below +0: a lower end of +0 says that the element is never -0. Values are those of the compute
// type, and the ends take its rounding into account; functions of the math library keep within their mathematical range
// (tests/math_test.cpp).
#pragma once

#include <limits>
#include <span>

#include "ir/graph.h"

namespace bz {

struct Range {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
  bool nan = true;

  // Every element is at most (at least) every one of `other`, NaN apart.
  bool below(const Range& other) const;
  bool above(const Range& other) const { return other.below(*this); }
  bool finite() const;  // not infinite
};

// The range of a node with these attributes and type from those of its operands. Integers have the range of all numbers.
Range range_of(const Attrs& attrs, DType dtype, std::span<const Range> operands,
               std::span<const DType> dtypes);

}  // namespace bz

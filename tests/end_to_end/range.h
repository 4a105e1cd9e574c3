// Sets of values: what an element may be when every operation on the way to it may be rounded.
//
//   Range x = Range::of(0.1f), y = Range{1, 2};
//   map(ScalarOp::add, {x, y}, DType::f32, DType::f32, Arithmetic::own)   // [1.1, 2.1], its ends rounded to f32
//
// A range is an interval and whether NaN is in the set too. Every operation gives a set that holds the result
// for all values of its operands' sets, with the error that docs/numerics.md allows to it. Where a rounding
// decides (a comparison, a floor, an overflow, an integer that wraps) both outcomes are in it, so no tolerance
// has to be guessed; and where nothing rounds, a set is one value. Zeros have no sign: 1 / 0 may be either
// infinity.
#pragma once

#include <span>
#include <string>

#include "ir/ops.h"

namespace bz::end_to_end {

// In which precision floating values are computed. Casts round to their type in each.
enum class Arithmetic : std::uint8_t {
  own,        // the compute type of each value's type, as compiled programs do
  reference,  // float64, as the interpreter does
  folded,     // float64, or the compute type: what constants become
};

// long double holds every value of every type.
struct Range {
  long double lo = 0, hi = 0;  // none when lo > hi
  bool nan = false;

  static Range of(const Scalar& value);
  static Range only_nan();
  static Range all(DType t);  // NaN too, where the type has it
  bool empty() const { return lo > hi; }
  bool point() const { return lo == hi && !nan; }
  bool holds(long double value) const { return lo <= value && value <= hi; }
};

Range hull(const Range& a, const Range& b);
// `operand` is the type of the last operand (select has a bool first), `result` that of the result.
Range map(ScalarOp op, std::span<const Range> x, DType operand, DType result, Arithmetic arithmetic);

// Ends rounded to nearest in the precision of `t`; integers as they are.
Range rounded(Range r, DType t);
// The precision of floating values of type `t`: spacing at 1, smallest numbers, largest number.
struct Precision {
  double spacing, smallest, smallest_normal, largest;
};
Precision precision(DType t, Arithmetic arithmetic);

std::string to_string(const Range& r);

}  // namespace bz::end_to_end

// Compares a result with the float64 reference.
//
//   Comparison c = compare(actual, reference);
//   if (!within(c, default_tolerance(DType::f32, 4096))) fmt::print("{}\n", to_string(c));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/interpret.h"
#include "ir/tensor.h"

namespace bz {

// |actual - expected| may be up to absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// NaN equals NaN, and an infinity equals itself. Otherwise NaN on one side is an infinite error, and an
// infinity counts as the first power of two above the type's range: exp(88.73) may be inf in f32.
struct Comparison {
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  double max_absolute = 0;
  double max_relative = 0;  // |actual - expected| / |expected|; infinite for an error where 0 is expected
  double max_ulp = 0;       // |actual - expected| in units in the last place of `dtype` at the expected value
  std::int64_t worst = -1;  // index of the element with the largest error in ulp; -1 when all are equal
  double worst_actual = 0, worst_expected = 0;
  // Largest absolute error by binary exponent of the expected value, for within(); see compare.cpp.
  std::vector<double> error_by_exponent;
};

// The types must be equal, Error otherwise.
Comparison compare(const HostTensor& actual, const ReferenceTensor& reference);

bool within(const Comparison& comparison, const Tolerance& tolerance);

// The distance from 1 to the next number of a floating type.
double spacing(DType dtype);
// Its smallest positive number.
double smallest(DType dtype);

// The tolerance for a result of type `dtype` whose elements come from reductions of `reduction_length`
// elements (1: of none) of order 1: with u the spacing of the arithmetic (f32 for f16 and bf16), (16 + 8
// sqrt(length)) u, both absolute and relative - a random walk of roundings, with room for functions and
// cancellation - and for f16 and bf16 one spacing of their own, as the result is rounded to them. Integers
// and bool must be equal.
Tolerance default_tolerance(DType dtype, std::int64_t reduction_length);
// The same for arithmetic of the spacing `arithmetic`, and roundings to 16 bits of spacings that are `rounded` together.
Tolerance walk_tolerance(double arithmetic, double rounded, std::int64_t reduction_length);

// "max abs error 1.2e-07, rel 9e-08, 1.5 ulp at element 17 (got 0.5, expected 0.50000006)"
std::string to_string(const Comparison& comparison);

}  // namespace bz

#include "ir/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace bz {
namespace {

struct FloatFormat {
  int mantissa;       // stored bits
  int emin;           // exponent of the smallest normal number
  double past_range;  // first power of two that is too large, or the largest float64
};

FloatFormat format_of(DType t) {
  switch (t) {
    case DType::f32: return {23, -126, 0x1p128};
    case DType::f16: return {10, -14, 0x1p16};
    case DType::bf16: return {7, -126, 0x1p128};
    case DType::f64: return {52, -1022, std::numeric_limits<double>::max()};
    case DType::i32:
    case DType::i64:
    case DType::boolean: break;
  }
  throw InternalError(fmt::format("{} is not a floating type", name(t)));
}

// Slots of error_by_exponent: 0 for the expected value 0, then one for every exponent of a float64.
constexpr int kLowestExponent = -1074;
std::size_t exponent_slot(double expected) {
  return expected == 0 ? 0 : static_cast<std::size_t>(std::ilogb(expected) - kLowestExponent + 1);
}
double smallest_of_slot(std::size_t slot) {
  return slot == 0 ? 0 : std::ldexp(1.0, static_cast<int>(slot) - 1 + kLowestExponent);
}

double ulp_at(const FloatFormat& format, double expected) {
  const int exponent = expected == 0 ? format.emin : std::max(std::ilogb(expected), format.emin);
  return std::ldexp(1.0, exponent - format.mantissa);
}

void record(Comparison& c, std::int64_t index, double actual, double expected, double error, double ulp,
            double magnitude) {
  const double relative = magnitude > 0 ? error / magnitude : std::numeric_limits<double>::infinity();
  c.max_absolute = std::max(c.max_absolute, error);
  c.max_relative = std::max(c.max_relative, relative);
  double& largest = c.error_by_exponent[exponent_slot(magnitude)];
  largest = std::max(largest, error);
  if (c.worst < 0 || ulp > c.max_ulp) {
    c.worst = index;
    c.worst_actual = actual;
    c.worst_expected = expected;
    c.max_ulp = ulp;
  }
}

void compare_floats(Comparison& c, const HostTensor& actual, const std::vector<double>& reference) {
  const FloatFormat format = format_of(c.dtype);
  for (std::int64_t k = 0; k < c.elements; ++k) {
    const double got = actual.value(k), expected = reference[static_cast<std::size_t>(k)];
    if (got == expected || (std::isnan(got) && std::isnan(expected))) continue;
    if (std::isnan(got) || std::isnan(expected)) {
      const double infinity = std::numeric_limits<double>::infinity();
      record(c, k, got, expected, infinity, infinity, 0);
      continue;
    }
    const double a = std::clamp(got, -format.past_range, format.past_range);
    const double e = std::clamp(expected, -format.past_range, format.past_range);
    if (a == e) continue;
    const double error = std::fabs(a - e);
    record(c, k, got, expected, error, error / ulp_at(format, e), std::fabs(e));
  }
}

void compare_integers(Comparison& c, const HostTensor& actual, const std::vector<std::int64_t>& reference) {
  for (std::int64_t k = 0; k < c.elements; ++k) {
    const std::int64_t got = actual.get(k).i, expected = reference[static_cast<std::size_t>(k)];
    if (got == expected) continue;
    const double error = std::fabs(static_cast<double>(got) - static_cast<double>(expected));
    // Neighbours above 2^53 may be the same double, and are different all the same.
    record(c, k, static_cast<double>(got), static_cast<double>(expected), std::max(error, 1.0),
           std::max(error, 1.0), std::fabs(static_cast<double>(expected)));
  }
}

}  // namespace

Comparison compare(const HostTensor& actual, const ReferenceTensor& reference) {
  if (!(actual.type() == reference.type)) {
    throw Error(fmt::format("cannot compare {} with the reference of type {}", to_string(actual.type()),
                            to_string(reference.type)));
  }
  Comparison c;
  c.dtype = reference.type.dtype;
  c.elements = actual.elements();
  c.error_by_exponent.assign(exponent_slot(std::numeric_limits<double>::max()) + 1, 0);
  if (is_float(c.dtype)) {
    compare_floats(c, actual, reference.f);
  } else {
    compare_integers(c, actual, reference.i);
  }
  return c;
}

bool within(const Comparison& comparison, const Tolerance& tolerance) {
  for (std::size_t slot = 0; slot < comparison.error_by_exponent.size(); ++slot) {
    const double allowed = tolerance.absolute + tolerance.relative * smallest_of_slot(slot);
    if (!(comparison.error_by_exponent[slot] <= allowed)) return false;
  }
  return true;
}

double spacing(DType dtype) { return std::ldexp(1.0, -format_of(dtype).mantissa); }

double smallest(DType dtype) {
  const FloatFormat format = format_of(dtype);
  return std::ldexp(1.0, format.emin - format.mantissa);
}

Tolerance default_tolerance(DType dtype, std::int64_t reduction_length) {
  if (!is_float(dtype)) return {0, 0};
  const DType arithmetic = compute_dtype(dtype);
  return walk_tolerance(spacing(arithmetic), arithmetic == dtype ? 0 : spacing(dtype), reduction_length);
}

Tolerance walk_tolerance(double arithmetic, double rounded, std::int64_t reduction_length) {
  const double walk = 16 + 8 * std::sqrt(static_cast<double>(std::max<std::int64_t>(reduction_length, 1)));
  const double both = walk * arithmetic + rounded;
  return {both, both};
}

std::string to_string(const Comparison& c) {
  if (c.worst < 0) return fmt::format("equal in all {} elements", c.elements);
  return fmt::format("max abs error {:.3g}, rel {:.3g}, {:.3g} ulp at element {} (got {}, expected {})",
                     c.max_absolute, c.max_relative, c.max_ulp, c.worst, c.worst_actual, c.worst_expected);
}

}  // namespace bz

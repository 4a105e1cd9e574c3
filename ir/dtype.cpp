#include "ir/dtype.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "support/error.h"

namespace bz {
namespace {

// A 16-bit floating format: sign, exponent, `mantissa` stored bits; `emin` is the exponent of the smallest
// normal.
struct SmallFloat {
  int mantissa;
  int emin;
  std::uint16_t infinity() const { return static_cast<std::uint16_t>((0x7FFF >> mantissa) << mantissa); }
};
constexpr SmallFloat kF16{10, -14};
constexpr SmallFloat kBf16{7, -126};

constexpr std::uint64_t kDoubleMantissa = (std::uint64_t{1} << 52) - 1;

std::uint16_t encode(const SmallFloat& format, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 48) & 0x8000);
  const int biased = static_cast<int>((bits >> 52) & 0x7FF);
  if (biased == 0x7FF) {
    const bool nan = (bits & kDoubleMantissa) != 0;
    const int quiet = nan ? 1 << (format.mantissa - 1) : 0;
    return static_cast<std::uint16_t>(sign | format.infinity() | quiet);
  }
  if (biased == 0) return sign;  // zeros and float64 subnormals, far below half of the smallest value
  const int exponent = biased - 1023;
  const int effective = exponent > format.emin ? exponent : format.emin;
  const int shift = 52 - format.mantissa + (effective - exponent);
  if (shift > 53) return sign;
  const std::uint64_t significand = (bits & kDoubleMantissa) | (std::uint64_t{1} << 52);
  std::uint64_t rounded = significand >> shift;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1);
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // `rounded` still holds the leading one, which adds 1 to the exponent field of normal values; a carry out
  // of the mantissa does the right thing too.
  const std::uint64_t field = static_cast<std::uint64_t>(effective - format.emin) << format.mantissa;
  const std::uint64_t magnitude = field + rounded;
  return static_cast<std::uint16_t>(sign | (magnitude < format.infinity() ? magnitude : format.infinity()));
}

double decode(const SmallFloat& format, std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int magnitude = bits & 0x7FFF;
  const int mantissa = magnitude & ((1 << format.mantissa) - 1);
  if (magnitude > format.infinity()) {
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  }
  if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  const int field = magnitude >> format.mantissa;
  if (field == 0) return sign * std::ldexp(mantissa, format.emin - format.mantissa);
  const auto exponent = static_cast<std::uint64_t>(field - 1 + format.emin + 1023) << 52;
  return sign *
         std::bit_cast<double>(exponent | static_cast<std::uint64_t>(mantissa) << (52 - format.mantissa));
}

// `value` in at most 53 bits, rounded to odd: rounding the result again to 51 bits or fewer rounds `value`
// once.
double to_double_odd(std::int64_t value) {
  const bool negative = value < 0;
  auto magnitude = static_cast<std::uint64_t>(value);
  if (negative) magnitude = 0 - magnitude;
  const int width = std::bit_width(magnitude);
  if (width > 53) {
    const int shift = width - 53;
    const bool sticky = (magnitude & ((std::uint64_t{1} << shift) - 1)) != 0;
    magnitude = ((magnitude >> shift) | (sticky ? 1 : 0)) << shift;
  }
  return negative ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
}

std::int64_t truncate_saturating(DType t, double value) {
  if (std::isnan(value)) return 0;
  const bool narrow = t == DType::i32;
  const std::int64_t lo =
      narrow ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min();
  const std::int64_t hi =
      narrow ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
  if (value <= static_cast<double>(lo)) return lo;
  if (value >= static_cast<double>(hi)) return hi;
  return static_cast<std::int64_t>(value);
}

}  // namespace

std::string_view name(DType t) {
  switch (t) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
  }
  throw InternalError("dtype has no name");
}

std::optional<DType> parse_dtype(std::string_view s) {
  for (DType t : kAllDTypes) {
    if (name(t) == s) return t;
  }
  return std::nullopt;
}

int size_of(DType t) {
  switch (t) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::f64:
    case DType::i64: return 8;
    case DType::boolean: return 1;
  }
  throw InternalError("dtype has no size");
}

std::uint16_t f16_bits(double value) { return encode(kF16, value); }
double f16_value(std::uint16_t bits) { return decode(kF16, bits); }
std::uint16_t bf16_bits(double value) { return encode(kBf16, value); }
double bf16_value(std::uint16_t bits) { return decode(kBf16, bits); }

double round_to(DType t, double value) {
  switch (t) {
    case DType::f32: return static_cast<double>(static_cast<float>(value));
    case DType::f16: return f16_value(f16_bits(value));
    case DType::bf16: return bf16_value(bf16_bits(value));
    case DType::f64: return value;
    case DType::i32:
    case DType::i64:
    case DType::boolean: break;
  }
  throw InternalError(fmt::format("round_to: {} is not a floating type", name(t)));
}

std::int64_t wrap_to(DType t, std::int64_t value) {
  switch (t) {
    case DType::i32: return static_cast<std::int32_t>(static_cast<std::uint64_t>(value));
    case DType::i64: return value;
    case DType::boolean: return value != 0 ? 1 : 0;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f64: break;
  }
  throw InternalError(fmt::format("wrap_to: {} is not an integer type", name(t)));
}

Scalar Scalar::of(DType t, double value) {
  Scalar s;
  s.dtype = t;
  if (is_float(t)) {
    s.f = round_to(t, value);
  } else if (t == DType::boolean) {
    s.i = value != 0 ? 1 : 0;
  } else {
    s.i = truncate_saturating(t, value);
  }
  return s;
}

Scalar Scalar::of_int(DType t, std::int64_t value) {
  Scalar s;
  s.dtype = t;
  if (t == DType::f64) {
    s.f = static_cast<double>(value);
  } else if (is_float(t)) {
    s.f = round_to(t, to_double_odd(value));
  } else {
    s.i = wrap_to(t, value);
  }
  return s;
}

bool operator==(const Scalar& a, const Scalar& b) {
  if (a.dtype != b.dtype) return false;
  if (!is_float(a.dtype)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return std::bit_cast<std::uint64_t>(a.f) == std::bit_cast<std::uint64_t>(b.f);
}

std::string to_string(const Scalar& s) {
  if (s.dtype == DType::boolean) return s.i != 0 ? "true" : "false";
  if (!is_float(s.dtype)) return fmt::format("{}", s.i);
  if (std::isnan(s.f)) return "nan";
  if (std::isinf(s.f)) return s.f > 0 ? "inf" : "-inf";
  for (int digits = 1; digits < 17; ++digits) {
    const double candidate = std::strtod(fmt::format("{:.{}g}", s.f, digits).c_str(), nullptr);
    if (round_to(s.dtype, candidate) == s.f) return fmt::format("{}", candidate);
  }
  return fmt::format("{}", s.f);
}

}  // namespace bz

// Element types and single values.
//
// Storage types are f32, f16, bf16, f64, i32, i64 and bool (one byte, 0 or 1). Arithmetic on f16 and bf16 is
// done in f32; only an explicit cast, an output and an input round to the storage type.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bz {

enum class DType : std::uint8_t { f32, f16, bf16, f64, i32, i64, boolean };

inline constexpr std::array kAllDTypes = {DType::f32, DType::f16, DType::bf16,   DType::f64,
                                          DType::i32, DType::i64, DType::boolean};

std::string_view name(DType t);                        // "f32", "f16", "bf16", "f64", "i32", "i64", "bool"
std::optional<DType> parse_dtype(std::string_view s);  // the inverse of name()
int size_of(DType t);                                  // bytes of one element in memory
constexpr bool is_float(DType t) { return t <= DType::f64; }
constexpr bool is_integer(DType t) { return t == DType::i32 || t == DType::i64; }

// The type arithmetic on `t` is done in: f32 for f16 and bf16, `t` itself otherwise.
constexpr DType compute_dtype(DType t) { return t == DType::f16 || t == DType::bf16 ? DType::f32 : t; }

// Rounds to nearest even in the precision of the floating type `t`, in one step from double.
double round_to(DType t, double value);

std::uint16_t f16_bits(double value);  // round to nearest even
double f16_value(std::uint16_t bits);
std::uint16_t bf16_bits(double value);
double bf16_value(std::uint16_t bits);

// Wraps to the range of the integer type (two's complement) or to 0/1 for bool.
std::int64_t wrap_to(DType t, std::int64_t value);

// One typed value. Floating types use `f` (already rounded to `dtype`), integers and bool use `i`.
struct Scalar {
  DType dtype = DType::f32;
  double f = 0;
  std::int64_t i = 0;

  static Scalar of(DType t, double value);  // rounds; for integer types truncates towards zero, saturating
  static Scalar of_int(DType t, std::int64_t value);  // for float types converts and rounds
  double as_double() const { return is_float(dtype) ? f : static_cast<double>(i); }

  // Bitwise, so that NaN equals NaN and -0 differs from 0.
  friend bool operator==(const Scalar& a, const Scalar& b);
};

// Shortest text that reads back to the same value: "0.1", "-inf", "nan", "3", "true".
std::string to_string(const Scalar& s);

}  // namespace bz

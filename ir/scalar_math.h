// The meaning of every scalar op, once: on float64 for floating types and on int64 for integers and bool.
// `evaluate` (one value) and the interpreter (whole arrays) both take their functions from here, the choice
// of op being made outside of the loop:
//
//   visit_float_op(op, [&](auto f) { for (i...) out[i] = f(a[i], b[i], c[i]); });
//
// The functions take three arguments; an op looks at as many as it has operands. select and cast, whose
// operands are of several types, are not among them.
#pragma once

#include <cmath>
#include <cstdint>

#include "ir/ops.h"
#include "support/error.h"

namespace bz::scalar_math {

inline double max(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? b : a;  // +0 above -0
  return a > b ? a : b;
}

inline double min(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

inline double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

inline double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }

// The remainder has the sign of `b`, zero included.
inline double mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

// Integers: sums and products are taken modulo 2^64 and wrapped to the result's type by the caller.
inline std::int64_t wrap_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
inline std::int64_t wrap_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
inline std::int64_t wrap_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

inline std::int64_t floordiv(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return wrap_sub(0, a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

inline std::int64_t mod(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  const std::int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

[[noreturn]] inline void no_such_function(ScalarOp op, const char* domain) {
  throw InternalError(fmt::format("{} has no function on {}", info(op).text, domain));
}

// Ops of floating operands with a floating result.
template <class Use>
void visit_float_op(ScalarOp op, Use&& use) {
  switch (op) {
    case ScalarOp::neg: return use([](double a, double, double) { return -a; });
    case ScalarOp::abs: return use([](double a, double, double) { return std::fabs(a); });
    case ScalarOp::exp: return use([](double a, double, double) { return std::exp(a); });
    case ScalarOp::exp2: return use([](double a, double, double) { return std::exp2(a); });
    case ScalarOp::expm1: return use([](double a, double, double) { return std::expm1(a); });
    case ScalarOp::log: return use([](double a, double, double) { return std::log(a); });
    case ScalarOp::log1p: return use([](double a, double, double) { return std::log1p(a); });
    case ScalarOp::log2: return use([](double a, double, double) { return std::log2(a); });
    case ScalarOp::sqrt: return use([](double a, double, double) { return std::sqrt(a); });
    case ScalarOp::rsqrt: return use([](double a, double, double) { return 1 / std::sqrt(a); });
    case ScalarOp::reciprocal: return use([](double a, double, double) { return 1 / a; });
    case ScalarOp::sin: return use([](double a, double, double) { return std::sin(a); });
    case ScalarOp::cos: return use([](double a, double, double) { return std::cos(a); });
    case ScalarOp::tan: return use([](double a, double, double) { return std::tan(a); });
    case ScalarOp::tanh: return use([](double a, double, double) { return std::tanh(a); });
    case ScalarOp::sigmoid: return use([](double a, double, double) { return sigmoid(a); });
    case ScalarOp::erf: return use([](double a, double, double) { return std::erf(a); });
    case ScalarOp::floor: return use([](double a, double, double) { return std::floor(a); });
    case ScalarOp::ceil: return use([](double a, double, double) { return std::ceil(a); });
    case ScalarOp::round: return use([](double a, double, double) { return std::nearbyint(a); });
    case ScalarOp::trunc: return use([](double a, double, double) { return std::trunc(a); });
    case ScalarOp::sign: return use([](double a, double, double) { return sign(a); });
    case ScalarOp::add: return use([](double a, double b, double) { return a + b; });
    case ScalarOp::sub: return use([](double a, double b, double) { return a - b; });
    case ScalarOp::mul: return use([](double a, double b, double) { return a * b; });
    case ScalarOp::div: return use([](double a, double b, double) { return a / b; });
    case ScalarOp::floordiv: return use([](double a, double b, double) { return std::floor(a / b); });
    case ScalarOp::mod: return use([](double a, double b, double) { return mod(a, b); });
    case ScalarOp::pow: return use([](double a, double b, double) { return std::pow(a, b); });
    case ScalarOp::max: return use([](double a, double b, double) { return max(a, b); });
    case ScalarOp::min: return use([](double a, double b, double) { return min(a, b); });
    case ScalarOp::atan2: return use([](double a, double b, double) { return std::atan2(a, b); });
    case ScalarOp::clamp: return use([](double x, double lo, double hi) { return min(max(x, lo), hi); });
    case ScalarOp::fma: return use([](double a, double b, double c) { return std::fma(a, b, c); });
    case ScalarOp::isnan:
    case ScalarOp::isinf:
    case ScalarOp::isfinite:
    case ScalarOp::logical_not:
    case ScalarOp::logical_and:
    case ScalarOp::logical_or:
    case ScalarOp::logical_xor:
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::gt:
    case ScalarOp::ge:
    case ScalarOp::select:
    case ScalarOp::cast: break;
  }
  no_such_function(op, "floating types");
}

// Ops of integer or bool operands whose result has their type; the result is not yet wrapped to it. `not` of
// bool is the caller's business: it is `1 - x` there.
template <class Use>
void visit_integer_op(ScalarOp op, Use&& use) {
  using I = std::int64_t;
  switch (op) {
    case ScalarOp::neg: return use([](I a, I, I) { return wrap_sub(0, a); });
    case ScalarOp::abs: return use([](I a, I, I) { return a < 0 ? wrap_sub(0, a) : a; });
    case ScalarOp::sign: return use([](I a, I, I) { return static_cast<I>((a > 0) - (a < 0)); });
    case ScalarOp::logical_not: return use([](I a, I, I) { return ~a; });
    case ScalarOp::add: return use([](I a, I b, I) { return wrap_add(a, b); });
    case ScalarOp::sub: return use([](I a, I b, I) { return wrap_sub(a, b); });
    case ScalarOp::mul: return use([](I a, I b, I) { return wrap_mul(a, b); });
    case ScalarOp::floordiv: return use([](I a, I b, I) { return floordiv(a, b); });
    case ScalarOp::mod: return use([](I a, I b, I) { return mod(a, b); });
    case ScalarOp::max: return use([](I a, I b, I) { return a > b ? a : b; });
    case ScalarOp::min: return use([](I a, I b, I) { return a < b ? a : b; });
    case ScalarOp::logical_and: return use([](I a, I b, I) { return a & b; });
    case ScalarOp::logical_or: return use([](I a, I b, I) { return a | b; });
    case ScalarOp::logical_xor: return use([](I a, I b, I) { return a ^ b; });
    case ScalarOp::clamp:
      return use([](I x, I lo, I hi) {
        const I raised = x > lo ? x : lo;
        return raised < hi ? raised : hi;
      });
    case ScalarOp::exp:
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log1p:
    case ScalarOp::log2:
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
    case ScalarOp::reciprocal:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
    case ScalarOp::tanh:
    case ScalarOp::sigmoid:
    case ScalarOp::erf:
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::round:
    case ScalarOp::trunc:
    case ScalarOp::isnan:
    case ScalarOp::isinf:
    case ScalarOp::isfinite:
    case ScalarOp::div:
    case ScalarOp::pow:
    case ScalarOp::atan2:
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::gt:
    case ScalarOp::ge:
    case ScalarOp::select:
    case ScalarOp::fma:
    case ScalarOp::cast: break;
  }
  no_such_function(op, "integers");
}

// Comparisons, on double or int64.
template <class T, class Use>
void visit_comparison(ScalarOp op, Use&& use) {
  if (op == ScalarOp::eq) return use([](T a, T b) { return a == b; });
  if (op == ScalarOp::ne) return use([](T a, T b) { return a != b; });
  if (op == ScalarOp::lt) return use([](T a, T b) { return a < b; });
  if (op == ScalarOp::le) return use([](T a, T b) { return a <= b; });
  if (op == ScalarOp::gt) return use([](T a, T b) { return a > b; });
  if (op == ScalarOp::ge) return use([](T a, T b) { return a >= b; });
  no_such_function(op, "pairs to compare");
}

// isnan, isinf, isfinite.
template <class Use>
void visit_classification(ScalarOp op, Use&& use) {
  if (op == ScalarOp::isnan) return use([](double a) { return std::isnan(a); });
  if (op == ScalarOp::isinf) return use([](double a) { return std::isinf(a); });
  if (op == ScalarOp::isfinite) return use([](double a) { return std::isfinite(a); });
  no_such_function(op, "values to classify");
}

inline bool is_classification(ScalarOp op) {
  return op == ScalarOp::isnan || op == ScalarOp::isinf || op == ScalarOp::isfinite;
}

}  // namespace bz::scalar_math

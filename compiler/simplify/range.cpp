#include "compiler/simplify/range.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace bz {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

bool less(double a, double b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }
double smaller(double a, double b) { return less(b, a) ? b : a; }
double larger(double a, double b) { return less(a, b) ? b : a; }

Range both(const Range& a, const Range& b) {
  return {smaller(a.lo, b.lo), larger(a.hi, b.hi), a.nan || b.nan};
}

// Ends that were computed in f64, after the rounding of `dtype`: rounding keeps the order.
Range rounded(Range r, DType dtype) {
  const auto outward = [&](double v, double to) {
    return v == 0 || std::isinf(v) ? v : std::nextafter(v, to);
  };
  return {round_to(dtype, outward(r.lo, -kInf)), round_to(dtype, outward(r.hi, kInf)), r.nan};
}

bool holds(const Range& r, double v) { return r.lo <= v && v <= r.hi; }
bool infinite(const Range& r) { return !r.finite(); }

Range sum(const Range& a, const Range& b) {
  const bool meets = (holds(a, kInf) && holds(b, -kInf)) || (holds(a, -kInf) && holds(b, kInf));
  Range r{a.lo + b.lo, a.hi + b.hi, a.nan || b.nan || meets};
  if (std::isnan(r.lo)) r.lo = -kInf;
  if (std::isnan(r.hi)) r.hi = kInf;
  return r;
}

Range negated(const Range& a) { return {-a.hi, -a.lo, a.nan}; }

// From the ends of both; where op makes NaN of two ends, anything between may be near.
Range corners(const Range& a, const Range& b, double (*op)(double, double), bool nan) {
  Range r{kInf, -kInf, nan};
  for (const double x : {a.lo, a.hi}) {
    for (const double y : {b.lo, b.hi}) {
      const double v = op(x, y);
      if (std::isnan(v)) return {-kInf, kInf, true};
      r.lo = smaller(r.lo, v);
      r.hi = larger(r.hi, v);
    }
  }
  return r;
}

Range product(const Range& a, const Range& b) {
  const bool nan = a.nan || b.nan || (holds(a, 0) && infinite(b)) || (holds(b, 0) && infinite(a));
  return corners(
      a, b,
      [](double x, double y) {
        return x == 0 || y == 0 ? std::copysign(0.0, std::copysign(1, x) * std::copysign(1, y)) : x * y;
      },
      nan);
}

Range quotient(const Range& a, const Range& b) {
  if (holds(b, 0)) return {};
  return corners(
      a, b, [](double x, double y) { return x / y; }, a.nan || b.nan || (infinite(a) && infinite(b)));
}

Range monotone(const Range& a, double (*f)(double)) { return {f(a.lo), f(a.hi), a.nan}; }
Range within(double lo, double hi, bool nan) { return {lo, hi, nan}; }

Range range_of_map(ScalarOp op, DType dtype, std::span<const Range> x, std::span<const DType> dtypes) {
  const Range all;
  // f32 functions are tested not to step over 1, f64 ones to err by a few units.
  const double one = dtype == DType::f64 ? 1 + 0x1p-40 : 1;
  switch (op) {
    case ScalarOp::neg: return negated(x[0]);
    case ScalarOp::abs: {
      const Range n = negated(x[0]);
      const double least = holds(x[0], 0) ? 0.0 : std::min(std::fabs(x[0].lo), std::fabs(x[0].hi));
      return {least, larger(x[0].hi, n.hi), x[0].nan};
    }
    case ScalarOp::exp:
    case ScalarOp::exp2: return within(0, kInf, x[0].nan);
    case ScalarOp::sqrt:
      if (x[0].lo < 0) return within(-0.0, kInf, true);
      return rounded(monotone(x[0], std::sqrt), dtype);
    case ScalarOp::rsqrt: return within(-kInf, kInf, x[0].nan || x[0].lo < 0);
    case ScalarOp::reciprocal: return rounded(quotient({1, 1, false}, x[0]), dtype);
    case ScalarOp::sin:
    case ScalarOp::cos: return within(-one, one, x[0].nan || infinite(x[0]));
    case ScalarOp::tanh:
    case ScalarOp::erf:
      return within(std::signbit(x[0].lo) ? -one : 0, std::signbit(x[0].hi) ? -0.0 : one, x[0].nan);
    case ScalarOp::sigmoid: return within(0, one, x[0].nan);
    case ScalarOp::floor: return monotone(x[0], std::floor);
    case ScalarOp::ceil: return monotone(x[0], std::ceil);
    case ScalarOp::round: return monotone(x[0], std::nearbyint);
    case ScalarOp::trunc: return monotone(x[0], std::trunc);
    case ScalarOp::sign:
      return within(x[0].lo > 0             ? 1
                    : std::signbit(x[0].lo) ? -1
                                            : 0,
                    x[0].hi < 0             ? -1
                    : std::signbit(x[0].hi) ? -0.0
                                            : 1,
                    x[0].nan);
    case ScalarOp::add: return rounded(sum(x[0], x[1]), dtype);
    case ScalarOp::sub: return rounded(sum(x[0], negated(x[1])), dtype);
    case ScalarOp::mul: return rounded(product(x[0], x[1]), dtype);
    case ScalarOp::div: return rounded(quotient(x[0], x[1]), dtype);
    case ScalarOp::fma: return rounded(sum(product(x[0], x[1]), x[2]), dtype);
    case ScalarOp::max: return {larger(x[0].lo, x[1].lo), larger(x[0].hi, x[1].hi), x[0].nan || x[1].nan};
    case ScalarOp::min: return {smaller(x[0].lo, x[1].lo), smaller(x[0].hi, x[1].hi), x[0].nan || x[1].nan};
    case ScalarOp::clamp:
      return {smaller(larger(x[0].lo, x[1].lo), x[2].lo), smaller(larger(x[0].hi, x[1].hi), x[2].hi),
              x[0].nan || x[1].nan || x[2].nan};
    case ScalarOp::select: return both(x[1], x[2]);
    case ScalarOp::cast:
      if (is_float(dtypes[0])) return {round_to(dtype, x[0].lo), round_to(dtype, x[0].hi), x[0].nan};
      if (dtypes[0] == DType::boolean) return within(0, 1, false);
      return within(-kInf, kInf, false);
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log1p:
    case ScalarOp::log2:
    case ScalarOp::tan:
    case ScalarOp::pow:
    case ScalarOp::atan2:
    case ScalarOp::floordiv:
    case ScalarOp::mod:
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
    case ScalarOp::ge: return all;
  }
  return all;
}

}  // namespace

bool Range::below(const Range& other) const { return !less(other.lo, hi); }
bool Range::finite() const { return std::isfinite(lo) && std::isfinite(hi); }

Range range_of(const Attrs& attrs, DType dtype, std::span<const Range> operands,
               std::span<const DType> dtypes) {
  if (!is_float(dtype)) return {};
  if (const auto* c = std::get_if<ConstantAttrs>(&attrs))
    return std::isnan(c->value.f) ? Range{} : Range{c->value.f, c->value.f, false};
  if (const auto* map = std::get_if<MapAttrs>(&attrs))
    return range_of_map(map->op, map->op == ScalarOp::cast ? dtype : compute_dtype(dtype), operands, dtypes);
  if (const auto* pad = std::get_if<PadAttrs>(&attrs); pad != nullptr && pad->value)
    return both(operands[0], range_of(ConstantAttrs{*pad->value}, dtype, {}, {}));
  if (const auto* reduce = std::get_if<ReduceAttrs>(&attrs)) {
    const bool picks = reduce->monoid == Monoid::max || reduce->monoid == Monoid::min;
    return picks ? operands[0] : Range{};
  }
  if (operands.size() == 1) return operands[0];  // views
  return {};
}

}  // namespace bz

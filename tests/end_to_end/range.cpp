#include "range.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/scalar_math.h"

namespace bz::end_to_end {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = std::numbers::pi;
using Ranges = std::span<const Range>;

const Range kNone = {1, 0, false};

double low(const Range& r) { return static_cast<double>(r.lo); }
double high(const Range& r) { return static_cast<double>(r.hi); }
bool has_zero(const Range& r) { return r.holds(0); }
bool has_infinity(const Range& r) { return !r.empty() && (r.lo == -kInf || r.hi == kInf); }

bool zero_times_infinity(const Range& a, const Range& b) {
  return (has_zero(a) && has_infinity(b)) || (has_infinity(a) && has_zero(b));
}

void include(Range& r, double value) {
  if (std::isnan(value)) {
    r.nan = true;
    return;
  }
  r = hull(r, {value, value});
}
void include_range(Range& r, double lo, double hi) {
  include(r, lo);
  include(r, hi);
}

// Floating arithmetic of one precision.
class Floats {
 public:
  Floats(DType t, Arithmetic arithmetic)
      : arithmetic_(arithmetic), type_(compute_dtype(t)), precision_(precision(t, arithmetic)) {}

  // Results that are rounded once, to nearest.
  Range exact(Range r) const {
    if (arithmetic_ == Arithmetic::own) return rounded(r, type_);
    return arithmetic_ == Arithmetic::folded ? hull(r, rounded(r, type_)) : r;
  }
  // Results of the library: 2 units in the last place in f32; 4 in f64, and those of the reference itself.
  // A unit is at most the spacing at 1 times the value. Signs are right.
  Range library(Range r) const {
    if (r.empty()) return r;
    const double relative = (precision_.spacing > 1e-10 ? 2 : 6) * precision_.spacing;
    const auto error = [&](long double v) { return std::fabs(v) * relative + precision_.smallest; };
    const Range exact = r;
    if (std::isfinite(r.lo)) r.lo -= error(r.lo);
    if (std::isfinite(r.hi)) r.hi += error(r.hi);
    if (exact.lo >= 0) r.lo = std::max(r.lo, 0.0L);
    if (exact.hi <= 0) r.hi = std::min(r.hi, 0.0L);
    return this->exact(r);
  }

  Range apply(ScalarOp op, Ranges x) const;

 private:
  Range unary(ScalarOp op, const Range& x) const;
  Range multiply_add(const Range& a, const Range& b, const Range& c) const;
  Range divide(const Range& a, const Range& b) const;

  Arithmetic arithmetic_;
  DType type_;
  Precision precision_;
};

// The hull of f at all combinations of ends: the range of a function that is monotone in each operand. Beside
// an infinite end there is a finite number: inf * 0 is NaN, and everything before it 0.
template <class F>
Range corners(Ranges x, const F& f) {
  struct Ends {
    std::array<double, 4> value{};
    std::size_t count = 1;
  };
  std::array<Ends, 3> ends;
  for (std::size_t k = 0; k < x.size(); ++k) {
    Ends& e = ends[k];
    e.value[0] = low(x[k]);
    if (x[k].lo == x[k].hi) continue;
    e.value[e.count++] = high(x[k]);
    if (x[k].lo == -kInf) e.value[e.count++] = std::numeric_limits<double>::lowest();
    if (x[k].hi == kInf) e.value[e.count++] = std::numeric_limits<double>::max();
  }
  Range r = kNone;
  for (std::size_t i = 0; i < ends[0].count; ++i) {
    for (std::size_t j = 0; j < ends[1].count; ++j) {
      for (std::size_t k = 0; k < ends[2].count; ++k)
        include(r, f(ends[0].value[i], ends[1].value[j], ends[2].value[k]));
    }
  }
  return r;
}

Range corners(ScalarOp op, Ranges x) {
  Range r;
  scalar_math::visit_float_op(op, [&](auto f) { r = corners(x, f); });
  return r;
}

// x cut off below `lo`, NaN where something is.
Range at_least(Range x, double lo) {
  if (x.lo < lo) x = {lo, x.hi, true};
  return x;
}

// sin(x + phase), of period 2 pi.
Range wave(const Range& x, double phase, double (*f)(double)) {
  Range r = kNone;
  if (has_infinity(x)) r.nan = true;
  const double a = low(x), b = high(x);
  if (a == b) {
    include(r, f(a));
    return r;
  }
  if (b - a > 6 || std::fabs(a) > 1e6) return {-1, 1, r.nan};
  include_range(r, f(a), f(b));
  // A little wider, as the quotients are rounded.
  const auto between = [&](double peak) {
    const double turns = 1e-9;
    return std::floor((b + phase - peak) / (2 * kPi) + turns) >
           std::floor((a + phase - peak) / (2 * kPi) - turns);
  };
  if (between(kPi / 2)) r.hi = 1;
  if (between(-kPi / 2)) r.lo = -1;
  return r;
}

Range tangent(const Range& x) {
  Range r = kNone;
  if (has_infinity(x)) r.nan = true;
  const double a = low(x), b = high(x);
  const bool pole = a != b && (b - a > 3 || std::fabs(a) > 1e6 ||
                               std::floor(b / kPi + 0.5 + 1e-9) > std::floor(a / kPi + 0.5 - 1e-9));
  if (pole) return {-kInf, kInf, r.nan};
  include_range(r, std::tan(a), std::tan(b));
  return r;
}

Range power(const Range& x, const Range& y) {
  Range r = kNone;
  const bool y_zero = y.holds(0), x_one = x.holds(1);
  // NaN to the power 0, and 1 to the power NaN, are 1.
  if ((x.nan && y_zero) || (y.nan && x_one)) include(r, 1);
  r.nan = (x.nan && !(y_zero && y.point())) || (y.nan && !(x_one && x.point()));
  if (x.empty() || y.empty()) return r;
  const auto at = [&](double lo, double hi) {
    const Range base = {lo, hi, false};
    return corners(ScalarOp::pow, std::array{base, y});
  };
  if (x.hi >= 0) r = hull(r, at(std::max(0.0, low(x)), high(x)));
  if (x.lo > 0) return r;
  const double n = low(y);
  const bool integer = y.lo == y.hi && std::floor(n) == n && std::isfinite(n);
  const bool odd = integer && std::fabs(std::fmod(n, 2)) == 1;
  if (x.lo == 0) return n < 0 && (odd || !integer) ? hull(r, {-kInf, kInf, false}) : r;  // of -0
  if (integer && (!odd || n > 0 || x.hi < 0)) {
    const double nearest = std::min(high(x), 0.0);
    include_range(r, std::pow(low(x), n), std::pow(odd ? nearest : std::fabs(nearest), n));
    return r;
  }
  if (y.lo == y.hi && std::isfinite(n) && !integer) {  // NaN, but of -inf
    r.nan = true;
    if (x.lo == -kInf) include(r, std::pow(-kInf, n));
    return r;
  }
  return {-kInf, kInf, true};
}

Range angle(const Range& y, const Range& x) {
  // The cut along the negative axis, and the origin.
  if (has_zero(y) && x.lo <= 0) return {-kPi, kPi, false};
  return corners(ScalarOp::atan2, std::array{y, x});
}

Range remainder(const Range& a, const Range& b) {
  const bool nan = has_infinity(a) || has_zero(b);
  if (b.lo == b.hi) {
    const double d = low(b);
    if (d == 0) return Range::only_nan();
    const double at_lo = scalar_math::mod(low(a), d), at_hi = scalar_math::mod(high(a), d);
    if (a.lo == a.hi) {
      Range r = kNone;
      include(r, at_lo);
      return r;
    }
    // No step in between.
    if (std::fabs((at_hi - at_lo) - (high(a) - low(a))) <= std::fabs(d) * 1e-9 && at_lo <= at_hi) {
      return {at_lo, at_hi, nan};
    }
  }
  return {std::min(0.0L, b.lo), std::max(0.0L, b.hi), nan};
}

Range Floats::multiply_add(const Range& a, const Range& b, const Range& c) const {
  Range r = corners(ScalarOp::fma, std::array{a, b, c});
  r.nan = r.nan || zero_times_infinity(a, b);
  if (arithmetic_ == Arithmetic::reference || type_ == DType::f64 || r.empty()) return r;
  // The ends are rounded to double already: a second rounding to nearest may go the other way.
  const float lo = static_cast<float>(low(r)), hi = static_cast<float>(high(r));
  r.lo = lo == low(r) ? lo : std::nextafter(lo, -std::numeric_limits<float>::infinity());
  r.hi = hi == high(r) ? hi : std::nextafter(hi, std::numeric_limits<float>::infinity());
  return r;
}

Range Floats::divide(const Range& a, const Range& b) const {
  if (!has_zero(b)) return exact(corners(ScalarOp::div, std::array{a, b}));
  if (b.lo == b.hi && a.lo == 0 && a.hi == 0) return Range::only_nan();
  return {-kInf, kInf, has_zero(a) || (has_infinity(a) && has_infinity(b))};
}

bool one_of(ScalarOp op, std::initializer_list<ScalarOp> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

// Increasing ops, and those that have a case of their own.
Range Floats::unary(ScalarOp op, const Range& x) const {
  const auto increasing = [&](const Range& domain) { return corners(op, std::span(&domain, 1)); };
  if (op == ScalarOp::neg) return {-x.hi, -x.lo, false};
  if (op == ScalarOp::abs) {
    const long double least = std::min(std::fabs(x.lo), std::fabs(x.hi));
    return {has_zero(x) ? 0 : least, std::max(std::fabs(x.lo), std::fabs(x.hi)), false};
  }
  if (op == ScalarOp::reciprocal) return divide({1, 1, false}, x);
  if (op == ScalarOp::sin) return library(wave(x, 0, std::sin));
  if (op == ScalarOp::cos) return library(wave(x, kPi / 2, std::cos));
  if (op == ScalarOp::tan) return library(tangent(x));
  if (one_of(op, {ScalarOp::floor, ScalarOp::ceil, ScalarOp::round, ScalarOp::trunc, ScalarOp::sign})) {
    return increasing(x);
  }
  if (!one_of(op, {ScalarOp::log, ScalarOp::log2, ScalarOp::log1p, ScalarOp::sqrt, ScalarOp::rsqrt})) {
    return library(increasing(x));
  }
  const Range domain = at_least(x, op == ScalarOp::log1p ? -1 : 0);
  if (domain.empty()) return Range::only_nan();
  Range r = {-kInf, kInf, false};  // 1 / 0
  if (op == ScalarOp::sqrt) {
    r = exact(increasing(domain));
  } else if (op != ScalarOp::rsqrt || !has_zero(domain)) {
    r = library(increasing(domain));
  }
  r.nan = domain.nan;
  return r;
}

Range Floats::apply(ScalarOp op, Ranges x) const {
  if (op == ScalarOp::pow) return library(power(x[0], x[1]));
  const bool nan = std::any_of(x.begin(), x.end(), [](const Range& r) { return r.nan; });
  if (std::any_of(x.begin(), x.end(), [](const Range& r) { return r.empty(); })) return Range::only_nan();
  Range r;
  if (one_of(op, {ScalarOp::add, ScalarOp::sub, ScalarOp::mul})) {
    r = exact(corners(op, x));
    if (op == ScalarOp::mul) r.nan = r.nan || zero_times_infinity(x[0], x[1]);
  } else if (one_of(op, {ScalarOp::max, ScalarOp::min, ScalarOp::clamp})) {
    r = corners(op, x);
  } else if (op == ScalarOp::div || op == ScalarOp::floordiv) {
    r = divide(x[0], x[1]);
    if (op == ScalarOp::floordiv && !r.empty()) r = {std::floor(r.lo), std::floor(r.hi), r.nan};
  } else if (op == ScalarOp::mod) {
    r = exact(remainder(x[0], x[1]));
  } else if (op == ScalarOp::atan2) {
    r = library(angle(x[0], x[1]));
  } else if (op == ScalarOp::fma) {
    r = multiply_add(x[0], x[1], x[2]);
  } else {
    r = unary(op, x[0]);
  }
  r.nan = r.nan || nan;
  return r;
}

// ---- integers and bool ------------------------------------------------------------------------------------------

Range integers(ScalarOp op, Ranges x, DType t) {
  const bool points = std::all_of(x.begin(), x.end(), [](const Range& r) { return r.lo == r.hi; });
  if (points || t == DType::boolean) {  // of bool all combinations are few
    Range r = kNone;
    for (unsigned corner = 0; corner < 1u << x.size(); ++corner) {
      std::array<Scalar, 3> v;
      for (std::size_t k = 0; k < x.size(); ++k) {
        v[k] = Scalar::of_int(t, static_cast<std::int64_t>((corner >> k & 1u) != 0 ? x[k].hi : x[k].lo));
      }
      r = hull(r, Range::of(evaluate(op, std::span(v.data(), x.size()), t)));
    }
    return r;
  }
  const auto sign = [](long double v) { return static_cast<long double>((v > 0) - (v < 0)); };
  Range r = Range::all(t);  // of an abs, a division or the bits of an uncertain integer
  if (op == ScalarOp::neg) r = {-x[0].hi, -x[0].lo};
  if (op == ScalarOp::sign) r = {sign(x[0].lo), sign(x[0].hi)};
  if (op == ScalarOp::add) r = {x[0].lo + x[1].lo, x[0].hi + x[1].hi};
  if (op == ScalarOp::sub) r = {x[0].lo - x[1].hi, x[0].hi - x[1].lo};
  if (op == ScalarOp::max) r = {std::max(x[0].lo, x[1].lo), std::max(x[0].hi, x[1].hi)};
  if (op == ScalarOp::min) r = {std::min(x[0].lo, x[1].lo), std::min(x[0].hi, x[1].hi)};
  if (op == ScalarOp::clamp) {
    r = {std::min(std::max(x[0].lo, x[1].lo), x[2].lo), std::min(std::max(x[0].hi, x[1].hi), x[2].hi)};
  }
  if (op == ScalarOp::mul) {
    const auto [least, most] =
        std::minmax({x[0].lo * x[1].lo, x[0].lo * x[1].hi, x[0].hi * x[1].lo, x[0].hi * x[1].hi});
    r = {least, most};
  }
  const Range all = Range::all(t);
  return r.lo < all.lo || r.hi > all.hi ? all : r;
}

Range truth(bool can_be_false, bool can_be_true) {
  return {can_be_false ? 0.0L : 1.0L, can_be_true ? 1.0L : 0.0L};
}

Range classify(ScalarOp op, const Range& x) {
  const bool infinite = has_infinity(x), finite = !x.empty() && x.lo < kInf && x.hi > -kInf;
  if (op == ScalarOp::isnan) return truth(!x.empty(), x.nan);
  if (op == ScalarOp::isinf) return truth(finite || x.nan, infinite);
  return truth(infinite || x.nan, finite);
}

Range compare(ScalarOp op, const Range& a, const Range& b) {
  const bool nan = a.nan || b.nan, numbers = !a.empty() && !b.empty();
  if (op == ScalarOp::gt) return compare(ScalarOp::lt, b, a);
  if (op == ScalarOp::ge) return compare(ScalarOp::le, b, a);
  if (op == ScalarOp::lt) return truth(nan || (numbers && a.hi >= b.lo), numbers && a.lo < b.hi);
  if (op == ScalarOp::le) return truth(nan || (numbers && a.hi > b.lo), numbers && a.lo <= b.hi);
  const bool can_equal = numbers && a.lo <= b.hi && b.lo <= a.hi;
  const bool can_differ = nan || (numbers && !(a.lo == a.hi && b.lo == b.hi && a.lo == b.lo));
  return op == ScalarOp::eq ? truth(can_differ, can_equal) : truth(can_equal, can_differ);
}

Range cast(const Range& x, DType from, DType to, Arithmetic arithmetic) {
  if (to == DType::boolean) {
    const bool other = !x.empty() && (x.lo != 0 || x.hi != 0);
    return truth(has_zero(x), other || x.nan);
  }
  if (is_float(from) && is_float(to)) {
    // What the arithmetic of the operand holds already need not be rounded again: the interpreter does.
    const bool widens = to == DType::f64 || to == compute_dtype(from);
    return widens && arithmetic != Arithmetic::own ? hull(x, rounded(x, to)) : rounded(x, to);
  }
  if (is_float(from)) {
    Range r = x.nan ? Range{0, 0} : kNone;
    if (x.empty()) return r;
    return hull(r, {static_cast<long double>(Scalar::of(to, low(x)).i),
                    static_cast<long double>(Scalar::of(to, high(x)).i)});
  }
  const auto lo = static_cast<std::int64_t>(x.lo), hi = static_cast<std::int64_t>(x.hi);
  if (is_float(to)) return {Scalar::of_int(to, lo).f, Scalar::of_int(to, hi).f};
  const Range all = Range::all(to);
  if (x.lo >= all.lo && x.hi <= all.hi) return x;
  return x.point() ? Range::of(Scalar::of_int(to, lo)) : all;
}

}  // namespace

Range Range::of(const Scalar& value) {
  if (!is_float(value.dtype)) {
    const auto v = static_cast<long double>(value.i);
    return {v, v};
  }
  return std::isnan(value.f) ? only_nan() : Range{value.f, value.f};
}

Range Range::only_nan() { return {1, 0, true}; }

Range Range::all(DType t) {
  if (is_float(t)) return {-kInf, kInf, true};
  if (t == DType::boolean) return {0, 1};
  if (t == DType::i32)
    return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
  return {static_cast<long double>(std::numeric_limits<std::int64_t>::min()),
          static_cast<long double>(std::numeric_limits<std::int64_t>::max())};
}

Range hull(const Range& a, const Range& b) {
  const bool nan = a.nan || b.nan;
  if (a.empty()) return {b.lo, b.hi, nan};
  if (b.empty()) return {a.lo, a.hi, nan};
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), nan};
}

Range rounded(Range r, DType t) {
  if (!is_float(t) || r.empty()) return r;
  r.lo = round_to(t, low(r));
  r.hi = round_to(t, high(r));
  return r;
}

Precision precision(DType t, Arithmetic arithmetic) {
  if (compute_dtype(t) == DType::f64 || arithmetic != Arithmetic::own) {
    return {0x1p-52, 0x1p-1074, 0x1p-1022, std::numeric_limits<double>::max()};
  }
  return {0x1p-23, 0x1p-149, 0x1p-126, static_cast<double>(std::numeric_limits<float>::max())};
}

Range map(ScalarOp op, std::span<const Range> x, DType operand, DType result, Arithmetic arithmetic) {
  if (op == ScalarOp::cast) return cast(x[0], operand, result, arithmetic);
  if (op == ScalarOp::select) {
    Range r = kNone;
    if (x[0].hi == 1) r = hull(r, x[1]);
    if (x[0].lo == 0) r = hull(r, x[2]);
    return r;
  }
  if (scalar_math::is_classification(op)) return classify(op, x[0]);
  if (info(op).result == Result::boolean) return compare(op, x[0], x[1]);
  if (is_float(operand)) return Floats(operand, arithmetic).apply(op, x);
  return integers(op, x, operand);
}

std::string to_string(const Range& r) {
  if (r.empty()) return "NaN";
  const std::string nan = r.nan ? " or NaN" : "";
  const auto number = [](long double v) { return fmt::format("{:.17Lg}", v); };
  return r.lo == r.hi ? number(r.lo) + nan : fmt::format("{} to {}{}", number(r.lo), number(r.hi), nan);
}

}  // namespace bz::end_to_end

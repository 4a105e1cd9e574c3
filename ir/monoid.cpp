#include "ir/monoid.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "support/error.h"

namespace bz {
namespace {

using Handle = ScalarBuilder::Handle;
constexpr Handle kAlways = -1;
constexpr double kInf = std::numeric_limits<double>::infinity();

// Arithmetic of one type against a ScalarBuilder.
struct Arith {
  ScalarBuilder& b;
  DType t;

  Handle un(ScalarOp op, Handle x) const { return b.apply(op, std::array{x}, t); }
  Handle bin(ScalarOp op, Handle x, Handle y) const { return b.apply(op, std::array{x, y}, t); }
  Handle test(ScalarOp op, Handle x, Handle y) const { return b.apply(op, std::array{x, y}, DType::boolean); }
  Handle test(ScalarOp op, Handle x) const { return b.apply(op, std::array{x}, DType::boolean); }
  Handle both(Handle x, Handle y) const {
    return b.apply(ScalarOp::logical_and, std::array{x, y}, DType::boolean);
  }
  Handle either(Handle x, Handle y) const {
    return b.apply(ScalarOp::logical_or, std::array{x, y}, DType::boolean);
  }
  Handle select(Handle c, Handle x, Handle y) const { return select(c, x, y, t); }
  Handle select(Handle c, Handle x, Handle y, DType type) const {
    return b.apply(ScalarOp::select, std::array{c, x, y}, type);
  }
  Handle fold(ScalarOp op, const Handles& values) const { return b.fold(op, values, t); }
  // Of x[i] y[i], rounded only where they are added.
  Handle sum_of_products(const Handles& x, const Handles& y) const {
    Handle sum = bin(ScalarOp::mul, x[0], y[0]);
    for (std::size_t i = 1; i < x.size(); ++i) sum = b.apply(ScalarOp::fma, std::array{x[i], y[i], sum}, t);
    return fold(ScalarOp::add, {sum});
  }
  Handle value(double v) const { return b.constant(Scalar::of(t, v)); }
  // x where it counts, the identity `none` elsewhere.
  Handle masked(Handle valid, Handle x, Handle none) const {
    return valid == kAlways ? x : select(valid, x, none);
  }
};

// Component `c` of each.
Handles components(std::span<const Handles> states, std::size_t c) {
  Handles all;
  for (const Handles& s : states) all.push_back(s[c]);
  return all;
}

// ---- one component, one op: sum prod max min any all ---------------------------------------------------------

struct Simple {
  ScalarOp op;
  Scalar (*none)(DType t);
};

Scalar lowest(DType t) {
  if (is_float(t)) return Scalar::of(t, -kInf);
  return Scalar::of_int(t, t == DType::i32 ? std::numeric_limits<std::int32_t>::min()
                                           : std::numeric_limits<std::int64_t>::min());
}
Scalar highest(DType t) {
  if (is_float(t)) return Scalar::of(t, kInf);
  return Scalar::of_int(t, t == DType::i32 ? std::numeric_limits<std::int32_t>::max()
                                           : std::numeric_limits<std::int64_t>::max());
}

constexpr Simple kSum{ScalarOp::add, [](DType t) { return Scalar::of(t, 0); }};
constexpr Simple kProd{ScalarOp::mul, [](DType t) { return Scalar::of(t, 1); }};
constexpr Simple kMax{ScalarOp::max, lowest};
constexpr Simple kMin{ScalarOp::min, highest};
constexpr Simple kAny{ScalarOp::logical_or, [](DType t) { return Scalar::of_int(t, 0); }};
constexpr Simple kAll{ScalarOp::logical_and, [](DType t) { return Scalar::of_int(t, 1); }};

std::vector<DType> same_dtype(DType t, int) { return {compute_dtype(t)}; }

template <const Simple& S>
std::vector<Scalar> simple_identity(DType t, int) {
  return {S.none(compute_dtype(t))};
}
template <const Simple& S>
Handles simple_combine(ScalarBuilder& b, DType t, const Handles& l, const Handles& r) {
  return {Arith{b, compute_dtype(t)}.bin(S.op, l[0], r[0])};
}
template <const Simple& S>
Handles simple_lift(ScalarBuilder& b, DType t, std::span<const Handles> chunk, const Handles& valid) {
  const Arith a{b, compute_dtype(t)};
  std::vector<Handle> v;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const Handle x = chunk[i][0];
    v.push_back(valid[i] == kAlways ? x : a.select(valid[i], x, b.constant(S.none(a.t))));
  }
  return {a.fold(S.op, v)};
}

// ---- argmax, argmin: (value, index) ---------------------------------------------------------------------------
// The better value wins, NaN is better than any number, the smaller index wins among equals. The identity's index
// is the largest there is, so that it never wins against an element.

std::vector<DType> arg_dtypes(DType t, int) { return {compute_dtype(t), DType::i64}; }

template <bool kIsMax>
std::vector<Scalar> arg_identity(DType t, int) {
  t = compute_dtype(t);
  return {kIsMax ? lowest(t) : highest(t),
          Scalar::of_int(DType::i64, std::numeric_limits<std::int64_t>::max())};
}
template <bool kIsMax>
Handles arg_combine(ScalarBuilder& b, DType t, const Handles& l, const Handles& r) {
  const Arith a{b, compute_dtype(t)};
  Handle better = a.test(kIsMax ? ScalarOp::gt : ScalarOp::lt, l[0], r[0]);
  Handle equal = a.test(ScalarOp::eq, l[0], r[0]);
  if (is_float(a.t)) {
    const Handle left_nan = a.test(ScalarOp::isnan, l[0]);
    const Handle right_nan = a.test(ScalarOp::isnan, r[0]);
    const Handle right_number = b.apply(ScalarOp::logical_not, std::array{right_nan}, DType::boolean);
    better = a.either(better, a.both(left_nan, right_number));
    equal = a.either(equal, a.both(left_nan, right_nan));
  }
  const Handle left_first = a.test(ScalarOp::lt, l[1], r[1]);
  const Handle left = a.either(better, a.both(equal, left_first));
  return {a.select(left, l[0], r[0]), a.select(left, l[1], r[1], DType::i64)};
}
template <bool kIsMax>
Handles arg_lift(ScalarBuilder& b, DType t, std::span<const Handles> chunk, const Handles& valid) {
  const Arith a{b, compute_dtype(t)};
  const std::vector<Scalar> none = arg_identity<kIsMax>(t, 2);
  Handles state;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    Handles s = chunk[i];
    if (valid[i] != kAlways) {
      s[0] = a.select(valid[i], s[0], b.constant(none[0]));
      s[1] = a.select(valid[i], s[1], b.constant(none[1]), DType::i64);
    }
    const Handles values = b.elements(s[0]), indices = b.elements(s[1]);
    for (std::size_t e = 0; e < values.size(); ++e) {
      const Handles one = {values[e], indices[e < indices.size() ? e : 0]};
      state = state.empty() ? one : arg_combine<kIsMax>(b, t, state, one);
    }
  }
  return state;
}

// ---- max_sumexp: (m, s, t1, ..), sums of exp(x - p(m)) and exp(x - p(m)) * w, p(m) = 0 where m is infinite, else m --

std::vector<DType> max_sumexp_dtypes(DType t, int inputs) {
  return std::vector<DType>(static_cast<std::size_t>(inputs) + 1, compute_dtype(t));
}
std::vector<Scalar> max_sumexp_identity(DType t, int inputs) {
  std::vector<Scalar> none(static_cast<std::size_t>(inputs) + 1, Scalar::of(compute_dtype(t), 0));
  none[0] = lowest(compute_dtype(t));
  return none;
}
// The sums are rescaled by exp(own m - p(common m)), which for the side that has the larger maximum, or both, is 1: that keeps
// (-inf, 0) merged with (-inf, 0) free of the NaN of -inf - -inf. Weights make it matter that p(+inf) is 0: what finite
// elements have beside +inf is their exponential, not 0, of which an infinite weight would make NaN.
Handles max_sumexp_combine(ScalarBuilder& b, DType t, const Handles& l, const Handles& r) {
  const Arith a{b, compute_dtype(t)};
  const Handle m = a.bin(ScalarOp::max, l[0], r[0]), less = a.bin(ScalarOp::min, l[0], r[0]);
  const Handle zero = a.value(0), one = a.value(1);
  const bool weighted = l.size() > 2;
  const Handle pivot = weighted ? a.select(a.test(ScalarOp::isinf, m), zero, m) : m;
  const Handle shift = a.select(a.test(ScalarOp::eq, less, m), zero, a.bin(ScalarOp::sub, less, pivot));
  const Handle rescaled = weighted ? a.un(ScalarOp::exp, shift) : b.exp_nonpositive(shift, a.t);
  const auto factor = [&](Handle own) { return a.select(a.test(ScalarOp::eq, own, m), one, rescaled); };
  const Handle left = factor(l[0]), right = factor(r[0]);
  Handles state = {m};
  for (std::size_t c = 1; c < l.size(); ++c) {
    state.push_back(
        a.bin(ScalarOp::add, a.bin(ScalarOp::mul, l[c], left), a.bin(ScalarOp::mul, r[c], right)));
  }
  return state;
}
// exp(own - p(m)) for an own maximum of at most m.
Handle max_sumexp_factor(const Arith& a, Handle own, Handle m, bool weighted) {
  const Handle equal = a.test(ScalarOp::eq, own, m), one = a.value(1);
  if (!weighted) return a.select(equal, one, a.b.exp_nonpositive(a.bin(ScalarOp::sub, own, m), a.t));
  const Handle pivot = a.select(a.test(ScalarOp::isinf, m), a.value(0), m);
  return a.select(equal, one, a.un(ScalarOp::exp, a.bin(ScalarOp::sub, own, pivot)));
}
// The maximum of all, to whose scale each brings its sums.
Handles max_sumexp_together(ScalarBuilder& b, DType t, std::span<const Handles> states, const FoldAll& all) {
  const Arith a{b, compute_dtype(t)};
  const Handle m = all(ScalarOp::max, components(states, 0));
  Handles factors;
  for (const Handles& s : states) factors.push_back(max_sumexp_factor(a, s[0], m, s.size() > 2));
  Handles whole = {m};
  for (std::size_t c = 1; c < states[0].size(); ++c) {
    Handles scaled;
    for (std::size_t i = 0; i < states.size(); ++i)
      scaled.push_back(a.bin(ScalarOp::mul, states[i][c], factors[i]));
    whole.push_back(all(ScalarOp::add, scaled));
  }
  return whole;
}

// Without weights: a sum of terms, which means something where the maximum is a number. Of nothing it is 0, beside +inf it is +inf.
Handle with_infinite_maximum(const Arith& a, Handle m, Handle sum) {
  return a.select(a.test(ScalarOp::isinf, m), a.bin(ScalarOp::max, m, a.value(0)), sum);
}
Handles masked_elements(const Arith& a, std::span<const Handles> chunk, const Handles& valid) {
  Handles x;
  for (std::size_t i = 0; i < chunk.size(); ++i) x.push_back(a.masked(valid[i], chunk[i][0], a.value(-kInf)));
  return x;
}

// The maximum of the chunk first, then one exponential an element.
Handles max_sumexp_lift(ScalarBuilder& b, DType t, std::span<const Handles> chunk, const Handles& valid) {
  const Arith a{b, compute_dtype(t)};
  const Handle zero = a.value(0);
  Handles x = masked_elements(a, chunk, valid), e;
  const Handle m = a.fold(ScalarOp::max, x);
  const Handle pivot = a.select(a.test(ScalarOp::isinf, m), zero, m);
  for (Handle& v : x) v = a.bin(ScalarOp::sub, v, pivot);
  if (chunk[0].size() == 1) return {m, with_infinite_maximum(a, m, b.sum_of_terms(x, a.t))};
  for (const Handle shifted : x) e.push_back(a.un(ScalarOp::exp, shifted));
  Handles state = {m, a.fold(ScalarOp::add, e)};
  for (std::size_t w = 1; w < chunk[0].size(); ++w) {
    Handles products;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      products.push_back(a.masked(valid[i], a.bin(ScalarOp::mul, e[i], chunk[i][w]), zero));
    }
    state.push_back(a.fold(ScalarOp::add, products));
  }
  return state;
}

// Running: (m, s, p) with s = sum exp(x - p) for a pivot p that follows m only when it is left behind by more than kHighestTerm,
// which is seldom. p is finite, so that x - p is no NaN for an infinite x, or NaN as soon as an element is: the least number at first, and
// the largest where m is +inf and s means nothing.
double largest(DType t) {
  return t == DType::f64 ? std::numeric_limits<double>::max()
                         : static_cast<double>(std::numeric_limits<float>::max());
}
std::vector<DType> max_sumexp_running_dtypes(DType t) { return std::vector<DType>(3, compute_dtype(t)); }
std::vector<Scalar> max_sumexp_start(DType t) {
  t = compute_dtype(t);
  return {lowest(t), Scalar::of(t, 0), Scalar::of(t, -largest(t))};
}
Handles max_sumexp_add(ScalarBuilder& b, DType t, const Handles& running, std::span<const Handles> chunk,
                       const Handles& valid) {
  const Arith a{b, compute_dtype(t)};
  Handles x = masked_elements(a, chunk, valid);
  const Handle m = a.bin(ScalarOp::max, running[0], a.fold(ScalarOp::max, x));
  const Handle near =
      a.test(ScalarOp::le, a.bin(ScalarOp::sub, m, running[2]), a.value(ScalarBuilder::kHighestTerm));
  const Handle left_behind = b.apply(ScalarOp::logical_not, std::array{near}, DType::boolean);
  const Handles scaled = b.replace_if(left_behind, std::array{running[1], running[2]}, a.t, [&] {
    const Handle pivot = a.bin(ScalarOp::min, m, a.value(largest(a.t)));
    const Handle factor = b.exp_nonpositive(a.bin(ScalarOp::sub, running[2], pivot), a.t);
    return Handles{a.bin(ScalarOp::mul, running[1], factor), pivot};
  });
  for (Handle& v : x) v = a.bin(ScalarOp::sub, v, scaled[1]);
  return {m, a.bin(ScalarOp::add, scaled[0], b.sum_of_terms(x, a.t)), scaled[1]};
}
Handles max_sumexp_state(ScalarBuilder& b, DType t, const Handles& running) {
  const Arith a{b, compute_dtype(t)};
  const Handle m = running[0];
  const Handle factor = b.exp_nonpositive(a.bin(ScalarOp::sub, running[2], m), a.t);
  return {m, with_infinite_maximum(a, m, a.bin(ScalarOp::mul, running[1], factor))};
}
constexpr Running kMaxSumexpRunning{max_sumexp_running_dtypes, max_sumexp_start, max_sumexp_add,
                                    max_sumexp_state, 1};

// ---- moments: (n, hi, lo, m2), mean = hi + lo ---------------------------------------------------------------------

std::vector<DType> moments_dtypes(DType t, int) { return std::vector<DType>(4, compute_dtype(t)); }
std::vector<Scalar> moments_identity(DType t, int) {
  return std::vector<Scalar>(4, Scalar::of(compute_dtype(t), 0));
}

// (hi + lo) + nothing lost: hi is the rounded sum. Where it is infinite or NaN, so is the mean and lo is 0.
std::pair<Handle, Handle> renormalise(const Arith& a, Handle hi, Handle lo) {
  const Handle sum = a.bin(ScalarOp::add, hi, lo);
  const Handle rest = a.bin(ScalarOp::add, a.bin(ScalarOp::sub, hi, sum), lo);
  return {sum, a.select(a.test(ScalarOp::isfinite, sum), rest, a.value(0))};
}

// Chan, Golub and LeVeque 1983, relative to the left pivot. Where means have no finite distance, because one is infinite
// or they are of opposite sign and too large, the mean is weighed directly (inf, or NaN for inf and -inf).
Handles moments_combine(ScalarBuilder& b, DType t, const Handles& l, const Handles& r) {
  const Arith a{b, compute_dtype(t)};
  const Handle n = a.bin(ScalarOp::add, l[0], r[0]);
  const Handle delta =
      a.bin(ScalarOp::add, a.bin(ScalarOp::sub, r[1], l[1]), a.bin(ScalarOp::sub, r[2], l[2]));
  const Handle inverse = a.un(ScalarOp::reciprocal, n);
  const Handle left_share = a.bin(ScalarOp::mul, l[0], inverse), share = a.bin(ScalarOp::mul, r[0], inverse);
  const Handle lo = a.bin(ScalarOp::add, l[2], a.bin(ScalarOp::mul, delta, share));
  const Handle near = a.test(ScalarOp::isfinite, delta);
  const auto [near_hi, near_lo] = renormalise(a, l[1], lo);
  const Handle far_hi =
      a.bin(ScalarOp::add, a.bin(ScalarOp::mul, l[1], left_share), a.bin(ScalarOp::mul, r[1], share));
  const Handle hi = a.select(near, near_hi, far_hi);
  const Handle rest = a.select(near, near_lo, a.value(0));
  const Handle between =
      a.bin(ScalarOp::mul, a.bin(ScalarOp::mul, delta, delta), a.bin(ScalarOp::mul, l[0], share));
  const Handle m2 = a.bin(ScalarOp::add, a.bin(ScalarOp::add, l[3], r[3]), between);
  // An empty side leaves the other as it is, bit by bit.
  const Handle left_empty = a.test(ScalarOp::eq, l[0], a.value(0));
  const Handle right_empty = a.test(ScalarOp::eq, r[0], a.value(0));
  const auto pick = [&](Handle both, int c) {
    return a.select(right_empty, l[c], a.select(left_empty, r[c], both));
  };
  return {n, pick(hi, 1), pick(rest, 2), pick(m2, 3)};
}
// The single elements of a chunk, and whether each is there.
struct Elements {
  Handles x, there;
  bool masked() const {
    return std::any_of(there.begin(), there.end(), [](Handle h) { return h != kAlways; });
  }
  // How many are there.
  Handle count(const Arith& a) const {
    if (!masked()) return a.value(static_cast<double>(x.size()));
    Handles ones;
    for (const Handle h : there) ones.push_back(a.masked(h, a.value(1), a.value(0)));
    return a.fold(ScalarOp::add, ones);
  }
};
Elements elements_of(ScalarBuilder& b, std::span<const Handles> chunk, const Handles& valid) {
  Elements all;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    const Handles e = b.elements(chunk[i][0]);
    const Handles v = valid[i] == kAlways ? Handles{kAlways} : b.elements(valid[i]);
    all.x.insert(all.x.end(), e.begin(), e.end());
    for (std::size_t j = 0; j < e.size(); ++j) all.there.push_back(v[j < v.size() ? j : 0]);
  }
  return all;
}

// Differences to a value that is nearly the mean, scaled down where it is so large that the squares of its rounding are beyond all numbers.
class Differences {
 public:
  Differences(const Arith& a, Handle mean) : a_(a), mean_(mean) {
    const bool wide = a.t == DType::f64;
    // A mean of the largest numbers may have been rounded up to infinity.
    const double largest_number = largest(a.t);
    const Handle hi =
        a.bin(ScalarOp::max, a.bin(ScalarOp::min, mean, a.value(largest_number)), a.value(-largest_number));
    hi_ = hi;
    const double large = wide ? 0x1p+480 : 0x1p+60, scale = wide ? 0x1p-500 : 0x1p-64;
    const Handle near = a.test(ScalarOp::lt, a.un(ScalarOp::abs, hi), a.value(large));
    down_ = a.select(near, a.value(1), a.value(scale));
    up_ = a.select(near, a.value(1), a.value(1 / scale));
    pivot_ = a.un(ScalarOp::neg, a.bin(ScalarOp::mul, hi, down_));
  }
  Handle of(Handle x) const { return a_.b.apply(ScalarOp::fma, std::array{x, down_, pivot_}, a_.t); }
  Handle of(Handle x, Handle rest) const {
    return a_.b.apply(ScalarOp::fma, std::array{rest, down_, of(x)}, a_.t);
  }
  // A sum of squares in the scale of squares of differences.
  Handle scaled(Handle m2) const { return a_.bin(ScalarOp::mul, a_.bin(ScalarOp::mul, m2, down_), down_); }
  // The state of n values, of the sums e of their differences and q of the squares of these (the corrected two-pass algorithm of Chan, Golub
  // and LeVeque 1983). Nothing cancels, and of equal values, whose differences have few bits, the mean is exact: the quotient of an exact sum.
  // Where e is beyond all numbers the given mean is the mean, and q infinite, or NaN where the mean is not finite.
  Handles state(Handle n, Handle e, Handle q) const {
    const Handle near = a_.test(ScalarOp::isfinite, e);
    const Handle lo =
        a_.bin(ScalarOp::div, a_.select(near, e, a_.value(0)), a_.bin(ScalarOp::max, n, a_.value(1)));
    const Handle corrected = a_.b.apply(ScalarOp::fma, std::array{a_.un(ScalarOp::neg, lo), e, q}, a_.t);
    const Handle far_m2 = a_.bin(ScalarOp::add, q, a_.bin(ScalarOp::sub, mean_, mean_));
    const Handle m2 = a_.select(near, a_.bin(ScalarOp::max, corrected, a_.value(0)), far_m2);
    const auto [sum, rest] = renormalise(a_, a_.select(near, hi_, mean_), a_.bin(ScalarOp::mul, lo, up_));
    return {n, sum, rest, a_.bin(ScalarOp::mul, a_.bin(ScalarOp::mul, m2, up_), up_)};
  }

 private:
  const Arith& a_;
  Handle mean_, hi_, down_, up_, pivot_;
};

// Two passes over the chunk: the mean as the sum of x / n, then the differences.
Handles moments_lift(ScalarBuilder& b, DType t, std::span<const Handles> chunk, const Handles& valid) {
  const Arith a{b, compute_dtype(t)};
  const Handle zero = a.value(0), one = a.value(1);
  const Elements all = elements_of(b, chunk, valid);
  const Handle n = all.count(a);
  if (all.x.size() == 1) {  // x - x is 0, or the NaN that an infinite element makes of the deviations
    const Handle x = a.masked(all.there[0], all.x[0], zero);
    return {n, x, zero, a.bin(ScalarOp::sub, x, x)};
  }
  const Handle inverse = all.masked() ? a.un(ScalarOp::reciprocal, a.bin(ScalarOp::max, n, one))
                                      : a.value(1 / static_cast<double>(all.x.size()));
  Handles x;
  for (std::size_t i = 0; i < chunk.size(); ++i) x.push_back(a.masked(valid[i], chunk[i][0], zero));
  const Handle hi = a.sum_of_products(x, Handles(x.size(), inverse));
  const Differences differences(a, hi);
  // One after the other, so that no difference is held.
  Handle e = kAlways, q = kAlways;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Handle d = a.masked(valid[i], differences.of(x[i]), zero);
    e = i == 0 ? d : a.bin(ScalarOp::add, e, d);
    q = i == 0 ? a.bin(ScalarOp::mul, d, d) : b.apply(ScalarOp::fma, std::array{d, d, q}, a.t);
  }
  return differences.state(n, a.fold(ScalarOp::add, {e}), a.fold(ScalarOp::add, {q}));
}

// The same of means and their weights.
Handles moments_together(ScalarBuilder& b, DType t, std::span<const Handles> states, const FoldAll& all) {
  const Arith a{b, compute_dtype(t)};
  const Handle n = all(ScalarOp::add, components(states, 0));
  const Handle inverse = a.un(ScalarOp::reciprocal, a.bin(ScalarOp::max, n, a.value(1)));
  Handles means;
  for (const Handles& s : states)
    means.push_back(a.bin(ScalarOp::mul, a.bin(ScalarOp::mul, s[0], inverse), s[1]));
  const Handle hi = all(ScalarOp::add, means);
  const Differences differences(a, hi);
  Handles weighted, squares;
  for (const Handles& s : states) {
    const Handle d = differences.of(s[1], s[2]);
    weighted.push_back(a.bin(ScalarOp::mul, s[0], d));
    squares.push_back(b.apply(ScalarOp::fma, std::array{weighted.back(), d, differences.scaled(s[3])}, a.t));
  }
  return differences.state(n, all(ScalarOp::add, weighted), all(ScalarOp::add, squares));
}

// Running: (n, p, s, q) with s = sum (x - p) and q = sum (x - p)^2 for a pivot p, 0 at first and then near the elements. A chunk whose own mean is more
// than its deviation from the pivot makes the mean of all so far the next one, by way of the state. So s^2 / n is at most half of q, and m2,
// their difference, has one bit less than q (or is 0, where squares are too small for a number).
std::vector<DType> moments_running_dtypes(DType t) { return moments_dtypes(t, 1); }
std::vector<Scalar> moments_start(DType t) { return moments_identity(t, 1); }
Handles moments_state(ScalarBuilder& b, DType t, const Handles& running) {
  const Arith a{b, compute_dtype(t)};
  const Handle n = a.bin(ScalarOp::max, running[0], a.value(1));
  const Handle lo = a.bin(ScalarOp::mul, running[2], a.un(ScalarOp::reciprocal, n));
  const Handle m2 = b.apply(ScalarOp::fma, std::array{a.un(ScalarOp::neg, running[2]), lo, running[3]}, a.t);
  const auto [hi, rest] = renormalise(a, running[1], lo);
  return {running[0], hi, rest, a.bin(ScalarOp::max, m2, a.value(0))};
}
Handles moments_add(ScalarBuilder& b, DType t, const Handles& running, std::span<const Handles> chunk,
                    const Handles& valid) {
  const Arith a{b, compute_dtype(t)};
  Handles d;
  for (std::size_t i = 0; i < chunk.size(); ++i)
    d.push_back(a.masked(valid[i], a.bin(ScalarOp::sub, chunk[i][0], running[1]), a.value(0)));
  const Handle sum = a.fold(ScalarOp::add, d), squares = a.sum_of_products(d, d);
  const Handle n = elements_of(b, chunk, valid).count(a);
  const Handles next = {a.bin(ScalarOp::add, running[0], n), running[1],
                        a.bin(ScalarOp::add, running[2], sum), a.bin(ScalarOp::add, running[3], squares)};
  const Handle sum_squared = a.bin(ScalarOp::mul, sum, sum);
  // Not so where any of them is infinite or NaN, or too small to have a square.
  const Handle half = a.bin(ScalarOp::mul, squares, a.bin(ScalarOp::mul, n, a.value(0.5)));
  const Handle near =
      a.both(a.either(a.test(ScalarOp::lt, sum_squared, half), a.test(ScalarOp::eq, sum, a.value(0))),
             a.test(ScalarOp::isfinite, a.bin(ScalarOp::add, sum_squared, next[3])));
  const Handle far = b.apply(ScalarOp::logical_not, std::array{near}, DType::boolean);
  return b.replace_if(far, next, a.t, [&] {
    const Handles all = moments_combine(b, t, moments_state(b, t, running), moments_lift(b, t, chunk, valid));
    const Handle s = a.bin(ScalarOp::mul, all[0], all[2]);
    return Handles{all[0], all[1], s, b.apply(ScalarOp::fma, std::array{s, all[2], all[3]}, a.t)};
  });
}
// Of fewer elements the mean is often far from a good pivot: of 8 normal ones in 2 % of all chunks, and a warp goes the way of any of its lanes.
constexpr int kLeastOfMoments = 16;
constexpr Running kMomentsRunning{moments_running_dtypes, moments_start, moments_add, moments_state,
                                  kLeastOfMoments};

constexpr MonoidInfo kMonoids[] = {
    {Monoid::sum, "sum", 1, 1, false, true, true, "sum of the elements; 0 for none", same_dtype,
     simple_identity<kSum>, simple_combine<kSum>, simple_lift<kSum>},
    {Monoid::prod, "prod", 1, 1, false, true, true, "product of the elements; 1 for none", same_dtype,
     simple_identity<kProd>, simple_combine<kProd>, simple_lift<kProd>},
    {Monoid::max, "max", 1, 1, false, true, true, "largest element; NaN if any is", same_dtype,
     simple_identity<kMax>, simple_combine<kMax>, simple_lift<kMax>},
    {Monoid::min, "min", 1, 1, false, true, true, "smallest element; NaN if any is", same_dtype,
     simple_identity<kMin>, simple_combine<kMin>, simple_lift<kMin>},
    {Monoid::any, "any", 1, 1, false, true, true, "whether any element is true; false for none", same_dtype,
     simple_identity<kAny>, simple_combine<kAny>, simple_lift<kAny>},
    {Monoid::all, "all", 1, 1, false, true, true, "whether all elements are true; true for none", same_dtype,
     simple_identity<kAll>, simple_combine<kAll>, simple_lift<kAll>},
    {Monoid::argmax, "argmax", 2, 2, false, true, true,
     "row-major index of the first largest element, or of the first NaN", arg_dtypes, arg_identity<true>,
     arg_combine<true>, arg_lift<true>},
    {Monoid::argmin, "argmin", 2, 2, false, true, true,
     "row-major index of the first smallest element, or of the first NaN", arg_dtypes, arg_identity<false>,
     arg_combine<false>, arg_lift<false>},
    {Monoid::max_sumexp, "max_sumexp", 1, 2, true, true, false,
     "largest element m and the sums of exp(x - m) and of exp(x - m) * w, in one pass", max_sumexp_dtypes,
     max_sumexp_identity, max_sumexp_combine, max_sumexp_lift, max_sumexp_together, &kMaxSumexpRunning},
    {Monoid::moments, "moments", 1, 4, false, false, false,
     "count, mean in two parts and sum of squared deviations", moments_dtypes, moments_identity,
     moments_combine, moments_lift, moments_together, &kMomentsRunning},
};

}  // namespace

Handle ScalarBuilder::fold(ScalarOp op, std::span<const Handle> values, DType type) {
  Handles v(values.begin(), values.end());
  while (v.size() > 1) {
    std::size_t n = 0;
    for (std::size_t i = 0; i + 1 < v.size(); i += 2) v[n++] = apply(op, std::array{v[i], v[i + 1]}, type);
    if (v.size() % 2 == 1) v[n++] = v.back();
    v.resize(n);
  }
  return v.front();
}

Handle ScalarBuilder::sum_of_terms(std::span<const Handle> x, DType type) {
  Handles e;
  for (const Handle h : x) e.push_back(apply(ScalarOp::exp, {&h, 1}, type));
  return fold(ScalarOp::add, e, type);
}

std::vector<Handle> ScalarBuilder::replace_if(Handle condition, std::span<const Handle> values, DType type,
                                              const std::function<std::vector<Handle>()>& other) {
  Handles replaced = other();
  for (std::size_t i = 0; i < values.size(); ++i)
    replaced[i] = apply(ScalarOp::select, std::array{condition, replaced[i], values[i]}, type);
  return replaced;
}

std::span<const MonoidInfo> monoids() { return kMonoids; }

const MonoidInfo& info(Monoid m) { return kMonoids[static_cast<std::size_t>(m)]; }

int inputs_of(const MonoidInfo& m, int operands, bool merge) {
  return merge ? operands - m.components + m.inputs : std::max(operands, m.inputs);
}

std::optional<Monoid> parse_monoid(std::string_view text) {
  for (const MonoidInfo& row : kMonoids) {
    if (row.text == text) return row.kind;
  }
  return std::nullopt;
}

}  // namespace bz

// The laws of every monoid, on states that lift() makes of edge values and random ones, in float64 and in
// f32.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <functional>

#include "harness.h"
#include "ir/monoid.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// Computes at once; a handle is an index into the values so far.
class Evaluator final : public ScalarBuilder {
 public:
  Handle apply(ScalarOp op, std::span<const Handle> args, DType result) override {
    std::vector<Scalar> operands;
    for (const Handle h : args) operands.push_back(value(h));
    return constant(evaluate(op, operands, result));
  }
  Handle constant(const Scalar& v) override {
    Scalar rounded = v;
    if (is_float(v.dtype)) rounded.f = round_to(v.dtype, v.f);  // as a machine that has the type
    values_.push_back(rounded);
    return static_cast<Handle>(values_.size() - 1);
  }
  const Scalar& value(Handle h) const { return values_[static_cast<std::size_t>(h)]; }

 private:
  std::vector<Scalar> values_;
};

using State = std::vector<Scalar>;

class Law {
 public:
  Law(const MonoidInfo& row, DType t, int weights = 0)
      : row_(row), t_(t), inputs_(row.inputs + weights), weights_(weights) {}

  State identity() const { return row_.identity(t_, inputs_); }
  std::vector<DType> dtypes() const { return row_.component_dtypes(t_, inputs_); }
  int components() const { return components_of(row_, inputs_); }
  State combine(const State& l, const State& r) const {
    Evaluator e;
    return read(e, row_.combine(e, t_, write(e, l), write(e, r)));
  }
  // Elements [begin, end) of `x` as one chunk, after an entry that is not valid when `masked`. Their indices
  // count from `first`.
  State lift(const std::vector<Scalar>& x, std::size_t begin, std::size_t end, bool masked = false,
             std::size_t first = 0) const {
    Evaluator e;
    const Chunk c = chunk(e, x, begin, end, masked, first);
    return read(e, row_.lift(e, t_, c.elements, c.valid));
  }
  // Chunks of `size`, each after an entry that is not valid when `masked`, into the running form.
  State run(const std::vector<Scalar>& x, std::size_t size, bool masked) const {
    Evaluator e;
    Handles running = write(e, row_.running->start(t_));
    for (std::size_t k = 0; k < x.size(); k += size) {
      const Chunk c = chunk(e, x, k, std::min(x.size(), k + size), masked, 0);
      running = row_.running->add(e, t_, running, c.elements, c.valid);
    }
    return read(e, row_.running->state(e, t_, running));
  }
  // States of chunks of `size`, and of ones without an element, together: `each` of them by everybody.
  State together(const std::vector<Scalar>& x, std::size_t size, std::size_t each) const {
    Evaluator e;
    std::vector<std::vector<Handles>> all_states(1, {write(e, identity())});
    const auto last = [&]() -> std::vector<Handles>& {
      if (all_states.back().size() == each) all_states.emplace_back();
      return all_states.back();
    };
    for (std::size_t k = 0; k < x.size(); k += size)
      last().push_back(write(e, lift(x, k, std::min(x.size(), k + size))));
    while (all_states.back().size() < each) last().push_back(write(e, identity()));
    // What all fold is known once each has come as far: one more of them in every round.
    Handles known;
    while (true) {
      Handles whole, next;
      ScalarOp op{};
      for (const std::vector<Handles>& states : all_states) {
        std::size_t folds = 0;
        whole = row_.together(e, t_, states, [&](ScalarOp with, std::span<const ScalarBuilder::Handle> h) {
          if (folds < known.size()) return known[folds++];
          if (folds++ > known.size()) return h[0];
          op = with;
          next.insert(next.end(), h.begin(), h.end());
          return h[0];
        });
      }
      if (next.empty()) return read(e, whole);
      auto all = next[0];
      for (std::size_t i = 1; i < next.size(); ++i)
        all = e.apply(op, std::array{all, next[i]}, compute_dtype(t_));
      known.push_back(all);
    }
  }
  bool runs() const { return row_.running != nullptr && weights_ == 0; }
  // Chunks of `size` combined from the left.
  State fold(const std::vector<Scalar>& x, std::size_t size) const {
    State s = identity();
    for (std::size_t k = 0; k < x.size(); k += size) s = combine(s, lift(x, k, std::min(x.size(), k + size)));
    return s;
  }

 private:
  struct Chunk {
    std::vector<Handles> elements;
    Handles valid;
  };
  Chunk chunk(Evaluator& e, const std::vector<Scalar>& x, std::size_t begin, std::size_t end, bool masked,
              std::size_t first) const {
    Chunk c;
    if (masked) {
      c.elements.push_back(operands(e, Scalar::of(compute_dtype(t_), 3), 99));
      c.valid.push_back(e.constant(Scalar::of_int(DType::boolean, 0)));
    }
    for (std::size_t k = begin; k < end; ++k) {
      c.elements.push_back(operands(e, x[k], first + k));
      c.valid.push_back(masked ? e.constant(Scalar::of_int(DType::boolean, 1)) : -1);
    }
    return c;
  }
  Handles operands(Evaluator& e, const Scalar& x, std::size_t index) const {
    Handles h = {e.constant(x)};
    if (row_.inputs == 2)
      h.push_back(e.constant(Scalar::of_int(DType::i64, static_cast<std::int64_t>(index))));
    for (int k = 0; k < weights_; ++k)
      h.push_back(e.constant(Scalar::of(compute_dtype(t_), weight(x.f, index, k))));
    return h;
  }
  // The first weights are small and of both signs, or 0. Of the others every second is infinite, for elements that are
  // infinite or larger than all others: where the exponential beside an infinite weight underflows, the order decides
  // whether that comes before the product.
  static double weight(double x, std::size_t index, int k) {
    if (k == 0) return static_cast<double>(index * 7 % 5) - 2;
    return index % 2 == 1 && (std::isinf(x) || x > 30000) ? kInf : 0.5;
  }
  static Handles write(Evaluator& e, const State& s) {
    Handles h;
    for (const Scalar& v : s) h.push_back(e.constant(v));
    return h;
  }
  static State read(const Evaluator& e, const Handles& handles) {
    State s;
    for (const auto h : handles) s.push_back(e.value(h));
    return s;
  }

  const MonoidInfo& row_;
  DType t_;
  int inputs_, weights_;
};

// A row with each number of weights that it is tried with.
std::vector<Law> laws_of(const MonoidInfo& row, DType t) {
  if (!row.weights) return {Law(row, t)};
  return {Law(row, t), Law(row, t, 1), Law(row, t, 2)};
}

// Bit by bit, but for the sign and payload of a NaN.
bool same_bits(const State& a, const State& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const bool nan = is_float(a[k].dtype) && std::isnan(a[k].f) && std::isnan(b[k].f);
    if (!nan && !(a[k] == b[k])) return false;
  }
  return true;
}

bool near(double a, double b, double relative, double scale) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= relative * std::max({scale, std::fabs(a), std::fabs(b)});
}

// Equal up to rounding. The two parts of a mean are one number.
bool close(const MonoidInfo& row, const State& a, const State& b, double scale) {
  const double relative = a[0].dtype == DType::f64 ? 1e-13 : 2e-5;
  const bool moments = row.kind == Monoid::moments;
  for (std::size_t k = 0; k < a.size(); ++k) {
    if (moments && k == 2) continue;
    const bool mean = moments && k == 1;
    const double x = a[k].as_double() + (mean ? a[2].as_double() : 0),
                 y = b[k].as_double() + (mean ? b[2].as_double() : 0);
    if (!near(x, y, relative, row.kind == Monoid::prod ? 0 : moments && k == 3 ? scale * scale : scale))
      return false;
  }
  return true;
}

std::string text(const State& s) {
  std::vector<std::string> parts;
  for (const Scalar& v : s) parts.push_back(to_string(v));
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::vector<DType> dtypes_of(const MonoidInfo& row) {
  if (row.kind == Monoid::any || row.kind == Monoid::all) return {DType::boolean};
  if (row.kind == Monoid::max_sumexp || row.kind == Monoid::moments)
    return {DType::f32, DType::f16, DType::bf16, DType::f64};
  return {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64};
}

std::vector<Scalar> make(DType t, const std::vector<double>& v) {
  std::vector<Scalar> x;
  for (const double d : v)
    x.push_back(is_float(t) ? Scalar::of(compute_dtype(t), round_to(t, d))
                            : Scalar::of_int(t, static_cast<std::int64_t>(d)));
  return x;
}

// Sequences of elements whose states the laws are tried on.
std::vector<std::vector<Scalar>> sequences(const MonoidInfo& row, DType t) {
  std::vector<std::vector<Scalar>> all;
  if (t == DType::boolean) return {make(t, {0}), make(t, {1}), make(t, {0, 0, 1}), make(t, {1, 1, 0, 1})};
  all = {make(t, {0}), make(t, {1}), make(t, {-3, 2}), make(t, {5, 5, 5, 5, 5}),
         make(t, {7, -1, 7, 2, -1, 3, 100})};
  std::vector<double> many;
  std::uint64_t state = 9;
  const int length = row.kind == Monoid::prod ? 20 : 300;
  for (int k = 0; k < length; ++k) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    many.push_back(static_cast<double>(static_cast<std::int64_t>(state) >> 40) * 0x1p-22);
  }
  all.push_back(make(t, many));
  if (!is_float(t)) return all;
  if (row.kind == Monoid::prod) {  // products that overflow or vanish depend on the order
    for (auto& x : all) {
      for (Scalar& v : x) v = Scalar::of(v.dtype, v.f / (1 + std::fabs(v.f)) + std::copysign(0.5, v.f));
    }
    for (const std::vector<double>& v :
         std::vector<std::vector<double>>{{-0.0}, {kInf}, {-kInf}, {kNan}, {kInf, -2}}) {
      all.push_back(make(t, v));
    }
    return all;
  }
  for (const std::vector<double>& v : std::vector<std::vector<double>>{{-0.0},
                                                                       {kInf},
                                                                       {-kInf},
                                                                       {kNan},
                                                                       {-kInf, -kInf, -kInf},
                                                                       {1, kNan, 2},
                                                                       {kInf, 1, kInf},
                                                                       {-kInf, 4, -kInf},
                                                                       {-0.0, -0.0},
                                                                       {0.0, -0.0},
                                                                       {-1000, -1000.5, -2000},
                                                                       {40000, 40001, 40002, 40003},
                                                                       {1e-4, -1e-4}}) {
    all.push_back(make(t, v));
  }
  return all;
}

double magnitude(const std::vector<Scalar>& x) {
  double m = 0;
  for (const Scalar& v : x) m += std::isfinite(v.as_double()) ? std::fabs(v.as_double()) : 0;
  return m;
}

}  // namespace

TEST_CASE("monoids: the identity changes nothing, on either side") {
  for (const MonoidInfo& row : monoids()) {
    for (const DType t : dtypes_of(row)) {
      for (const Law& law : laws_of(row, t)) {
        const State none = law.identity();
        INFO(row.text << " of " << name(t) << ": identity " << text(none));
        CHECK(none.size() == static_cast<std::size_t>(law.components()));
        CHECK(law.dtypes().size() == none.size());
        CHECK(same_bits(law.combine(none, none), none));
        for (const auto& x : sequences(row, t)) {
          State s = law.lift(x, 0, x.size());
          // 0 + -0 is 0: the one sign that a sum that starts at 0 cannot keep.
          const std::size_t first_sum = row.kind == Monoid::sum ? 0 : row.weights ? 1 : s.size();
          for (std::size_t c = first_sum; c < s.size(); ++c) {
            if (is_float(s[c].dtype) && s[c].f == 0) s[c].f = 0;
          }
          INFO(text(s) << " became " << text(law.combine(none, s)) << " and " << text(law.combine(s, none)));
          CHECK(same_bits(law.combine(none, s), s));
          CHECK(same_bits(law.combine(s, none), s));
        }
      }
    }
  }
}

TEST_CASE("monoids: an element that is not valid is not there") {
  for (const MonoidInfo& row : monoids()) {
    for (const DType t : dtypes_of(row)) {
      for (const Law& law : laws_of(row, t)) {
        for (const auto& x : sequences(row, t)) {
          const State with = law.lift(x, 0, x.size(), true), without = law.lift(x, 0, x.size());
          INFO(row.text << " of " << name(t) << ": " << text(with) << " and " << text(without));
          CHECK(close(row, with, without, magnitude(x)));
        }
        // Nothing valid at all is the identity.
        INFO(row.text << " of " << name(t));
        CHECK(same_bits(law.lift({}, 0, 0, true), law.identity()));
      }
    }
  }
}

TEST_CASE("monoids: combine is associative, and commutative where the table says so") {
  for (const MonoidInfo& row : monoids()) {
    for (const DType t : dtypes_of(row)) {
      for (const Law& law : laws_of(row, t)) {
        const auto all = sequences(row, t);
        std::vector<State> states;
        for (const auto& x : all) states.push_back(law.lift(x, 0, x.size(), false, 1000 * states.size()));
        for (std::size_t a = 0; a < states.size(); ++a) {
          for (std::size_t b = 0; b < states.size(); ++b) {
            const State ab = law.combine(states[a], states[b]), ba = law.combine(states[b], states[a]);
            INFO(row.text << " of " << name(t) << ": " << text(states[a]) << " and " << text(states[b])
                          << " give " << text(ab) << ", the other way round " << text(ba));
            CHECK((!row.commutative || same_bits(ab, ba)));
            for (std::size_t c = 0; c < states.size(); ++c) {
              const State left = law.combine(ab, states[c]);
              const State right = law.combine(states[a], law.combine(states[b], states[c]));
              const double scale = magnitude(all[a]) + magnitude(all[b]) + magnitude(all[c]);
              if (close(row, left, right, scale)) continue;
              FAIL_CHECK(fmt::format("with {}: {} or {}", text(states[c]), text(left), text(right)));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("monoids: any chunking gives the same state") {
  for (const MonoidInfo& row : monoids()) {
    for (const DType t : dtypes_of(row)) {
      for (const Law& law : laws_of(row, t)) {
        for (const auto& x : sequences(row, t)) {
          const State whole = law.lift(x, 0, x.size());
          for (const std::size_t size : {1, 2, 3, 7, 32, 100}) {
            const State parts = law.fold(x, size);
            INFO(row.text << " of " << name(t) << ", chunks of " << size << ": " << text(parts) << " and "
                          << text(whole));
            CHECK(close(row, parts, whole, magnitude(x)));
          }
        }
      }
    }
  }
}

TEST_CASE("monoids: the running form and states together give the state of all elements") {
  bool some_run = false, some_together = false;
  for (const MonoidInfo& row : monoids()) {
    for (const DType t : dtypes_of(row)) {
      for (const Law& law : laws_of(row, t)) {
        for (auto x : sequences(row, t)) {
          // Once more with rising maxima: the pivot follows again and again.
          for (const bool rising : {false, true}) {
            if (rising && !is_float(t)) continue;
            if (rising) {
              for (std::size_t i = 0; i < x.size(); ++i)
                x[i] = Scalar::of(x[i].dtype, round_to(t, x[i].f + static_cast<double>(i)));
            }
            const State whole = law.lift(x, 0, x.size());
            for (const std::size_t size : {1, 2, 7, 100}) {
              INFO(row.text << " of " << name(t) << ", chunks of " << size << ", to be " << text(whole));
              if (law.runs()) {
                some_run = true;
                for (const bool masked : {false, true}) {
                  const State state = law.run(x, size, masked);
                  INFO("running " << text(state));
                  CHECK(close(row, state, whole, magnitude(x)));
                }
              }
              if (row.together == nullptr) continue;
              some_together = true;
              for (const std::size_t each : {1, 3}) {
                const State state = law.together(x, size, each);
                INFO("together " << text(state));
                CHECK(close(row, state, whole, magnitude(x)));
              }
            }
          }
        }
        if (law.runs()) CHECK(same_bits(law.run({}, 1, false), law.identity()));
      }
    }
  }
  CHECK(some_run);
  CHECK(some_together);
}

TEST_CASE("monoids: the running form of moments loses nothing where its pivot is a bad one") {
  constexpr int kCount = 4000;
  const Law law(info(Monoid::moments), DType::f32);
  const auto noise = [](int i) {
    return std::sin(12.9898 * i) * 43758.5453 - std::floor(std::sin(12.9898 * i) * 43758.5453);
  };
  const std::vector<std::pair<const char*, std::function<double(int)>>> rows = {
      {"an outlier first", [&](int i) { return i == 0 ? 1e6 : noise(i); }},
      {"an outlier in the middle", [&](int i) { return i == 2000 ? -1e7 : noise(i); }},
      {"far from 0", [&](int i) { return 1e6 + noise(i); }},
      {"a step", [&](int i) { return (i < 1000 ? 0 : 1000) + noise(i); }},
      {"a ramp", [&](int i) { return i + noise(i); }},
      {"growing", [&](int i) { return std::exp(0.004 * i) * noise(i); }},
      {"mostly 0", [&](int i) { return i % 97 == 0 ? noise(i) : 0; }},
      {"two values far apart", [&](int i) { return i % 2 == 0 ? 1e5 : -1e5; }},
      {"one value", [](int) { return 0.1; }},
      {"one large value", [](int) { return 3e18; }},
      {"one tiny value", [](int) { return 1.3e-30; }},
      {"large values", [&](int i) { return 1.5e18 * (1 + 1e-3 * noise(i)); }},
      {"tiny", [&](int i) { return 1e-24 * noise(i); }}};
  for (const auto& [what, element] : rows) {
    std::vector<Scalar> x;
    for (int i = 0; i < kCount; ++i) x.push_back(Scalar::of(DType::f32, round_to(DType::f32, element(i))));
    double mean = 0, squares = 0;
    for (const Scalar& v : x) mean += v.f / kCount;
    for (const Scalar& v : x) squares += (v.f - mean) * (v.f - mean);
    for (const std::size_t size : {4, 8, 16, 32}) {
      const State s = law.run(x, size, false);
      INFO(what << ", chunks of " << size << ": " << text(s) << ", mean " << mean << ", squares " << squares);
      CHECK(s[0].f == kCount);
      CHECK(std::fabs(s[1].f + s[2].f - mean) <=
            2e-6 * std::sqrt(squares / kCount) + 1e-7 * std::fabs(mean) * 1e-3);
      CHECK(s[3].f >= 0);
      CHECK(std::fabs(s[3].f - squares) <= 2e-5 * squares + 1e-44 * kCount + 1e-26 * mean * mean * kCount);
    }
  }
}

TEST_CASE("monoids: (-inf, 0) merged with (-inf, 0) is (-inf, 0)") {
  const Law law(info(Monoid::max_sumexp), DType::f32);
  const State none = {Scalar::of(DType::f32, -kInf), Scalar::of(DType::f32, 0)};
  CHECK(same_bits(law.combine(none, none), none));
}

TEST_CASE("monoids: squared deviations that overflow are infinite, and the mean is not") {
  const Law law(info(Monoid::moments), DType::f32);
  for (const std::vector<double>& v :
       std::vector<std::vector<double>>{{3e38, -3e38},
                                        {3e38, 3e38, 3e38, -3e38},
                                        {-3e38, 1, 3e38, 3e38, 3e38, 3e38, 3e38},
                                        {1e38, 3e38, 3e38}}) {
    const std::vector<Scalar> x = make(DType::f32, v);
    double mean = 0;
    for (const double d : v) mean += d / static_cast<double>(v.size());
    for (const std::size_t size : {1, 2, 3, 7}) {
      for (const bool masked : {false, true}) {
        const State s = masked ? law.lift(x, 0, x.size(), true) : law.fold(x, size);
        INFO("chunks of " << size << ": " << text(s));
        CHECK(near(s[1].f + s[2].f, mean, 1e-6, 3e38));
        CHECK(s[3].f == kInf);
      }
    }
  }
  const State same = law.fold(make(DType::f32, std::vector<double>(9, 3e38)), 2);
  CHECK(same[3].f == 0);
}

#include "enclosure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace bz::end_to_end {
namespace {

using Elements = std::vector<Range>;
using Position = std::vector<std::int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t k) { return static_cast<std::size_t>(k); }

void for_each(const Shape& shape, const std::function<void(const Position&)>& use) {
  Position p(shape.size(), 0);
  for (std::int64_t k = element_count(shape); k > 0; --k) {
    use(p);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++p[axis] < shape[axis]) break;
      p[axis] = 0;
    }
  }
}

std::int64_t linear(const Position& p, const Shape& shape) {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + p[axis];
  return index;
}

// ---- views: the position in the operand that a position of the result shows ----------------------------------

// False where it shows the value of a pad.
bool source(const Node& n, const Type& operand, const Position& p, Position& from) {
  from.assign(operand.shape.size(), 0);
  if (const auto* a = n.as<BroadcastAttrs>()) {
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = operand.shape[k] == 1 ? 0 : p[at(a->dims[k])];
  } else if (const auto* a = n.as<PermuteAttrs>()) {
    for (std::size_t k = 0; k < from.size(); ++k) from[at(a->perm[k])] = p[k];
  } else if (const auto* a = n.as<SliceAttrs>()) {
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = a->starts[k] + p[k] * a->steps[k];
  } else if (const auto* a = n.as<FlipAttrs>()) {
    from = p;
    for (const int axis : a->axes) from[at(axis)] = operand.shape[at(axis)] - 1 - p[at(axis)];
  } else if (const auto* a = n.as<PadAttrs>()) {
    for (std::size_t k = 0; k < from.size(); ++k) {
      from[k] = p[k] - a->lo[k];
      if (from[k] < 0 || from[k] >= operand.shape[k]) return false;
    }
  } else if (const auto* a = n.as<WindowAttrs>()) {
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = p[k];
    for (std::size_t k = 0; k < a->axes.size(); ++k) {
      const std::size_t axis = at(a->axes[k]);
      from[axis] = p[axis] * a->stride[k] + p[from.size() + k] * a->dilation[k];
    }
  }
  return true;
}

Elements view(const Node& n, const Type& operand, const Elements& x) {
  if (n.as<ReshapeAttrs>() != nullptr) return x;
  Elements result;
  Position from;
  for_each(n.type.shape, [&](const Position& p) {
    const bool there = source(n, operand, p, from);
    result.push_back(there ? x[at(linear(from, operand.shape))] : Range::of(*n.as<PadAttrs>()->value));
  });
  return result;
}

// ---- reductions ---------------------------------------------------------------------------------------------------

// The next numbers of the arithmetic outside of the ends.
Range outward(Range r, const Precision& p) {
  if (r.empty()) return r;
  const auto next = [&](long double v, double to) {
    const double d = static_cast<double>(v);
    if (p.spacing < 1e-10 || std::isinf(d)) return std::isinf(d) ? d : std::nextafter(d, to);
    const float f = static_cast<float>(d);
    if (std::isinf(f)) return d;  // past the range: an infinity, or a number where the sum is taken otherwise
    return static_cast<double>(static_cast<long double>(f) == v ? f
                                                                : std::nextafter(f, static_cast<float>(to)));
  };
  return {next(r.lo, -kInf), next(r.hi, kInf), r.nan};
}

long double magnitude(const Range& r) { return std::max(std::fabs(r.lo), std::fabs(r.hi)); }

// An infinity for certain, of this sign.
bool certainly(const Range& r, double infinity) { return r.point() && r.lo == infinity; }

Range sum_of_floats(const Elements& x, const Precision& p, bool exponentials) {
  Range r = {0, 0, false};
  long double absolute = 0, positive = 0, negative = 0;
  bool up = false, down = false;  // surely +inf, surely -inf
  for (const Range& e : x) {
    if (e.empty()) return Range::only_nan();
    r.nan = r.nan || e.nan;
    up = up || certainly(e, kInf);
    down = down || certainly(e, -kInf);
    if (std::isfinite(e.lo)) r.lo += e.lo;
    if (std::isfinite(e.hi)) r.hi += e.hi;
    absolute += std::isfinite(magnitude(e)) ? magnitude(e) : 0;
    if (e.hi > 0) positive += e.hi;
    if (e.lo < 0) negative -= e.lo;
  }
  if (up && down) return Range::only_nan();
  const auto n = static_cast<long double>(x.size());
  if (n > 1) {
    const long double error = (exponentials ? 4 * n : n + 8) * p.spacing / 2 * absolute * 1.01L + p.smallest;
    r.lo -= error;
    r.hi += error;
  }
  // Partial sums may be infinite when all elements of a sign together are near the largest number; those of
  // squared distances sooner.
  const long double most = n > 1 ? p.largest / 16 : p.largest;
  const bool up_possible = positive > most, down_possible = negative > most;
  if (up_possible) r.hi = kInf;
  if (down_possible) r.lo = -kInf;
  if (up_possible && down_possible) r.nan = true;
  if (up) r = {down_possible ? -kInf : kInf, kInf, r.nan || down_possible};
  if (down) r = {-kInf, up_possible ? kInf : -kInf, r.nan || up_possible};
  return n > 1 ? outward(r, p) : r;
}

Range product_of_floats(const Elements& x, const Precision& p) {
  Range r = {1, 1, false};
  long double big = 1, small = 1;
  bool zero = false, infinite = false;
  for (const Range& e : x) {
    if (e.empty()) return Range::only_nan();
    zero = zero || e.holds(0);
    infinite = infinite || std::isinf(magnitude(e));
    long double lo = kInf, hi = -kInf;
    for (const long double a : {r.lo, r.hi}) {
      for (const long double b : {e.lo, e.hi}) {
        const long double product = a == 0 || b == 0 ? 0 : a * b;
        lo = std::min(lo, product);
        hi = std::max(hi, product);
      }
    }
    r = {lo, hi, r.nan || e.nan};
    big *= std::max(1.0L, magnitude(e));
    if (!e.holds(0)) small *= std::min({1.0L, std::fabs(e.lo), std::fabs(e.hi)});
  }
  const auto n = static_cast<long double>(x.size());
  if (n <= 1) return r;
  const bool overflow = big > p.largest, underflow = small < p.smallest_normal;
  if ((zero || underflow) && (infinite || overflow)) return Range::all(DType::f64);
  if (overflow && r.hi > 0) r.hi = kInf;
  if (overflow && r.lo < 0) r.lo = -kInf;
  const long double lost = underflow ? n * p.smallest * big : p.smallest;
  const auto error = [&](long double v) {
    return std::isfinite(v) ? n * p.spacing / 2 * 1.01L * std::fabs(v) + lost : 0;
  };
  return outward({r.lo - error(r.lo), r.hi + error(r.hi), r.nan}, p);
}

// Integers wrap: the exact value if there is but one, else all unless none can wrap.
Range fold_integers(const Elements& x, ScalarOp op, DType t) {
  Range r = Range::of(Scalar::of_int(t, op == ScalarOp::mul ? 1 : 0));
  for (const Range& e : x) r = map(op, std::array{r, e}, t, t, Arithmetic::own);
  return r;
}

Range extremum(const Elements& x, bool largest) {
  Range r = x.front();
  for (const Range& e : x) {
    if (r.empty() || e.empty()) return Range::only_nan();
    const auto pick = [&](long double a, long double b) { return largest ? std::max(a, b) : std::min(a, b); };
    r = {pick(r.lo, e.lo), pick(r.hi, e.hi), r.nan || e.nan};
  }
  return r;
}

// The indices that may be that of the first NaN, or without one of the first best element.
Range index_of_extremum(Elements x, bool largest) {
  if (!largest) {
    for (Range& e : x) e = {-e.hi, -e.lo, e.nan};
  }
  const std::size_t n = x.size();
  // What the elements before and behind each surely reach.
  long double before = -kInf;
  std::vector<long double> behind(n + 1, -kInf);
  for (std::size_t k = n; k-- > 0;) {
    behind[k] = x[k].empty() ? behind[k + 1] : std::max(behind[k + 1], x[k].lo);
  }
  std::int64_t first = -1, last = -1;
  const auto candidate = [&](std::size_t k) {
    if (first < 0) first = static_cast<std::int64_t>(k);
    last = static_cast<std::int64_t>(k);
  };
  const bool surely_nan = std::any_of(x.begin(), x.end(), [](const Range& e) { return e.empty(); });
  for (std::size_t k = 0; k < n; ++k) {
    if (x[k].nan) candidate(k);
    if (x[k].empty()) break;
    if (surely_nan) continue;
    const bool beaten = (k > 0 && before >= x[k].hi) || behind[k + 1] > x[k].hi;
    if (!beaten) candidate(k);
    before = std::max(before, x[k].lo);
  }
  return {static_cast<long double>(first), static_cast<long double>(last)};
}

// Whether x is, but for views, a result of exp.
bool is_exponential(const ir::Graph& g, NodeId x) {
  while (g.node(x).kind() == NodeKind::view) x = g.node(x).operands[0];
  const auto* map = g.node(x).as<MapAttrs>();
  return map != nullptr && (map->op == ScalarOp::exp || map->op == ScalarOp::exp2);
}

Range reduce(const ReduceAttrs& a, const Elements& x, DType t, const Precision& p, bool exponentials) {
  switch (a.monoid) {
    case Monoid::sum:
      return is_float(t) ? sum_of_floats(x, p, exponentials) : fold_integers(x, ScalarOp::add, t);
    case Monoid::prod: return is_float(t) ? product_of_floats(x, p) : fold_integers(x, ScalarOp::mul, t);
    case Monoid::max:
    case Monoid::min: return extremum(x, a.monoid == Monoid::max);
    case Monoid::any: return fold_integers(x, ScalarOp::logical_or, t);
    case Monoid::all: {
      Range r = {1, 1};
      for (const Range& e : x) r = map(ScalarOp::logical_and, std::array{r, e}, t, t, Arithmetic::own);
      return r;
    }
    case Monoid::argmax:
    case Monoid::argmin: return index_of_extremum(x, a.monoid == Monoid::argmax);
    case Monoid::max_sumexp:
    case Monoid::moments: break;
  }
  throw InternalError("programs have no such reduction");
}

class Encloser {
 public:
  Encloser(const ir::Graph& g, const std::map<std::string, HostTensor>& inputs, Arithmetic arithmetic)
      : g_(g), inputs_(inputs), arithmetic_(arithmetic) {
    for (NodeId id = 0; id < g.size(); ++id) values_.push_back(evaluate(g.node(id)));
  }
  const Elements& value(NodeId id) const { return values_[at(id)]; }

 private:
  Elements evaluate(const Node& n) {
    bool constant = n.as<ConstantAttrs>() != nullptr || n.as<IotaAttrs>() != nullptr;
    if (n.kind() != NodeKind::leaf) {
      constant =
          std::all_of(n.operands.begin(), n.operands.end(), [&](NodeId o) { return constant_[at(o)]; });
    }
    constant_.push_back(constant);
    if (const auto* a = n.as<InputAttrs>()) {
      const HostTensor& t = inputs_.at(a->name);
      Elements x;
      for (std::int64_t k = 0; k < t.elements(); ++k) x.push_back(Range::of(t.get(k)));
      return x;
    }
    if (const auto* a = n.as<ConstantAttrs>()) return Elements(at(n.type.elements()), Range::of(a->value));
    if (const auto* a = n.as<IotaAttrs>()) {
      Elements x;
      for_each(n.type.shape, [&](const Position& p) {
        x.push_back(Range::of(Scalar::of_int(n.type.dtype, p[at(a->axis)])));
      });
      return x;
    }
    if (n.kind() == NodeKind::view) return view(n, g_.type(n.operands[0]), value(n.operands[0]));
    return n.kind() == NodeKind::map ? evaluate_map(n, constant) : evaluate_reduce(n);
  }

  Elements evaluate_map(const Node& n, bool constant) const {
    // The compiler folds constants in their own arithmetic, the interpreter computes them in float64.
    const Arithmetic arithmetic =
        constant && arithmetic_ == Arithmetic::reference ? Arithmetic::folded : arithmetic_;
    const DType operand = g_.type(n.operands.back()).dtype;
    const auto* a = n.as<MapAttrs>();
    Elements result;
    std::vector<Range> x(n.operands.size());
    for (std::int64_t k = 0; k < n.type.elements(); ++k) {
      for (std::size_t o = 0; o < x.size(); ++o) x[o] = value(n.operands[o])[at(k)];
      result.push_back(map(a->op, x, operand, n.type.dtype, arithmetic));
    }
    return result;
  }

  Elements evaluate_reduce(const Node& n) const {
    const auto& a = *n.as<ReduceAttrs>();
    const Type& operand = g_.type(n.operands[0]);
    const Precision p = precision(operand.dtype, arithmetic_);
    std::vector<Elements> met(at(n.type.elements()));
    std::size_t k = 0;
    for_each(operand.shape, [&](const Position& position) {
      std::int64_t result = 0;
      for (int axis = 0; axis < operand.rank(); ++axis) {
        if (std::binary_search(a.axes.begin(), a.axes.end(), axis)) continue;
        result = result * operand.shape[at(axis)] + position[at(axis)];
      }
      met[at(result)].push_back(value(n.operands[0])[k++]);
    });
    const bool exponentials = is_exponential(g_, n.operands[0]);
    Elements result;
    for (const Elements& x : met) result.push_back(reduce(a, x, operand.dtype, p, exponentials));
    return result;
  }

  const ir::Graph& g_;
  const std::map<std::string, HostTensor>& inputs_;
  const Arithmetic arithmetic_;
  std::vector<Elements> values_;
  std::vector<bool> constant_;
};

template <class Get>
std::string first_outside(const Enclosure& expected, bool stored, const Get& get) {
  for (std::size_t k = 0; k < expected.elements.size(); ++k) {
    const Range& exact = expected.elements[k];
    const Range r = stored ? rounded(exact, expected.type.dtype) : exact;
    const long double got = get(static_cast<std::int64_t>(k));
    if (std::isnan(got) ? r.nan : r.holds(got)) continue;
    return fmt::format("[{}] is {:.17Lg}, expected {}", k, got, to_string(r));
  }
  return "";
}

}  // namespace

std::map<std::string, Enclosure> enclose(const ir::Graph& g, const std::map<std::string, HostTensor>& inputs,
                                         Arithmetic arithmetic) {
  const Encloser all(g, inputs, arithmetic);
  std::map<std::string, Enclosure> results;
  for (const Output& o : g.outputs()) results[o.name] = {g.type(o.node), all.value(o.node)};
  return results;
}

std::string outside(const Enclosure& expected, const HostTensor& got) {
  return first_outside(expected, true, [&](std::int64_t k) -> long double {
    const Scalar s = got.get(k);
    return is_float(s.dtype) ? static_cast<long double>(s.f) : static_cast<long double>(s.i);
  });
}

std::string outside(const Enclosure& expected, const ReferenceTensor& got) {
  return first_outside(expected, false, [&](std::int64_t k) -> long double {
    return is_float(got.type.dtype) ? static_cast<long double>(got.f[at(k)])
                                    : static_cast<long double>(got.i[at(k)]);
  });
}

}  // namespace bz::end_to_end

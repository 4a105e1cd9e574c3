// sum of (x - mean x)^2 -> moments; see online.h.
#include <algorithm>

#include "compiler/online/match.h"

namespace bz {
namespace {

// The mean of `x` over `axes`.
struct Mean {
  NodeId x = kNoNode;
  Axes axes;
};

// sum(x) / n or sum(x) * (1 / n), n being the number of elements.
std::optional<Mean> as_mean(const ir::Graph& g, NodeId id) {
  for (ScalarOp op : {ScalarOp::div, ScalarOp::mul}) {
    const std::vector<NodeId>* operands = as_map(g, id, op);
    if (!operands) continue;
    const ReduceAttrs* sum = as_reduce(g, (*operands)[0], Monoid::sum);
    const Scalar* factor = as_constant(g, (*operands)[1]);
    if (!sum || !factor || !is_float(factor->dtype)) continue;
    NodeId x = g.node((*operands)[0]).operands[0];
    std::int64_t count = 1;
    for (int axis : sum->axes) count *= g.type(x).shape[static_cast<std::size_t>(axis)];
    Scalar n = Scalar::of(factor->dtype, static_cast<double>(count));
    bool exact = op == ScalarOp::div ? *factor == n
                                     : *factor == Scalar::of(factor->dtype, 1 / static_cast<double>(count)) ||
                                           *factor == Scalar::of(factor->dtype, 1 / n.f);
    if (exact) return Mean{x, sum->axes};
  }
  return std::nullopt;
}

NodeId component(Rewriter& rw, const Mean& mean, int c) {
  NodeId x = rw.moved(mean.x);
  return rw.reduce({Monoid::moments, mean.axes, false, c, false}, rw.type(x).dtype, {x});
}

// The same beside every element that it is of.
NodeId broadcast_component(Rewriter& rw, const Mean& mean, int c) {
  const Shape shape = rw.type(rw.moved(mean.x)).shape;
  return rw.broadcast(component(rw, mean, c), shape, kept_axes(static_cast<int>(shape.size()), mean.axes));
}

// x - mean, or mean - x.
struct Deviation {
  NodeId mean = kNoNode;
  bool reversed = false;
};

// `wanted` decides on a mean by its node.
template <class Wanted>
std::optional<Deviation> as_deviation(const ir::Graph& g, NodeId id, const Wanted& wanted) {
  const std::vector<NodeId>* operands = as_map(g, id, ScalarOp::sub);
  if (!operands) return std::nullopt;
  for (bool reversed : {false, true}) {
    NodeId x = (*operands)[reversed ? 1 : 0], p = (*operands)[reversed ? 0 : 1];
    for (NodeId candidate : broadcast_values(g, p)) {
      std::optional<Mean> mean = wanted(candidate);
      if (mean && mean->x == x && repeats_along(g, p, mean->axes)) return Deviation{candidate, reversed};
    }
  }
  return std::nullopt;
}

bool is_mean_of_squares(const ir::Graph& g, NodeId id) {
  for (const NodeId value : same_values(g, id)) {
    const std::optional<Mean> mean = as_mean(g, value);
    const std::vector<NodeId>* square = mean ? as_map(g, mean->x, ScalarOp::mul) : nullptr;
    if (square && (*square)[0] == (*square)[1]) return true;
  }
  return false;
}

// Whether `p` repeats 1 / sqrt(v + c) for a mean v of squares and a c above 0, subnormal ones apart: no infinity, for which products with
// parts of a difference would be NaN, and nothing that would turn the sign of a difference of 0.
bool is_reciprocal_deviation(const ir::Graph& g, NodeId p) {
  for (const NodeId value : broadcast_values(g, p)) {
    const std::vector<NodeId>* rsqrt = as_map(g, value, ScalarOp::rsqrt);
    const std::vector<NodeId>* sum = rsqrt ? as_map(g, (*rsqrt)[0], ScalarOp::add) : nullptr;
    if (!sum) continue;
    for (const bool second : {false, true}) {
      const Scalar* c = as_constant(g, (*sum)[second ? 0 : 1]);
      if (c != nullptr && c->f >= 0x1p-126 && is_mean_of_squares(g, (*sum)[second ? 1 : 0])) return true;
    }
  }
  return false;
}

// The mean of rows of equal elements, and the node that has each of these once.
struct EqualRows {
  NodeId mean = kNoNode, value = kNoNode;
};

// When `id` is v - mean or mean - v, squared and then repeated along `axes` to `shape`, where the mean is that of v repeated so
// too: what simplify makes of the deviations of such rows.
std::optional<EqualRows> as_deviation_of_equal(const ir::Graph& g, NodeId id, const Axes& axes,
                                               const Shape& shape) {
  const std::vector<NodeId>* operands = as_map(g, id, ScalarOp::sub);
  if (!operands) return std::nullopt;
  for (const bool reversed : {false, true}) {
    const NodeId v = (*operands)[reversed ? 1 : 0], m = (*operands)[reversed ? 0 : 1];
    for (const NodeId candidate : same_values(g, m)) {
      const std::optional<Mean> mean = as_mean(g, candidate);
      if (!mean || mean->axes != axes || g.type(mean->x).shape != shape) continue;
      const std::vector<NodeId> repeated = broadcast_values(g, mean->x), values = same_values(g, v);
      const bool equal =
          repeated.empty()
              ? as_constant(g, v) && as_constant(g, mean->x) && *as_constant(g, v) == *as_constant(g, mean->x)
              : repeats_along(g, mean->x, axes) &&
                    std::find_first_of(repeated.begin(), repeated.end(), values.begin(), values.end()) !=
                        repeated.end();
      if (equal) return EqualRows{candidate, v};
    }
  }
  return std::nullopt;
}

void match_equal_rows(const ir::Graph& g, Replacements& out) {
  for (NodeId id = 0; id < g.size(); ++id) {
    const ReduceAttrs* sum = as_reduce(g, id, Monoid::sum);
    const NodeId squares = sum ? g.node(id).operands[0] : kNoNode;
    if (!sum || !g.node(squares).as<BroadcastAttrs>() || !repeats_along(g, squares, sum->axes)) continue;
    for (const NodeId value : broadcast_values(g, squares)) {
      const std::vector<NodeId>* square = as_map(g, value, ScalarOp::mul);
      if (!square || (*square)[0] != (*square)[1]) continue;
      const auto rows = as_deviation_of_equal(g, (*square)[0], sum->axes, g.type(squares).shape);
      if (!rows) continue;
      out[rows->mean] = {{rows->value}, [rows = *rows, shape = g.type(rows->mean).shape](Rewriter& rw) {
                           return rw.reshape(rw.moved(rows.value), shape);
                         }};
    }
  }
}

}  // namespace

void match_moments(const ir::Graph& g, Replacements& out) {
  match_equal_rows(g, out);
  std::unordered_map<NodeId, Mean> means;  // those with a sum of squared deviations
  for (NodeId id = 0; id < g.size(); ++id) {
    const ReduceAttrs* sum = as_reduce(g, id, Monoid::sum);
    const std::vector<NodeId>* square = sum ? as_map(g, g.node(id).operands[0], ScalarOp::mul) : nullptr;
    if (!square || (*square)[0] != (*square)[1]) continue;
    auto over_same_axes = [&](NodeId candidate) {
      std::optional<Mean> mean = as_mean(g, candidate);
      return mean && mean->axes == sum->axes ? mean : std::nullopt;
    };
    std::optional<Deviation> deviation = as_deviation(g, (*square)[0], over_same_axes);
    if (!deviation) continue;
    Mean mean = *as_mean(g, deviation->mean);
    means.emplace(deviation->mean, mean);
    out[id] = {{mean.x}, [mean](Rewriter& rw) { return component(rw, mean, 3); }};
  }
  if (means.empty()) return;

  for (const auto& [id, mean] : means) {
    out[id] = {{mean.x}, [mean](Rewriter& rw) {
                 NodeId hi = component(rw, mean, 1);
                 return rw.map(ScalarOp::add, {hi, component(rw, mean, 2)});
               }};
  }
  auto known = [&](NodeId candidate) {
    auto it = means.find(candidate);
    return it == means.end() ? std::nullopt : std::optional<Mean>(it->second);
  };
  // The mean is hi + lo unevaluated: taking away hi, which is near x, loses nothing.
  const auto without_hi = [](Rewriter& rw, const Mean& mean, bool reversed) {
    const NodeId x = rw.moved(mean.x), hi = broadcast_component(rw, mean, 1);
    return rw.map(ScalarOp::sub, {reversed ? hi : x, reversed ? x : hi});
  };
  for (NodeId id = 0; id < g.size(); ++id) {
    if (std::optional<Deviation> deviation = as_deviation(g, id, known)) {
      out[id] = {
          {means.at(deviation->mean).x},
          [without_hi, mean = means.at(deviation->mean), reversed = deviation->reversed](Rewriter& rw) {
            const NodeId d = without_hi(rw, mean, reversed), lo = broadcast_component(rw, mean, 2);
            return rw.map(reversed ? ScalarOp::add : ScalarOp::sub, {d, lo});
          }};
    }
    // Times the reciprocal of the deviation: (x - hi) * r - lo * r, rounded once less than (x - hi - lo) * r.
    const std::vector<NodeId>* product = as_map(g, id, ScalarOp::mul);
    if (!product) continue;
    for (const bool second : {false, true}) {
      const NodeId factor = (*product)[second ? 0 : 1];
      if (!is_reciprocal_deviation(g, factor)) continue;
      std::optional<Deviation> deviation = as_deviation(g, (*product)[second ? 1 : 0], known);
      if (!deviation || !repeats_along(g, factor, means.at(deviation->mean).axes)) continue;
      out[id] = {{means.at(deviation->mean).x, factor},
                 [without_hi, factor, mean = means.at(deviation->mean),
                  reversed = deviation->reversed](Rewriter& rw) {
                   const NodeId d = without_hi(rw, mean, reversed), r = rw.moved(factor);
                   const NodeId lo = rw.map(ScalarOp::mul, {broadcast_component(rw, mean, 2), r});
                   return rw.map(ScalarOp::fma, {d, r, reversed ? lo : rw.map(ScalarOp::neg, {lo})});
                 }};
      break;
    }
  }
}

}  // namespace bz

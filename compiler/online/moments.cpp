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
  for (NodeId id = 0; id < g.size(); ++id) {
    std::optional<Deviation> deviation = as_deviation(g, id, known);
    if (!deviation) continue;
    // The mean is hi + lo unevaluated: taking away hi, which is near x, loses nothing.
    const Mean& mean = means.at(deviation->mean);
    out[id] = {{mean.x}, [mean, reversed = deviation->reversed](Rewriter& rw) {
                 const Shape shape = rw.type(rw.moved(mean.x)).shape;
                 auto part = [&](int c) {
                   return rw.broadcast(component(rw, mean, c), shape,
                                       kept_axes(static_cast<int>(shape.size()), mean.axes));
                 };
                 NodeId x = rw.moved(mean.x), hi = part(1), lo = part(2);
                 if (reversed) return rw.map(ScalarOp::add, {rw.map(ScalarOp::sub, {hi, x}), lo});
                 return rw.map(ScalarOp::sub, {rw.map(ScalarOp::sub, {x, hi}), lo});
               }};
  }
}

}  // namespace bz

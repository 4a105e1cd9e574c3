// sums of exp(x - p(max x)) and exp(x - p(max x)) * w -> max_sumexp; see online.h.
#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/online/match.h"

namespace bz {
namespace {

bool is_zero(const ir::Graph& g, NodeId id) {
  const Scalar* c = as_constant(g, id);
  return c && c->f == 0;
}

// Everything that is summed over one maximum.
struct Softmax {
  NodeId x = kNoNode;
  bool negated = false;  // of -x, whose maximum is -(min x)
  Axes axes;
  friend auto operator<=>(const Softmax&, const Softmax&) = default;
};

// The pivot of a sum of exponentials: the maximum, maybe guarded.
struct Pivot {
  NodeId value = kNoNode;    // the node that stands in x - value
  NodeId maximum = kNoNode;  // the node that is the maximum
  bool own_guard = false;    // 0 for both infinities: what the state uses itself
};

// Whether the map keeps order whatever its rounding, given constants besides its first operand.
bool is_monotone(const ir::Graph& g, NodeId id) {
  const Node& node = g.node(id);
  const MapAttrs* map = node.as<MapAttrs>();
  if (!map) return false;
  if (map->op == ScalarOp::cast) return is_float(g.type(node.operands[0]).dtype) && is_float(node.type.dtype);
  const Scalar* c = node.operands.size() == 2 ? as_constant(g, node.operands[1]) : nullptr;
  if (!c || !std::isfinite(c->f)) return false;
  return map->op == ScalarOp::add || ((map->op == ScalarOp::mul || map->op == ScalarOp::div) && c->f > 0);
}

// Whether `id` is the maximum of s.x (the minimum, when negated): a reduction of it, or what a monotone map that made
// s.x makes of the maximum of its operand.
bool is_maximum(const ir::Graph& g, NodeId id, const Softmax& s) {
  const Monoid monoid = s.negated ? Monoid::min : Monoid::max;
  for (NodeId x = s.x;;) {
    const ReduceAttrs* reduce = as_reduce(g, id, monoid);
    if (reduce) return reduce->axes == s.axes && g.node(id).operands[0] == x;
    const Node &of_x = g.node(x), &of_maximum = g.node(id);
    if (!is_monotone(g, x) || of_x.attrs != of_maximum.attrs || of_x.type.dtype != of_maximum.type.dtype)
      return false;
    if (of_x.operands.size() == 2) {
      const Scalar *c = as_constant(g, of_x.operands[1]), *d = as_constant(g, of_maximum.operands[1]);
      if (!d || !(*c == *d)) return false;
    }
    x = of_x.operands[0];
    id = of_maximum.operands[0];
  }
}

// m; select(isinf m, 0, m); select(isfinite m, m, 0), which differs only for NaN, where every sum is NaN; and
// select(m == -inf, 0, m), which leaves +inf to the caller.
Pivot as_pivot(const ir::Graph& g, NodeId value, const Softmax& s) {
  if (is_maximum(g, value, s)) return {value, value, false};
  const std::vector<NodeId>* select = as_map(g, value, ScalarOp::select);
  if (!select) return {};
  const NodeId c = (*select)[0], a = (*select)[1], b = (*select)[2];
  const auto tests = [&](ScalarOp op, NodeId m) {
    const std::vector<NodeId>* test = as_map(g, c, op);
    return test && (*test)[0] == m;
  };
  const auto compares_to_lowest = [&](ScalarOp op, NodeId m) {
    const Scalar* limit = tests(op, m) ? as_constant(g, g.node(c).operands[1]) : nullptr;
    return limit && std::isinf(limit->f) && std::signbit(limit->f) != s.negated;
  };
  if (is_zero(g, a) && is_maximum(g, b, s)) {
    if (tests(ScalarOp::isinf, b)) return {value, b, true};
    if (compares_to_lowest(ScalarOp::eq, b)) return {value, b, false};
  }
  if (is_zero(g, b) && is_maximum(g, a, s)) {
    if (tests(ScalarOp::isfinite, a)) return {value, a, true};
    if (compares_to_lowest(ScalarOp::ne, a)) return {value, a, false};
  }
  return {};
}

struct Exponential {
  Softmax of;
  Pivot pivot;
  NodeId broadcast = kNoNode;  // of the pivot
  bool plain = true;           // exp(x - p) as it stands
};

// exp(x - p) or exp(-(p - x)), and the same with x and p exchanged, where p is the minimum.
std::optional<Exponential> as_exponential(const ir::Graph& g, NodeId id, const Axes& axes) {
  const std::vector<NodeId>* exp = as_map(g, id, ScalarOp::exp);
  if (!exp) return std::nullopt;
  const std::vector<NodeId>* negation = as_map(g, (*exp)[0], ScalarOp::neg);
  const std::vector<NodeId>* difference = as_map(g, negation ? (*negation)[0] : (*exp)[0], ScalarOp::sub);
  if (!difference) return std::nullopt;
  for (const bool swapped : {false, true}) {
    const NodeId x = (*difference)[swapped ? 1 : 0], p = (*difference)[swapped ? 0 : 1];
    const Softmax of{x, swapped != (negation != nullptr), axes};
    for (const NodeId value : broadcast_values(g, p)) {
      const Pivot pivot = as_pivot(g, value, of);
      if (pivot.maximum != kNoNode && repeats_along(g, p, axes))
        return Exponential{of, pivot, p, !swapped && !negation};
    }
  }
  return std::nullopt;
}

// For every node, how many reductions there are on the way to it, one after another.
std::vector<int> reduction_depths(const ir::Graph& g) {
  std::vector<int> depths;
  for (NodeId id = 0; id < g.size(); ++id) {
    int depth = 0;
    for (const NodeId o : g.node(id).operands) depth = std::max(depth, depths[static_cast<std::size_t>(o)]);
    depths.push_back(depth + (g.node(id).kind() == NodeKind::reduce ? 1 : 0));
  }
  return depths;
}

// The state that the sums over one maximum are components of.
struct State {
  // A thread holds a register for each, and the kernel takes an address; further ones stay sums of their own.
  static constexpr std::ptrdiff_t kMostWeights = 32;
  std::vector<NodeId> weights;

  std::optional<int> component(NodeId weight) {
    if (weight == kNoNode) return 1;
    const auto at = std::find(weights.begin(), weights.end(), weight);
    const auto position = at - weights.begin();
    if (position == kMostWeights) return std::nullopt;
    if (at == weights.end()) weights.push_back(weight);
    return 2 + static_cast<int>(position);
  }
};

struct Sum {
  NodeId id = kNoNode, factor = kNoNode;  // the node, and the exponential in it
  Exponential exponential;
  int component = 1;
};

NodeId negated_if(Rewriter& rw, bool negated, NodeId x) { return negated ? rw.map(ScalarOp::neg, {x}) : x; }

NodeId build_component(Rewriter& rw, const Softmax& of, const std::vector<NodeId>& weights, int component) {
  const NodeId x = negated_if(rw, of.negated, rw.moved(of.x));
  std::vector<NodeId> operands = {x};
  for (const NodeId w : weights) operands.push_back(rw.moved(w));
  return rw.reduce({Monoid::max_sumexp, of.axes, false, component, false}, rw.type(x).dtype,
                   std::move(operands));
}

}  // namespace

void match_max_sumexp(const ir::Graph& g, Replacements& out) {
  const std::vector<int> depths = reduction_depths(g);
  std::map<Softmax, State> states;
  std::vector<Sum> sums;
  for (NodeId id = 0; id < g.size(); ++id) {
    const ReduceAttrs* sum = as_reduce(g, id, Monoid::sum);
    if (!sum) continue;
    const NodeId summand = g.node(id).operands[0];
    std::vector<std::pair<NodeId, NodeId>> forms = {{summand, kNoNode}};  // exponential, weight
    if (const std::vector<NodeId>* product = as_map(g, summand, ScalarOp::mul)) {
      forms = {{(*product)[0], (*product)[1]}, {(*product)[1], (*product)[0]}};
    }
    for (const auto& [factor, weight] : forms) {
      const std::optional<Exponential> e = as_exponential(g, factor, sum->axes);
      if (!e) continue;
      // A weight that waits for more reductions than x would make the maximum wait too, or for itself.
      const auto depth = [&](NodeId n) { return depths[static_cast<std::size_t>(n)]; };
      if (weight != kNoNode && depth(weight) > depth(e->of.x)) continue;
      if (const std::optional<int> component = states[e->of].component(weight)) {
        sums.push_back({id, factor, *e, *component});
        break;
      }
    }
  }
  for (const Sum& sum : sums) {
    const Softmax& of = sum.exponential.of;
    const Pivot& pivot = sum.exponential.pivot;
    const std::vector<NodeId>& weights = states[of].weights;
    std::vector<NodeId> needs = weights;
    needs.push_back(of.x);
    out[pivot.maximum] = {
        needs, [=](Rewriter& rw) { return negated_if(rw, of.negated, build_component(rw, of, weights, 0)); }};
    if (!sum.exponential.plain) {  // one form for all stages; exp(-0) is exp(0)
      const NodeId p = sum.exponential.broadcast;
      out[sum.factor] = {{of.x, p}, [of, p](Rewriter& rw) {
                           const NodeId difference =
                               rw.map(ScalarOp::sub, {negated_if(rw, of.negated, rw.moved(of.x)),
                                                      negated_if(rw, of.negated, rw.moved(p))});
                           return rw.map(ScalarOp::exp, {difference});
                         }};
    }
    needs.push_back(pivot.maximum);
    needs.push_back(pivot.value);
    out[sum.id] = {needs, [=](Rewriter& rw) {
                     const NodeId total = build_component(rw, of, weights, sum.component);
                     if (pivot.own_guard) return total;
                     const NodeId m = negated_if(rw, of.negated, rw.moved(pivot.maximum));
                     const NodeId p = negated_if(rw, of.negated, rw.moved(pivot.value));
                     const NodeId zero = rw.constant(Scalar::of(rw.type(m).dtype, 0), rw.type(m).shape);
                     const NodeId guarded = rw.map(ScalarOp::select, {rw.map(ScalarOp::isinf, {m}), zero, m});
                     const NodeId shift = rw.map(ScalarOp::sub, {guarded, p});
                     return rw.map(ScalarOp::mul, {total, rw.map(ScalarOp::exp, {shift})});
                   }};
  }
}

}  // namespace bz

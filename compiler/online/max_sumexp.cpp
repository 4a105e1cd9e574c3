// sum of exp(x - p(max x)) -> max_sumexp; see online.h.
#include <cmath>

#include "compiler/online/match.h"

namespace bz {
namespace {

bool is_zero(const ir::Graph& g, NodeId id) {
  const Scalar* c = as_constant(g, id);
  return c && c->f == 0;
}

// The pivot of a sum of exponentials: the maximum, maybe guarded.
struct Pivot {
  NodeId value = kNoNode;    // the node that stands in x - value
  NodeId maximum = kNoNode;  // the reduction it is made of
  bool own_guard = false;    // 0 for both infinities: what the state uses itself
};

// m; select(isinf m, 0, m); select(isfinite m, m, 0), which differs only for NaN, where every sum is NaN; and
// select(m == -inf, 0, m), which leaves +inf to the caller.
Pivot as_pivot(const ir::Graph& g, NodeId value, NodeId x, const Axes& axes) {
  auto is_max = [&](NodeId id) {
    const ReduceAttrs* reduce = as_reduce(g, id, Monoid::max);
    return reduce && reduce->axes == axes && g.node(id).operands[0] == x;
  };
  if (is_max(value)) return {value, value, false};
  const std::vector<NodeId>* select = as_map(g, value, ScalarOp::select);
  if (!select) return {};
  NodeId c = (*select)[0], a = (*select)[1], b = (*select)[2];
  auto tests = [&](ScalarOp op, NodeId m) {
    const std::vector<NodeId>* test = as_map(g, c, op);
    return test && (*test)[0] == m;
  };
  if (is_zero(g, a) && is_max(b)) {
    if (tests(ScalarOp::isinf, b)) return {value, b, true};
    if (tests(ScalarOp::eq, b)) {
      const Scalar* limit = as_constant(g, g.node(c).operands[1]);
      if (limit && std::isinf(limit->f) && limit->f < 0) return {value, b, false};
    }
  }
  if (is_zero(g, b) && is_max(a) && tests(ScalarOp::isfinite, a)) return {value, a, true};
  return {};
}

}  // namespace

void match_max_sumexp(const ir::Graph& g, Replacements& out) {
  for (NodeId id = 0; id < g.size(); ++id) {
    const ReduceAttrs* sum = as_reduce(g, id, Monoid::sum);
    if (!sum) continue;
    const std::vector<NodeId>* exp = as_map(g, g.node(id).operands[0], ScalarOp::exp);
    const std::vector<NodeId>* difference = exp ? as_map(g, (*exp)[0], ScalarOp::sub) : nullptr;
    if (!difference) continue;
    NodeId x = (*difference)[0];
    const Axes& axes = sum->axes;
    for (NodeId value : broadcast_values(g, (*difference)[1])) {
      Pivot pivot = as_pivot(g, value, x, axes);
      if (pivot.maximum == kNoNode || !repeats_along(g, (*difference)[1], axes)) continue;
      out[pivot.maximum] = [=](Rewriter& rw) { return state(rw, Monoid::max_sumexp, x, axes, 0); };
      out[id] = [=](Rewriter& rw) {
        NodeId total = state(rw, Monoid::max_sumexp, x, axes, 1);
        if (pivot.own_guard) return total;
        NodeId m = rw.moved(pivot.maximum);
        NodeId zero = rw.constant(Scalar::of(rw.type(m).dtype, 0), rw.type(m).shape);
        NodeId guarded = rw.map(ScalarOp::select, {rw.map(ScalarOp::isinf, {m}), zero, m});
        NodeId shift = rw.map(ScalarOp::sub, {guarded, rw.moved(pivot.value)});
        return rw.map(ScalarOp::mul, {total, rw.map(ScalarOp::exp, {shift})});
      };
      break;
    }
  }
}

}  // namespace bz

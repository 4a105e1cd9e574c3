// Maps that never act, or have one result, on the range of their operands.
#include "compiler/simplify/rules.h"

namespace bz {
namespace {

std::optional<NodeId> truth(Rewriter& rw, const Draft& draft, bool value) {
  return rw.constant(Scalar::of_int(DType::boolean, value), draft.type.shape);
}

// An operand of max or min that is never chosen, and whose NaN would be none of the other's, can go.
std::optional<NodeId> choose(NodeId a, const Range& ra, NodeId b, const Range& rb, bool maximum) {
  if (!rb.nan && (maximum ? rb.below(ra) : rb.above(ra))) return a;
  if (!ra.nan && (maximum ? ra.below(rb) : ra.above(rb))) return b;
  return std::nullopt;
}

}  // namespace

std::optional<NodeId> use_ranges(Rewriter& rw, const Draft& draft) {
  const MapAttrs* map = std::get_if<MapAttrs>(&draft.attrs);
  if (!map || !is_float(rw.type(draft.operands.back()).dtype)) return std::nullopt;
  const ScalarOp op = map->op;
  const std::vector<NodeId>& x = draft.operands;
  const Range a = rw.range(x[0]);
  if (op == ScalarOp::abs && a.above({0.0, 0.0, false})) return x[0];
  if (op == ScalarOp::isnan && !a.nan) return truth(rw, draft, false);
  if (op == ScalarOp::isinf && a.finite()) return truth(rw, draft, false);
  if (op == ScalarOp::isfinite && a.finite() && !a.nan) return truth(rw, draft, true);

  if (x.size() < 2) return std::nullopt;
  const Range b = rw.range(x[1]);
  if (op == ScalarOp::max) return choose(x[0], a, x[1], b, true);
  if (op == ScalarOp::min) return choose(x[0], a, x[1], b, false);
  if (op == ScalarOp::clamp) {
    const Range c = rw.range(x[2]);
    if (!b.nan && b.below(a)) return rw.map(ScalarOp::min, {x[0], x[2]});
    if (!c.nan && c.above(a) && c.above(b)) return rw.map(ScalarOp::max, {x[0], x[1]});
  }
  const bool numbers = !a.nan && !b.nan;
  const bool apart = a.hi < b.lo || a.lo > b.hi;
  if (op == ScalarOp::eq && apart) return truth(rw, draft, false);
  if (op == ScalarOp::ne && apart) return truth(rw, draft, true);
  if (op == ScalarOp::lt && numbers && a.hi < b.lo) return truth(rw, draft, true);
  if (op == ScalarOp::lt && a.lo >= b.hi) return truth(rw, draft, false);
  if (op == ScalarOp::le && numbers && a.hi <= b.lo) return truth(rw, draft, true);
  if (op == ScalarOp::le && a.lo > b.hi) return truth(rw, draft, false);
  return std::nullopt;
}

}  // namespace bz

// Reductions over nothing or one element, with kept axes, of negated elements.
#include <algorithm>

#include "compiler/simplify/rules.h"

namespace bz {
namespace {

// Whether reducing copies of one value, at least one, gives that value.
bool is_idempotent(Monoid m) {
  switch (m) {
    case Monoid::max:
    case Monoid::min:
    case Monoid::any:
    case Monoid::all: return true;
    case Monoid::sum:
    case Monoid::prod:
    case Monoid::argmax:
    case Monoid::argmin:
    case Monoid::max_sumexp:
    case Monoid::moments: return false;
  }
  throw InternalError("unknown monoid");
}

}  // namespace

std::optional<NodeId> simplify_reductions(Rewriter& rw, const Draft& draft) {
  const ReduceAttrs* reduce = std::get_if<ReduceAttrs>(&draft.attrs);
  if (!reduce) return std::nullopt;
  const MonoidInfo& monoid = info(reduce->monoid);
  const Shape& shape = rw.type(draft.operands[0]).shape;
  if (reduce->keepdims) {
    ReduceAttrs dropped = *reduce;
    dropped.keepdims = false;
    return rw.reshape(rw.reduce(std::move(dropped), draft.type.dtype, draft.operands), draft.type.shape);
  }
  if (reduce->merge) return std::nullopt;

  std::int64_t count = 1;
  for (int axis : reduce->axes) count *= shape[static_cast<std::size_t>(axis)];
  bool simple = monoid.user && monoid.components == 1;
  if (count == 0 && simple) {
    Scalar identity = monoid.identity(draft.type.dtype, monoid.inputs)[0];
    identity.dtype = draft.type.dtype;  // 0 and 1 are the same in f16 and f32
    return rw.constant(identity, draft.type.shape);
  }
  // The sum of one -0 is -0 or, begun at the identity, 0: an order of summation is not part of the meaning of sum.
  if (count == 1 && simple) return rw.reshape(draft.operands[0], draft.type.shape);
  if (count == 1 && monoid.user) {  // argmax, argmin
    if (draft.operands.size() == 1) return rw.constant(Scalar::of_int(DType::i64, 0), draft.type.shape);
    return rw.reshape(draft.operands[static_cast<std::size_t>(reduce->component)], draft.type.shape);
  }
  if (const Scalar* value = rw.constant_value(draft.operands[0]); value && is_idempotent(reduce->monoid)) {
    return rw.constant(*value, draft.type.shape);
  }
  // min(-x) = -(max x): a maximum written so is found by online. Not for integers, whose lowest value is its own negative.
  if (reduce->monoid == Monoid::min && is_float(draft.type.dtype)) {
    if (const std::vector<NodeId>* negation = rw.operands_of(draft.operands[0], ScalarOp::neg)) {
      ReduceAttrs largest = *reduce;
      largest.monoid = Monoid::max;
      return rw.map(ScalarOp::neg, {rw.reduce(std::move(largest), draft.type.dtype, {(*negation)[0]})});
    }
  }
  return std::nullopt;
}

}  // namespace bz

// Maps and views of constants and iotas.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/simplify/rules.h"

namespace bz {
namespace {

// Whether float64 followed by one rounding gives what arithmetic in `compute` gives: true of the operations
// that are correctly rounded (twice the precision and two bits more make the second rounding harmless) or
// exact. The others are left to the device, which has its own last bit.
bool folds_exactly(ScalarOp op, DType compute) {
  if (!is_float(compute)) return true;
  switch (op) {
    case ScalarOp::neg:
    case ScalarOp::abs:
    case ScalarOp::sqrt:
    case ScalarOp::reciprocal:
    case ScalarOp::floor:
    case ScalarOp::ceil:
    case ScalarOp::round:
    case ScalarOp::trunc:
    case ScalarOp::sign:
    case ScalarOp::isnan:
    case ScalarOp::isinf:
    case ScalarOp::isfinite:
    case ScalarOp::add:
    case ScalarOp::sub:
    case ScalarOp::mul:
    case ScalarOp::div:
    case ScalarOp::max:
    case ScalarOp::min:
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::gt:
    case ScalarOp::ge:
    case ScalarOp::select:
    case ScalarOp::clamp:
    case ScalarOp::cast: return true;
    case ScalarOp::fma: return compute == DType::f64;
    case ScalarOp::exp:
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log1p:
    case ScalarOp::log2:
    case ScalarOp::rsqrt:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
    case ScalarOp::tanh:
    case ScalarOp::sigmoid:
    case ScalarOp::erf:
    case ScalarOp::floordiv:
    case ScalarOp::mod:
    case ScalarOp::pow:
    case ScalarOp::atan2: return false;
    case ScalarOp::logical_not:
    case ScalarOp::logical_and:
    case ScalarOp::logical_or:
    case ScalarOp::logical_xor: return true;
  }
  throw InternalError("constant of an unknown operation");
}

std::optional<NodeId> fold_map(Rewriter& rw, const Draft& draft, ScalarOp op) {
  std::vector<Scalar> args;
  for (NodeId x : draft.operands) {
    const Scalar* value = rw.constant_value(x);
    if (!value) return std::nullopt;
    args.push_back(*value);
  }
  DType dtype = draft.type.dtype;
  if (!folds_exactly(op, compute_dtype(args.back().dtype))) return std::nullopt;
  Scalar result = evaluate(op, args, dtype);
  if (is_float(dtype)) {
    if (op != ScalarOp::cast) result.f = round_to(compute_dtype(dtype), result.f);
    // What a machine calls NaN has a sign that says nothing.
    if (std::isnan(result.f)) result.f = std::numeric_limits<double>::quiet_NaN();
    // A constant of type f16 cannot hold an unrounded result.
    if (!(Scalar::of(dtype, result.f) == result)) return std::nullopt;
  }
  return rw.constant(result, draft.type.shape);
}

}  // namespace

std::optional<NodeId> fold_constants(Rewriter& rw, const Draft& draft) {
  if (draft.operands.empty()) return std::nullopt;
  if (const MapAttrs* map = std::get_if<MapAttrs>(&draft.attrs)) return fold_map(rw, draft, map->op);
  if (std::holds_alternative<ReduceAttrs>(draft.attrs)) return std::nullopt;
  const Scalar* value = rw.constant_value(draft.operands[0]);
  if (!value) return std::nullopt;
  if (const PadAttrs* pad = std::get_if<PadAttrs>(&draft.attrs)) {
    if (!pad->value || !(*pad->value == *value)) return std::nullopt;
  }
  return rw.constant(*value, draft.type.shape);
}

// The index along an axis of one element is 0; broadcasts, permutations and prefixes of an iota are iotas.
std::optional<NodeId> fold_iota(Rewriter& rw, const Draft& draft) {
  auto iota = [&](int axis) { return rw.emit({IotaAttrs{axis}, draft.type, {}}); };
  if (const IotaAttrs* own = std::get_if<IotaAttrs>(&draft.attrs)) {
    if (draft.type.shape[static_cast<std::size_t>(own->axis)] > 1) return std::nullopt;
    return rw.constant(Scalar::of_int(draft.type.dtype, 0), draft.type.shape);
  }
  if (draft.operands.size() != 1) return std::nullopt;
  const IotaAttrs* inner = rw.graph().node(draft.operands[0]).as<IotaAttrs>();
  if (!inner) return std::nullopt;
  auto axis = static_cast<std::size_t>(inner->axis);
  if (const BroadcastAttrs* b = std::get_if<BroadcastAttrs>(&draft.attrs)) return iota(b->dims[axis]);
  if (const PermuteAttrs* p = std::get_if<PermuteAttrs>(&draft.attrs)) {
    return iota(static_cast<int>(std::find(p->perm.begin(), p->perm.end(), inner->axis) - p->perm.begin()));
  }
  if (const SliceAttrs* s = std::get_if<SliceAttrs>(&draft.attrs)) {
    if (s->starts[axis] == 0 && s->steps[axis] == 1) return iota(inner->axis);
  }
  if (const FlipAttrs* f = std::get_if<FlipAttrs>(&draft.attrs)) {
    if (std::find(f->axes.begin(), f->axes.end(), inner->axis) == f->axes.end()) return iota(inner->axis);
  }
  return std::nullopt;
}

}  // namespace bz

// Casts that change nothing.
#include "compiler/simplify/rules.h"

namespace bz {
namespace {

// Every value that arithmetic on `from` gives is a value of `to`.
bool holds_all(DType to, DType from) {
  from = compute_dtype(from);
  if (to == from || from == DType::boolean) return true;
  switch (from) {
    case DType::f32: return to == DType::f64;
    case DType::i32: return to == DType::i64 || to == DType::f64;
    case DType::f16:
    case DType::bf16:
    case DType::f64:
    case DType::i64:
    case DType::boolean: return false;
  }
  throw InternalError("cast from an unknown type");
}

}  // namespace

std::optional<NodeId> simplify_casts(Rewriter& rw, const Draft& draft) {
  const MapAttrs* map = std::get_if<MapAttrs>(&draft.attrs);
  if (!map || map->op != ScalarOp::cast) return std::nullopt;
  NodeId x = draft.operands[0];
  // A cast to its own type rounds f16 and bf16, unless that is done already.
  if (rw.type(x).dtype == draft.type.dtype && rw.is_rounded(x)) return x;
  // A detour over a wider type.
  if (const std::vector<NodeId>* inner = rw.operands_of(x, ScalarOp::cast)) {
    NodeId y = (*inner)[0];
    if (holds_all(rw.type(x).dtype, rw.type(y).dtype)) return rw.emit({draft.attrs, draft.type, {y}});
  }
  return std::nullopt;
}

}  // namespace bz

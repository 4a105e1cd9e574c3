#include "ir/ops.h"

#include <fmt/format.h>

#include <array>
#include <unordered_map>

#include "ir/scalar_math.h"
#include "support/error.h"

namespace bz {
namespace {

constexpr std::array kOps = {
#define BZ_SCALAR_OP(name, text, arity, accepts, result, fast_error, doc) \
  ScalarOpInfo{ScalarOp::name, text, arity, Accepts::accepts, Result::result, fast_error, doc},
#include "ir/ops.def"
#undef BZ_SCALAR_OP
};

// "exp needs a floating type, got i32; cast it to f32 first"
std::string explain_rejection(const ScalarOpInfo& op, DType t) {
  const std::string_view got = name(t);
  switch (op.accepts) {
    case Accepts::numeric:
      return fmt::format("{} needs a number, got {}; cast it to i32 or f32 first", op.text, got);
    case Accepts::floating:
      if (op.op == ScalarOp::div && is_integer(t)) {
        return fmt::format("div needs a floating type, got {}; use floordiv or cast to f32 first", got);
      }
      return fmt::format("{} needs a floating type, got {}; cast it to f32 first", op.text, got);
    case Accepts::logical:
      return fmt::format("{} needs bool or an integer type, got {}; compare it with 0 first", op.text, got);
    case Accepts::any: break;
  }
  throw InternalError(fmt::format("{} accepts every type", op.text));
}

Scalar make_bool(bool value) { return Scalar::of_int(DType::boolean, value ? 1 : 0); }

Scalar evaluate_cast(const Scalar& x, DType result) {
  return is_float(x.dtype) ? Scalar::of(result, x.f) : Scalar::of_int(result, x.i);
}

}  // namespace

std::span<const ScalarOpInfo> scalar_ops() { return kOps; }

const ScalarOpInfo& info(ScalarOp op) { return kOps[static_cast<std::size_t>(op)]; }

std::optional<ScalarOp> parse_scalar_op(std::string_view text) {
  static const auto by_text = [] {
    std::unordered_map<std::string_view, ScalarOp> map;
    for (const ScalarOpInfo& row : kOps) map.emplace(row.text, row.op);
    return map;
  }();
  const auto found = by_text.find(text);
  if (found == by_text.end()) return std::nullopt;
  return found->second;
}

bool accepts(ScalarOp op, DType t) {
  switch (info(op).accepts) {
    case Accepts::numeric: return t != DType::boolean;
    case Accepts::floating: return is_float(t);
    case Accepts::logical: return !is_float(t);
    case Accepts::any: return true;
  }
  throw InternalError("op accepts nothing");
}

std::optional<DType> infer_dtype(ScalarOp op, std::span<const DType> operands, DType target,
                                 std::string* why) {
  const ScalarOpInfo& row = info(op);
  const auto refuse = [&](std::string reason) {
    if (why != nullptr) *why = std::move(reason);
    return std::nullopt;
  };
  if (static_cast<int>(operands.size()) != row.arity) {
    return refuse(fmt::format("{} takes {} operand{}, got {}", row.text, row.arity, row.arity == 1 ? "" : "s",
                              operands.size()));
  }
  const std::span<const DType> values = op == ScalarOp::select ? operands.subspan(1) : operands;
  if (op == ScalarOp::select && operands[0] != DType::boolean) {
    return refuse(
        fmt::format("select needs a bool condition, got {}; compare it with 0 first", name(operands[0])));
  }
  for (DType t : values) {
    if (t != values[0]) {
      return refuse(fmt::format("{} needs operands of one type, got {} and {}; cast one of them", row.text,
                                name(values[0]), name(t)));
    }
  }
  if (!accepts(op, values[0])) return refuse(explain_rejection(row, values[0]));
  switch (row.result) {
    case Result::same: return values[0];
    case Result::boolean: return DType::boolean;
    case Result::target: return target;
  }
  throw InternalError("op has no result");
}

Scalar evaluate(ScalarOp op, std::span<const Scalar> args, DType result) {
  check(static_cast<int>(args.size()) == info(op).arity, "evaluate: wrong number of arguments");
  if (op == ScalarOp::cast) return evaluate_cast(args[0], result);
  if (op == ScalarOp::select) return args[0].i != 0 ? args[1] : args[2];

  const bool floating = is_float(args[0].dtype);
  Scalar out;
  if (scalar_math::is_classification(op)) {
    scalar_math::visit_classification(op, [&](auto f) { out = make_bool(f(args[0].f)); });
  } else if (info(op).result == Result::boolean && floating) {
    scalar_math::visit_comparison<double>(op, [&](auto f) { out = make_bool(f(args[0].f, args[1].f)); });
  } else if (info(op).result == Result::boolean) {
    scalar_math::visit_comparison<std::int64_t>(op,
                                                [&](auto f) { out = make_bool(f(args[0].i, args[1].i)); });
  } else if (floating) {
    out.dtype = result;
    const auto arg = [&](std::size_t k) { return k < args.size() ? args[k].f : 0.0; };
    scalar_math::visit_float_op(op, [&](auto f) { out.f = f(arg(0), arg(1), arg(2)); });
  } else if (op == ScalarOp::logical_not && result == DType::boolean) {
    out = make_bool(args[0].i == 0);
  } else {
    out.dtype = result;
    const auto arg = [&](std::size_t k) { return k < args.size() ? args[k].i : 0; };
    scalar_math::visit_integer_op(op, [&](auto f) { out.i = wrap_to(result, f(arg(0), arg(1), arg(2))); });
  }
  return out;
}

}  // namespace bz

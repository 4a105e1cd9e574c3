// The scalar op table as C++: see ir/ops.def for the rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/dtype.h"

namespace bz {

enum class ScalarOp : std::uint8_t {
#define BZ_SCALAR_OP(name, text, arity, accepts, result, fast_error, doc) name,
#include "ir/ops.def"
#undef BZ_SCALAR_OP
};

enum class Accepts : std::uint8_t { numeric, floating, logical, any };
enum class Result : std::uint8_t { same, boolean, target };

struct ScalarOpInfo {
  ScalarOp op;
  std::string_view text;
  int arity;
  Accepts accepts;
  Result result;
  double fast_error;
  std::string_view doc;
};

std::span<const ScalarOpInfo> scalar_ops();  // every row, in table order
const ScalarOpInfo& info(ScalarOp op);
std::optional<ScalarOp> parse_scalar_op(std::string_view text);  // "add" -> ScalarOp::add

// True when `op` takes value operands of type `t` (the condition of select is always bool).
bool accepts(ScalarOp op, DType t);

// Result type for operand types, or an explanation in `why` (no location, lower case): "add needs operands of one
// type, got f32 and f16; cast one of them". `target` is the type asked for by cast.
std::optional<DType> infer_dtype(ScalarOp op, std::span<const DType> operands, DType target,
                                 std::string* why);

// The value of `op` on values, in the precision of the reference: float64 for every floating type (nothing is
// rounded but by cast), exact wrapping integers. The meaning of every op is fixed here.
Scalar evaluate(ScalarOp op, std::span<const Scalar> args, DType result);

}  // namespace bz

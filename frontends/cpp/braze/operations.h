// What can be done with tensors. Names and meanings are PyTorch's; `axes` stands where PyTorch has `dim`, a
// negative axis counts from the end, and no axes are all axes.
//
//   auto m = bz::max(x, {1}, bz::keepdims);
//   auto e = bz::exp(x - m);
//   auto y = e / bz::sum(e, {1}, bz::keepdims);
//
// Operands broadcast as in NumPy. A number takes the type of the tensor it meets: `x * 0.5` of an f16 tensor
// is f16. Tensors of different types do not mix: cast one of them.
#pragma once

#include <braze/tensor.h>

#include <initializer_list>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "ir/ops.h"

namespace bz {

// ---- operators ----
Tensor operator-(const Arg& x);
Tensor operator!(const Arg& x);
Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
Tensor operator/(const Operand& a, const Operand& b);  // of floating types; floordiv for integers
Tensor operator==(const Operand& a, const Operand& b);
Tensor operator!=(const Operand& a, const Operand& b);
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor operator&&(const Operand& a,
                  const Operand& b);  // of bool, bitwise of integers; both sides are computed
Tensor operator||(const Operand& a, const Operand& b);

// ---- maps ----
// Applies a scalar op; what every function below does. At least one operand is a tensor.
Tensor map(ScalarOp op, std::initializer_list<Operand> operands);

// Every row of ir/ops.def but cast is a function of the row's name: exp(x), maximum of two tensors max(a, b),
// clamp(x, lo, hi), select(condition, a, b), ... Those of two operands take a number on either side. They are
// templates there so that `max(x, 0)` is this one and `max(x, {0})` the reduction over axis 0.
template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

#define BZ_MAP_1(name) \
  inline Tensor name(const Arg& x) { return map(ScalarOp::name, {x}); }
#define BZ_MAP_2(name)                                                                                \
  inline Tensor name(const Arg& a, const Arg& b) { return map(ScalarOp::name, {a, b}); }              \
  inline Tensor name(const Arg& a, Arithmetic auto b) { return map(ScalarOp::name, {a, {b, a.at}}); } \
  inline Tensor name(Arithmetic auto a, const Arg& b) { return map(ScalarOp::name, {{a, b.at}, b}); }
#define BZ_MAP_3(name)                                                       \
  inline Tensor name(const Operand& a, const Operand& b, const Operand& c) { \
    return map(ScalarOp::name, {a, b, c});                                   \
  }
#define BZ_MAP_same(name, arity) BZ_MAP_##arity(name)
#define BZ_MAP_boolean(name, arity) BZ_MAP_##arity(name)
#define BZ_MAP_target(name, arity)
#define BZ_SCALAR_OP(name, text, arity, accepts, result, fast_error, doc) BZ_MAP_##result(name, arity)
#include "ir/ops.def"
#undef BZ_SCALAR_OP
#undef BZ_MAP_target
#undef BZ_MAP_boolean
#undef BZ_MAP_same
#undef BZ_MAP_3
#undef BZ_MAP_2
#undef BZ_MAP_1

Tensor cast(const Arg& x, DType dtype);  // x itself when it has the type

// ---- views ----
Tensor broadcast_to(const Arg& x, Shape shape);
Tensor reshape(const Arg& x, Shape shape);  // one extent may be -1
Tensor permute(const Arg& x, Axes perm);    // result axis i is operand axis perm[i]
Tensor transpose(const Arg& x, int axis0, int axis1);
// Elements starts[a], starts[a] + steps[a], ... below stops[a]; one entry for every axis.
Tensor slice(const Arg& x, std::vector<std::int64_t> starts, std::vector<std::int64_t> stops,
             std::vector<std::int64_t> steps = {});
// `length` elements along one axis from `start`, which counts from the end when negative.
Tensor narrow(const Arg& x, int axis, std::int64_t start, std::int64_t length);
Tensor flip(const Arg& x, Axes axes);
// `lo` elements of `value` before and `hi` after; one entry for every axis.
Tensor pad(const Arg& x, std::vector<std::int64_t> lo, std::vector<std::int64_t> hi, Number value = 0);
// Sliding windows over `axes`: each keeps its place with the number of positions, the windows' own axes are
// appended.
Tensor window(const Arg& x, Axes axes, std::vector<std::int64_t> size, std::vector<std::int64_t> stride = {},
              std::vector<std::int64_t> dilation = {});

// ---- reductions ----
struct KeepDims {
  bool value = false;
};
inline constexpr KeepDims keepdims{true};  // reduced axes stay, with extent 1

Tensor sum(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor prod(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor max(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor min(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor any(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor all(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor argmax(const Arg& x, const Axes& axes = {},
              KeepDims keep = {});  // i64, row-major over the reduced axes
Tensor argmin(const Arg& x, const Axes& axes = {}, KeepDims keep = {});

// ---- composites: see ir/composites.h for formulas ----
Tensor softmax(const Arg& x, const Axes& axes);
Tensor log_softmax(const Arg& x, const Axes& axes);
Tensor logsumexp(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor mean(const Arg& x, const Axes& axes = {}, KeepDims keep = {});
Tensor var(const Arg& x, const Axes& axes = {}, std::int64_t correction = 1, KeepDims keep = {});
Tensor std(const Arg& x, const Axes& axes = {}, std::int64_t correction = 1, KeepDims keep = {});

Tensor square(const Arg& x);
Tensor relu(const Arg& x);
Tensor leaky_relu(const Arg& x, double negative_slope = 0.01);
Tensor elu(const Arg& x, double alpha = 1);
Tensor selu(const Arg& x);
Tensor gelu(const Arg& x, std::string_view approximate = "none");  // or "tanh"
Tensor silu(const Arg& x);
Tensor mish(const Arg& x);
Tensor softplus(const Arg& x, double beta = 1, double threshold = 20);
Tensor softsign(const Arg& x);
Tensor hardtanh(const Arg& x, double min = -1, double max = 1);
Tensor hardsigmoid(const Arg& x);
Tensor hardswish(const Arg& x);

// gamma and beta may be empty tensors, which are left out. Parameters have the type of x, or f32 where that is f16 or bf16.
Tensor layer_norm(const Arg& x, const Axes& axes = {-1}, const Tensor& gamma = {}, const Tensor& beta = {},
                  double eps = 1e-5);
Tensor rms_norm(const Arg& x, const Axes& axes = {-1}, const Tensor& gamma = {},
                std::optional<double> eps = std::nullopt);
Tensor group_norm(const Arg& x, std::int64_t groups, const Tensor& gamma = {}, const Tensor& beta = {},
                  double eps = 1e-5);
Tensor instance_norm(const Arg& x, const Tensor& gamma = {}, const Tensor& beta = {}, double eps = 1e-5);
Tensor batch_norm(const Arg& x, const Tensor& mean, const Tensor& variance, const Tensor& gamma = {},
                  const Tensor& beta = {}, double eps = 1e-5);

Tensor mse(const Arg& x, const Arg& y, std::string_view reduction = "mean");
Tensor cross_entropy(const Arg& logits, const Arg& targets, std::string_view reduction = "mean");

}  // namespace bz

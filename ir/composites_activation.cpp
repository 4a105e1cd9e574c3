// Elementwise composites. The order of operations is PyTorch's, so that infinities and NaN come out as there.
#include "ir/composites.h"
#include "ir/composites_build.h"

namespace bz::composite {
namespace {

// log(1 + exp(x)) without overflow.
NodeId log1p_exp(const Build& b, NodeId x) {
  const NodeId small = b.un(ScalarOp::exp, b.un(ScalarOp::neg, b.un(ScalarOp::abs, x)));
  return b.add(b.bin(ScalarOp::max, x, b.like(x, 0)), b.un(ScalarOp::log1p, small));
}

// x where it is positive, else `negative`.
NodeId where_positive(const Build& b, NodeId x, NodeId negative) {
  return b.select(b.bin(ScalarOp::gt, x, b.like(x, 0)), x, negative);
}

}  // namespace

NodeId square(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("square");
  return Build{g}.mul(x, x);
}

NodeId relu(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("relu");
  const Build b{g};
  return b.bin(ScalarOp::max, x, b.like(x, 0));
}

NodeId leaky_relu(ir::Graph& g, NodeId x, double negative_slope) {
  const auto scope = g.scope("leaky_relu");
  const Build b{g};
  b.require_float(x, "leaky_relu");
  const NodeId w = b.widen(x);
  return b.cast(where_positive(b, w, b.mul_scalar(w, negative_slope)), g.type(x).dtype);
}

NodeId elu(ir::Graph& g, NodeId x, double alpha) {
  const auto scope = g.scope("elu");
  const Build b{g};
  b.require_float(x, "elu");
  const NodeId w = b.widen(x);
  const NodeId negative = b.mul_scalar(b.un(ScalarOp::expm1, w), alpha);
  return b.cast(where_positive(b, w, negative), g.type(x).dtype);
}

NodeId selu(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("selu");
  // The fixed point of Klambauer et al. 2017, to more digits than float64 has.
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  const Build b{g};
  b.require_float(x, "selu");
  const NodeId w = b.widen(x);
  const NodeId negative = b.mul_scalar(b.un(ScalarOp::expm1, w), kAlpha);
  return b.cast(b.mul_scalar(where_positive(b, w, negative), kScale), g.type(x).dtype);
}

NodeId gelu(ir::Graph& g, NodeId x, std::string_view approximate) {
  const auto scope = g.scope("gelu");
  constexpr double kSqrtHalf = 0.70710678118654752440;
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  const Build b{g};
  b.require_float(x, "gelu");
  const NodeId w = b.widen(x);
  NodeId s = kNoNode;
  if (approximate == "none") {
    s = b.un(ScalarOp::erf, b.mul_scalar(w, kSqrtHalf));
  } else if (approximate == "tanh") {
    const NodeId cube = b.mul(b.mul(w, w), w);
    s = b.un(ScalarOp::tanh, b.mul_scalar(b.add(w, b.mul_scalar(cube, 0.044715)), kSqrtTwoOverPi));
  } else {
    g.fail(fmt::format("gelu: approximate is \"{}\", expected \"none\" or \"tanh\"", approximate));
  }
  return b.cast(b.mul(b.mul_scalar(w, 0.5), b.add_scalar(s, 1)), g.type(x).dtype);
}

NodeId silu(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("silu");
  const Build b{g};
  b.require_float(x, "silu");
  return b.mul(x, b.un(ScalarOp::sigmoid, x));
}

NodeId mish(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("mish");
  const Build b{g};
  b.require_float(x, "mish");
  return b.mul(x, b.un(ScalarOp::tanh, log1p_exp(b, x)));
}

NodeId softplus(ir::Graph& g, NodeId x, double beta, double threshold) {
  const auto scope = g.scope("softplus");
  const Build b{g};
  b.require_float(x, "softplus");
  const NodeId w = b.widen(x);
  const NodeId z = b.mul_scalar(w, beta);
  const NodeId linear = b.bin(ScalarOp::gt, z, b.like(z, threshold));
  return b.cast(b.select(linear, w, b.div_scalar(log1p_exp(b, z), beta)), g.type(x).dtype);
}

NodeId softsign(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("softsign");
  const Build b{g};
  b.require_float(x, "softsign");
  return b.div(x, b.add_scalar(b.un(ScalarOp::abs, x), 1));
}

NodeId hardtanh(ir::Graph& g, NodeId x, double min, double max) {
  const auto scope = g.scope("hardtanh");
  return Build{g}.clamp(x, min, max);
}

NodeId hardsigmoid(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("hardsigmoid");
  const Build b{g};
  b.require_float(x, "hardsigmoid");
  return b.div_scalar(b.clamp(b.add_scalar(x, 3), 0, 6), 6);
}

// x * clamp((x + 3) / 6, 0, 1), where (x + 3) / 6 is rounded once as x * (1 / 6) + 1 / 2, and near -3, where the terms of that cancel, as
// (x + 3) * (1 / 6), whose sum is exact.
NodeId hardswish(ir::Graph& g, NodeId x) {
  const auto scope = g.scope("hardswish");
  const Build b{g};
  b.require_float(x, "hardswish");
  const NodeId w = b.widen(x), sixth = b.like(w, 1.0 / 6);
  const NodeId rising = b.select(b.bin(ScalarOp::lt, w, b.like(w, -1.5)), b.mul(b.add_scalar(w, 3), sixth),
                                 g.map(ScalarOp::fma, {w, sixth, b.like(w, 0.5)}));
  return b.cast(b.mul(w, b.clamp(rising, 0, 1)), g.type(x).dtype);
}

}  // namespace bz::composite

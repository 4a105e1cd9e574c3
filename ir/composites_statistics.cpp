// softmax, log_softmax, logsumexp, mean, var, std. The online pass recognises these formulas by their shape.
#include <algorithm>
#include <limits>

#include "ir/composites.h"
#include "ir/composites_build.h"

namespace bz::composite {
namespace {

// Without the axes that a reduction with keepdims leaves with extent 1.
NodeId drop_axes(ir::Graph& g, NodeId x, const Axes& axes, bool keepdims) {
  if (keepdims || axes.empty()) return x;
  Shape shape;
  for (int axis = 0; axis < g.type(x).rank(); ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) {
      shape.push_back(g.type(x).shape[static_cast<std::size_t>(axis)]);
    }
  }
  return g.reshape(x, std::move(shape));
}

double extent_product(const ir::Graph& g, NodeId x, const Axes& axes) {
  double n = 1;
  for (int axis : axes) n *= static_cast<double>(g.type(x).shape[static_cast<std::size_t>(axis)]);
  return n;
}

// Sum of squared deviations from the mean over `divisor`, with the reduced axes kept.
NodeId scaled_squared_deviations(const Build& b, NodeId x, const Axes& axes, double divisor) {
  const NodeId d = b.sub(x, mean(b.g, x, axes, true));
  return b.div_scalar(b.g.reduce(Monoid::sum, b.mul(d, d), axes, true), divisor);
}

}  // namespace

NodeId softmax(ir::Graph& g, NodeId x, const Axes& axes) {
  const auto scope = g.scope("softmax");
  const Build b{g};
  b.require_float(x, "softmax");
  const Axes over = g.normalize_axes(x, axes, "softmax");
  if (g.type(x).elements() == 0) return b.un(ScalarOp::exp, x);  // nothing has no maximum
  const NodeId m = g.reduce(Monoid::max, x, over, true);
  const NodeId e = b.un(ScalarOp::exp, b.sub(x, m));
  return b.div(e, g.reduce(Monoid::sum, e, over, true));
}

NodeId log_softmax(ir::Graph& g, NodeId x, const Axes& axes) {
  const auto scope = g.scope("log_softmax");
  const Build b{g};
  b.require_float(x, "log_softmax");
  const Axes over = g.normalize_axes(x, axes, "log_softmax");
  if (g.type(x).elements() == 0) return b.un(ScalarOp::exp, x);
  const NodeId d = b.sub(x, g.reduce(Monoid::max, x, over, true));
  const NodeId s = g.reduce(Monoid::sum, b.un(ScalarOp::exp, d), over, true);
  return b.sub(d, b.un(ScalarOp::log, s));
}

NodeId logsumexp(ir::Graph& g, NodeId x, const Axes& axes, bool keepdims) {
  const auto scope = g.scope("logsumexp");
  const Build b{g};
  b.require_float(x, "logsumexp");
  const Axes over = g.normalize_axes(x, axes, "logsumexp");
  if (extent_product(g, x, over) == 0) {
    const NodeId none = g.reduce(Monoid::sum, x, over, keepdims);
    return b.like(none, -std::numeric_limits<double>::infinity());
  }
  const NodeId m = g.reduce(Monoid::max, x, over, true);
  // An infinite maximum must not be subtracted from itself.
  const NodeId p = b.select(b.un(ScalarOp::isinf, m), b.like(m, 0), m);
  const NodeId s = g.reduce(Monoid::sum, b.un(ScalarOp::exp, b.sub(x, p)), over, true);
  return drop_axes(g, b.add(b.un(ScalarOp::log, s), p), over, keepdims);
}

NodeId mean(ir::Graph& g, NodeId x, const Axes& axes, bool keepdims) {
  const auto scope = g.scope("mean");
  const Build b{g};
  b.require_float(x, "mean");
  const Axes over = g.normalize_axes(x, axes, "mean");
  const NodeId s = g.reduce(Monoid::sum, b.widen(x), over, keepdims);
  return b.cast(b.div_scalar(s, extent_product(g, x, over)), g.type(x).dtype);
}

NodeId var(ir::Graph& g, NodeId x, const Axes& axes, std::int64_t correction, bool keepdims) {
  const auto scope = g.scope("var");
  const Build b{g};
  b.require_float(x, "var");
  const Axes over = g.normalize_axes(x, axes, "var");
  const double divisor = std::max(extent_product(g, x, over) - static_cast<double>(correction), 0.0);
  const NodeId v = scaled_squared_deviations(b, b.widen(x), over, divisor);
  return b.cast(drop_axes(g, v, over, keepdims), g.type(x).dtype);
}

NodeId std(ir::Graph& g, NodeId x, const Axes& axes, std::int64_t correction, bool keepdims) {
  const auto scope = g.scope("std");
  const Build b{g};
  b.require_float(x, "std");
  const Axes over = g.normalize_axes(x, axes, "std");
  const NodeId v = var(g, b.widen(x), over, correction, keepdims);
  return b.cast(b.un(ScalarOp::sqrt, v), g.type(x).dtype);
}

}  // namespace bz::composite

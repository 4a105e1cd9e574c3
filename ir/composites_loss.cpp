// Losses.
#include "ir/composites.h"
#include "ir/composites_build.h"

namespace bz::composite {
namespace {

NodeId reduce_loss(ir::Graph& g, NodeId loss, std::string_view reduction, std::string_view what) {
  if (reduction == "none") return loss;
  if (reduction == "sum") return g.reduce(Monoid::sum, loss, {}, false);
  if (reduction == "mean") return mean(g, loss, {});
  g.fail(fmt::format("{}: reduction is \"{}\", expected \"mean\", \"sum\" or \"none\"", what, reduction));
}

}  // namespace

NodeId mse(ir::Graph& g, NodeId x, NodeId y, std::string_view reduction) {
  const auto scope = g.scope("mse");
  const Build b{g};
  b.require_float(x, "mse");
  const NodeId d = b.sub(x, y);
  return reduce_loss(g, b.mul(d, d), reduction, "mse");
}

NodeId cross_entropy(ir::Graph& g, NodeId logits, NodeId targets, std::string_view reduction) {
  const auto scope = g.scope("cross_entropy");
  const Build b{g};
  b.require_float(logits, "cross_entropy");
  const Type type = g.type(logits);
  const Type target = g.type(targets);
  if (!is_integer(target.dtype)) {
    g.fail(fmt::format("cross_entropy needs targets of type i32 or i64, got {}", to_string(target)));
  }
  if (type.rank() == 0 || Shape(type.shape.begin(), type.shape.end() - 1) != target.shape) {
    g.fail(fmt::format(
        "cross_entropy: logits are {} and targets {}; targets have the shape of logits without the last "
        "axis",
        to_string(type), to_string(target)));
  }
  const int classes = type.rank() - 1;
  Axes rows;
  for (int axis = 0; axis < classes; ++axis) rows.push_back(axis);
  const NodeId logp = log_softmax(g, logits, {classes});
  const NodeId index = g.iota(target.dtype, type.shape, classes);
  const NodeId hit = g.map(ScalarOp::eq, {index, g.broadcast(targets, type.shape, rows)});
  const NodeId picked = g.reduce(Monoid::sum, b.select(hit, logp, b.like(logp, 0)), {classes}, false);
  return reduce_loss(g, b.un(ScalarOp::neg, picked), reduction, "cross_entropy");
}

}  // namespace bz::composite

#include "ir/interpret/deviations.h"

#include <algorithm>

namespace bz::interpret_detail {
namespace {

bool is_map(const ir::Graph& g, NodeId id, ScalarOp op) {
  const auto* map = g.node(id).as<MapAttrs>();
  return map != nullptr && map->op == op;
}

// Axes of more than one element, which views that add and drop others keep in order.
Axes wide_axes(const Shape& shape) {
  Axes axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) axes.push_back(static_cast<int>(i));
  }
  return axes;
}

// `m` without a broadcast and reshapes that only add and drop axes of one element, and the axes of `m` that its wide axes
// have become.
struct Repeated {
  NodeId value = kNoNode;
  Axes places;
};
Repeated repeated(const ir::Graph& g, NodeId m) {
  Repeated r{m, wide_axes(g.type(m).shape)};
  for (;;) {
    const Node& node = g.node(r.value);
    const bool broadcast = node.as<BroadcastAttrs>() != nullptr;
    if (!broadcast && node.as<ReshapeAttrs>() == nullptr) return r;
    const Axes from = wide_axes(g.type(node.operands[0]).shape), to = wide_axes(node.type.shape);
    Axes places;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto extent = g.type(node.operands[0]).shape[static_cast<std::size_t>(from[i])];
      const int axis = broadcast       ? node.as<BroadcastAttrs>()->dims[static_cast<std::size_t>(from[i])]
                       : i < to.size() ? to[i]
                                       : -1;
      if (axis < 0 || node.type.shape[static_cast<std::size_t>(axis)] != extent) return r;
      const auto at = std::find(to.begin(), to.end(), axis) - to.begin();
      places.push_back(r.places[static_cast<std::size_t>(at)]);
    }
    if (!broadcast && from.size() != to.size()) return r;
    r = {node.operands[0], std::move(places)};
  }
}

// The axes over which `m` is the mean of `x`, laid along the others of x.
std::optional<Axes> mean_axes(const ir::Graph& g, NodeId m, NodeId x) {
  const Repeated mean = repeated(g, m);
  const bool divided = is_map(g, mean.value, ScalarOp::div);
  if (!divided && !is_map(g, mean.value, ScalarOp::mul)) return std::nullopt;
  const Node& quotient = g.node(mean.value);
  const auto* sum = g.node(quotient.operands[0]).as<ReduceAttrs>();
  const auto* by = g.node(quotient.operands[1]).as<ConstantAttrs>();
  if (sum == nullptr || by == nullptr || sum->monoid != Monoid::sum || sum->merge) return std::nullopt;
  if (g.node(quotient.operands[0]).operands[0] != x) return std::nullopt;
  const Shape& shape = g.type(x).shape;
  double n = 1;
  Axes kept;
  for (const int axis : wide_axes(shape)) {
    const bool reduced = std::binary_search(sum->axes.begin(), sum->axes.end(), axis);
    if (!reduced) kept.push_back(axis);
    n *= reduced ? static_cast<double>(shape[static_cast<std::size_t>(axis)]) : 1;
  }
  const bool whole = n > 0 && by->value.f == (divided ? n : 1 / n);
  return whole && mean.places == kept ? std::optional(sum->axes) : std::nullopt;
}

std::optional<Axes> deviation_axes(const ir::Graph& g, NodeId id) {
  if (g.type(id).dtype != DType::f64 || !is_map(g, id, ScalarOp::sub)) return std::nullopt;
  const std::vector<NodeId>& o = g.node(id).operands;
  const std::optional<Axes> axes = mean_axes(g, o[1], o[0]);
  return axes ? axes : mean_axes(g, o[0], o[1]);
}

NodeId corrected(ir::Graph& g, NodeId d, const Axes& axes) {
  const Shape shape = g.type(d).shape;
  double n = 1;
  for (const int axis : axes) n *= static_cast<double>(shape[static_cast<std::size_t>(axis)]);
  const NodeId sum = g.reduce(Monoid::sum, d, axes, true);
  const auto all = [&](double value) { return g.constant(Scalar::of(DType::f64, value), g.type(sum).shape); };
  const NodeId mean = g.map(ScalarOp::div, {sum, all(n)});
  const NodeId finite = g.map(ScalarOp::select, {g.map(ScalarOp::isfinite, {mean}), mean, all(0)});
  return g.map(ScalarOp::sub, {d, g.broadcast_to(finite, shape)});
}

}  // namespace

std::optional<ir::Graph> corrected_deviations(const ir::Graph& g) {
  std::optional<ir::Graph> to;
  std::vector<std::optional<Axes>> axes;
  for (NodeId id = 0; id < g.size(); ++id) {
    axes.push_back(deviation_axes(g, id));
    if (axes.back() && !to) to.emplace(g.name());
  }
  if (!to) return to;
  std::vector<NodeId> moved;
  for (NodeId id = 0; id < g.size(); ++id) {
    std::vector<NodeId> operands;
    for (const NodeId o : g.node(id).operands) operands.push_back(moved[static_cast<std::size_t>(o)]);
    const NodeId copy = to->copy(g, id, std::move(operands));
    const std::optional<Axes>& over = axes[static_cast<std::size_t>(id)];
    moved.push_back(over ? corrected(*to, copy, *over) : copy);
  }
  for (const Output& o : g.outputs()) to->output(o.name, moved[static_cast<std::size_t>(o.node)]);
  return to;
}

}  // namespace bz::interpret_detail

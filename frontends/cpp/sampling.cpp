#include "frontends/cpp/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace bz {
namespace {

std::string describe(const ir::Graph& g, NodeId id) {
  const Node& n = g.node(id);
  return n.name.empty() ? fmt::format("%{} ({})", id, n.op_name()) : fmt::format("%{}", n.name);
}

bool contains(const Axes& axes, int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

// The operand axis that is axis `axis` of its reshape: of equal extent and with as many elements before it;
// -1 if none.
int axis_before_reshape(const Shape& operand, const Shape& result, int axis) {
  std::int64_t before = 1, operand_before = 1;
  for (int a = 0; a < axis; ++a) before *= result[static_cast<std::size_t>(a)];
  for (std::size_t i = 0; i < operand.size(); ++i) {
    if (operand_before == before && operand[i] == result[static_cast<std::size_t>(axis)])
      return static_cast<int>(i);
    operand_before *= operand[i];
  }
  return -1;
}

// The operand axis that a reduction keeps as its axis `axis`.
int axis_before_reduce(const ReduceAttrs& reduce, int axis) {
  if (reduce.keepdims) return axis;
  for (int reduced : reduce.axes) axis += reduced <= axis ? 1 : 0;
  return axis;
}

}  // namespace

HostTensor take(const HostTensor& tensor, int axis, const std::vector<std::int64_t>& indices) {
  const auto a = static_cast<std::size_t>(axis);
  Type type = tensor.type();
  const std::int64_t extent = type.shape[a];
  type.shape[a] = static_cast<std::int64_t>(indices.size());
  std::int64_t outer = 1, inner = size_of(type.dtype);  // slices, and bytes of each
  for (std::size_t i = 0; i < type.shape.size(); ++i) (i < a ? outer : inner) *= i == a ? 1 : type.shape[i];

  HostTensor taken(type);
  const char* from = static_cast<const char*>(tensor.data());
  char* to = static_cast<char*>(taken.data());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t index : indices) {
      std::memcpy(to, from + (o * extent + index) * inner, static_cast<std::size_t>(inner));
      to += inner;
    }
  }
  return taken;
}

std::int64_t work_of(const ir::Graph& graph) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.size()), false);
  for (const Output& o : graph.outputs()) needed[static_cast<std::size_t>(o.node)] = true;
  std::int64_t work = 0;
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    std::int64_t elements = graph.type(id).elements();
    for (NodeId operand : graph.node(id).operands) {
      needed[static_cast<std::size_t>(operand)] = true;
      elements = std::max(elements, graph.type(operand).elements());
    }
    if (__builtin_add_overflow(work, elements, &work)) return INT64_MAX;
  }
  return work;
}

// Goes from the outputs to the inputs; every consumer of a node comes before it.
Sampling::Sampling(const ir::Graph& graph)
    : graph_(graph), axis_(static_cast<std::size_t>(graph.size()), kUnused) {
  for (const Output& o : graph.outputs()) {
    const Type& type = graph.type(o.node);
    if (type.rank() == 0)
      throw Error(fmt::format("the program cannot be sampled: output {} is one value", o.name));
    if (type.shape[0] == 0)
      throw Error(fmt::format("the program cannot be sampled: output {} is empty", o.name));
    if (&o == &graph.outputs().front()) extent_ = type.shape[0];
    if (type.shape[0] != extent_) {
      throw Error(fmt::format("the program cannot be sampled: output {} has {} slices and {} has {}",
                              graph.outputs().front().name, extent_, o.name, type.shape[0]));
    }
    require(o.node, 0);
  }
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (axis_[static_cast<std::size_t>(id)] != kUnused) require_operands(id);
  }
}

void Sampling::refuse(NodeId id, const std::string& why) const {
  throw Error(graph_.node(id).loc,
              fmt::format("the program cannot be sampled: {} {}", describe(graph_, id), why));
}

void Sampling::require(NodeId id, int axis) {
  int& known = axis_[static_cast<std::size_t>(id)];
  if (known != kUnused && known != axis) refuse(id, "is needed by slices and in another way too");
  known = axis;
}

void Sampling::require_operands(NodeId id) {
  const int axis = axis_[static_cast<std::size_t>(id)];
  for (NodeId operand : graph_.node(id).operands) {
    require(operand, axis == kWhole ? kWhole : operand_axis(id, axis, operand));
  }
  const auto* iota = graph_.node(id).as<IotaAttrs>();
  if (iota != nullptr && iota->axis == axis) refuse(id, "counts along the sampled axis");
}

int Sampling::operand_axis(NodeId id, int axis, NodeId operand) const {
  const Node& n = graph_.node(id);
  const Type& from = graph_.type(operand);
  const auto a = static_cast<std::size_t>(axis);
  if (n.as<MapAttrs>() != nullptr) return axis;
  if (const auto* broadcast = n.as<BroadcastAttrs>()) {
    const auto at = std::find(broadcast->dims.begin(), broadcast->dims.end(), axis);
    const auto i = at - broadcast->dims.begin();
    const bool has_it = at != broadcast->dims.end() && from.shape[static_cast<std::size_t>(i)] == extent_;
    return has_it ? static_cast<int>(i) : kWhole;
  }
  if (n.as<ReshapeAttrs>() != nullptr) {
    const int before = axis_before_reshape(from.shape, n.type.shape, axis);
    if (before < 0) refuse(id, "reshapes the sampled axis");
    return before;
  }
  if (const auto* permute = n.as<PermuteAttrs>()) return permute->perm[a];
  if (const auto* slice = n.as<SliceAttrs>()) {
    if (slice->starts[a] != 0 || slice->steps[a] != 1 || from.shape[a] != extent_)
      refuse(id, "slices the sampled axis");
    return axis;
  }
  if (const auto* flip = n.as<FlipAttrs>()) {
    if (contains(flip->axes, axis)) refuse(id, "flips the sampled axis");
    return axis;
  }
  if (const auto* pad = n.as<PadAttrs>()) {
    if (pad->lo[a] != 0 || pad->hi[a] != 0) refuse(id, "pads the sampled axis");
    return axis;
  }
  if (const auto* window = n.as<WindowAttrs>()) {
    if (axis >= from.rank() || contains(window->axes, axis)) refuse(id, "has windows over the sampled axis");
    return axis;
  }
  if (const auto* reduce = n.as<ReduceAttrs>()) {
    const int before = axis_before_reduce(*reduce, axis);
    if (contains(reduce->axes, before)) refuse(id, "reduces the sampled axis");
    return before;
  }
  throw InternalError("a leaf has operands");
}

ir::Graph Sampling::graph(std::int64_t slices) const {
  ir::Graph g(graph_.name());
  std::vector<NodeId> made(axis_.size(), kNoNode);
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& n = graph_.node(id);
    const int axis = axis_[static_cast<std::size_t>(id)];
    if (axis == kUnused && n.as<InputAttrs>() == nullptr) continue;
    Type type = n.type;
    if (axis >= 0) type.shape[static_cast<std::size_t>(axis)] = slices;
    std::vector<NodeId> operands;
    for (NodeId operand : n.operands) operands.push_back(made[static_cast<std::size_t>(operand)]);

    NodeId& to = made[static_cast<std::size_t>(id)];
    g.set_location(n.loc);
    if (const auto* input = n.as<InputAttrs>()) to = g.input(input->name, type);
    if (const auto* constant = n.as<ConstantAttrs>()) to = g.constant(constant->value, type.shape);
    if (const auto* iota = n.as<IotaAttrs>()) to = g.iota(type.dtype, type.shape, iota->axis);
    if (const auto* map = n.as<MapAttrs>()) to = g.map(map->op, operands, type.dtype);
    if (const auto* broadcast = n.as<BroadcastAttrs>())
      to = g.broadcast(operands[0], type.shape, broadcast->dims);
    if (n.as<ReshapeAttrs>() != nullptr) to = g.reshape(operands[0], type.shape);
    if (const auto* permute = n.as<PermuteAttrs>()) to = g.permute(operands[0], permute->perm);
    if (const auto* slice = n.as<SliceAttrs>()) {
      std::vector<std::int64_t> stops;
      for (std::size_t i = 0; i < type.shape.size(); ++i) {
        const std::int64_t last = (type.shape[i] - 1) * slice->steps[i];
        stops.push_back(slice->starts[i] + (type.shape[i] == 0 ? 0 : last + 1));
      }
      to = g.slice(operands[0], slice->starts, stops, slice->steps);
    }
    if (const auto* flip = n.as<FlipAttrs>()) to = g.flip(operands[0], flip->axes);
    if (const auto* pad = n.as<PadAttrs>()) to = g.pad(operands[0], pad->lo, pad->hi, pad->value);
    if (const auto* window = n.as<WindowAttrs>()) {
      to = g.window(operands[0], window->axes, window->size, window->stride, window->dilation);
    }
    if (const auto* reduce = n.as<ReduceAttrs>()) to = g.reduce(*reduce, operands);
  }
  for (const Output& o : graph_.outputs()) g.output(o.name, made[static_cast<std::size_t>(o.node)]);
  return g;
}

HostTensor Sampling::input(NodeId id, const HostTensor& whole,
                           const std::vector<std::int64_t>& slices) const {
  const int axis = axis_[static_cast<std::size_t>(id)];
  return axis < 0 ? whole : take(whole, axis, slices);
}

}  // namespace bz

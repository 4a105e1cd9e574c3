#include "shrink.h"

#include <algorithm>
#include <optional>
#include <set>

#include "harness.h"

namespace bz::end_to_end {
namespace {

struct Edit {
  NodeId node = kNoNode;            // this node becomes
  NodeId other = kNoNode;           // this earlier one, of its type, or without one a new input
  std::int64_t from = -1, to = -1;  // every extent `from` becomes `to`
};

Shape resized(Shape s, const Edit& edit) {
  for (std::int64_t& e : s) e = e == edit.from ? edit.to : e;
  return s;
}

// Builds node `id` again on other operands, its type inferred anew.
NodeId rebuild(ir::Graph& g, const ir::Graph& from, NodeId id, const std::vector<NodeId>& x,
               const Edit& edit) {
  const Node& n = from.node(id);
  const Shape shape = resized(n.type.shape, edit);
  struct Builder {
    ir::Graph& g;
    const Node& n;
    const std::vector<NodeId>& x;
    const Shape& shape;
    NodeId operator()(const InputAttrs& a) const { return g.input(a.name, {n.type.dtype, shape}); }
    NodeId operator()(const ConstantAttrs& a) const { return g.constant(a.value, shape); }
    NodeId operator()(const IotaAttrs& a) const { return g.iota(n.type.dtype, shape, a.axis); }
    NodeId operator()(const MapAttrs& a) const { return g.map(a.op, x, n.type.dtype); }
    NodeId operator()(const BroadcastAttrs& a) const { return g.broadcast(x[0], shape, a.dims); }
    NodeId operator()(const ReshapeAttrs&) const { return g.reshape(x[0], shape); }
    NodeId operator()(const PermuteAttrs& a) const { return g.permute(x[0], a.perm); }
    NodeId operator()(const SliceAttrs& a) const {
      std::vector<std::int64_t> stops;
      for (std::size_t k = 0; k < shape.size(); ++k) {
        stops.push_back(shape[k] == 0 ? a.starts[k] : a.starts[k] + (shape[k] - 1) * a.steps[k] + 1);
      }
      return g.slice(x[0], a.starts, stops, a.steps);
    }
    NodeId operator()(const FlipAttrs& a) const { return g.flip(x[0], a.axes); }
    NodeId operator()(const PadAttrs& a) const { return g.pad(x[0], a.lo, a.hi, a.value); }
    NodeId operator()(const WindowAttrs& a) const {
      return g.window(x[0], a.axes, a.size, a.stride, a.dilation);
    }
    NodeId operator()(const ReduceAttrs& a) const { return g.reduce(a.monoid, x[0], a.axes, a.keepdims); }
  };
  return std::visit(Builder{g, n, x, shape}, n.attrs);
}

// nullopt when the edit does not fit.
std::optional<ir::Graph> edited(const ir::Graph& from, const Edit& edit) {
  ir::Graph g(from.name());
  std::vector<NodeId> to;
  try {
    for (NodeId id = 0; id < from.size(); ++id) {
      if (id == edit.node) {
        to.push_back(edit.other == kNoNode ? g.input("n" + std::to_string(id), from.type(id))
                                           : to[static_cast<std::size_t>(edit.other)]);
        continue;
      }
      std::vector<NodeId> operands;
      for (const NodeId o : from.node(id).operands) operands.push_back(to[static_cast<std::size_t>(o)]);
      to.push_back(rebuild(g, from, id, operands, edit));
    }
    for (const Output& o : from.outputs()) g.output(o.name, to[static_cast<std::size_t>(o.node)]);
    return with_outputs(g, g.outputs());
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<Edit> edits_of(const ir::Graph& g) {
  std::vector<Edit> all;
  std::set<std::int64_t> extents;
  for (NodeId id = g.size(); id-- > 0;) {
    for (const std::int64_t e : g.type(id).shape) extents.insert(e);
    const Node& n = g.node(id);
    if (n.as<InputAttrs>() != nullptr) continue;
    for (const NodeId o : n.operands) {
      if (g.type(o) == n.type) all.push_back({id, o});
    }
    if (n.kind() != NodeKind::leaf) all.push_back({id, kNoNode});
  }
  for (const std::int64_t e : extents) {
    for (const std::int64_t to : {std::int64_t{1}, std::int64_t{2}, e / 2, e - 1}) {
      if (to > 0 && to < e) all.push_back({kNoNode, kNoNode, e, to});
    }
  }
  return all;
}

}  // namespace

ir::Graph shrink(ir::Graph g, const std::function<bool(const ir::Graph&)>& fails, int budget) {
  const auto smaller_fails = [&](const ir::Graph& candidate) { return budget-- > 0 && fails(candidate); };
  if (g.outputs().size() > 1) {
    for (const Output& o : g.outputs()) {
      if (ir::Graph one = with_outputs(g, {o}); smaller_fails(one)) {
        g = std::move(one);
        break;
      }
    }
  }
  for (bool changed = true; changed && budget > 0;) {
    changed = false;
    const Output last = g.outputs().back();
    for (const NodeId o : g.node(last.node).operands) {
      if (ir::Graph less = with_outputs(g, {{last.name, o}}); smaller_fails(less)) {
        g = std::move(less);
        changed = true;
        break;
      }
    }
    if (changed) continue;
    for (const Edit& edit : edits_of(g)) {
      std::optional<ir::Graph> candidate = edited(g, edit);
      if (!candidate || !smaller_fails(*candidate)) continue;
      g = std::move(*candidate);
      changed = true;
      break;
    }
  }
  return g;
}

}  // namespace bz::end_to_end

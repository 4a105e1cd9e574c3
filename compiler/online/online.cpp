#include "compiler/online/online.h"

#include <algorithm>

#include "compiler/online/match.h"
#include "compiler/simplify/shapes.h"

namespace bz {

const ReduceAttrs* as_reduce(const ir::Graph& g, NodeId id, Monoid monoid) {
  const ReduceAttrs* reduce = g.node(id).as<ReduceAttrs>();
  bool plain = reduce && reduce->monoid == monoid && !reduce->keepdims && !reduce->merge;
  return plain ? reduce : nullptr;
}

const std::vector<NodeId>* as_map(const ir::Graph& g, NodeId id, ScalarOp op) {
  const MapAttrs* map = g.node(id).as<MapAttrs>();
  return map && map->op == op ? &g.node(id).operands : nullptr;
}

const Scalar* as_constant(const ir::Graph& g, NodeId id) {
  const ConstantAttrs* constant = g.node(id).as<ConstantAttrs>();
  return constant ? &constant->value : nullptr;
}

std::vector<NodeId> same_values(const ir::Graph& g, NodeId id) {
  std::vector<NodeId> values = {id};
  while (g.node(values.back()).as<ReshapeAttrs>()) {
    NodeId inner = g.node(values.back()).operands[0];
    if (squeezed(g.type(inner).shape) != squeezed(g.type(values.back()).shape)) break;
    values.push_back(inner);
  }
  return values;
}

std::vector<NodeId> broadcast_values(const ir::Graph& g, NodeId p) {
  if (!g.node(p).as<BroadcastAttrs>()) return {};
  return same_values(g, g.node(p).operands[0]);
}

bool repeats_along(const ir::Graph& g, NodeId p, const Axes& axes) {
  Axes dims;
  for (int axis : wide_axes(g.type(p).shape)) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) dims.push_back(axis);
  }
  return g.node(p).as<BroadcastAttrs>()->dims == dims;
}

Axes kept_axes(int rank, const Axes& axes) {
  Axes kept;
  for (int axis = 0; axis < rank; ++axis) {
    if (!std::binary_search(axes.begin(), axes.end(), axis)) kept.push_back(axis);
  }
  return kept;
}

// The nodes in an order in which replacements come after what they need. Inputs keep theirs: it is part of the program.
static std::vector<NodeId> build_order(const ir::Graph& g, const Replacements& replacements) {
  std::vector<NodeId> order, work;
  std::vector<bool> placed(static_cast<std::size_t>(g.size()), false);
  const auto place = [&](NodeId target) {
    work.push_back(target);
    while (!work.empty()) {
      const NodeId id = work.back();
      const std::size_t before = work.size();
      const auto it = replacements.find(id);
      for (const NodeId n : it == replacements.end() ? g.node(id).operands : it->second.needs) {
        if (!placed[static_cast<std::size_t>(n)]) work.push_back(n);
      }
      if (work.size() > before) continue;
      work.pop_back();
      if (placed[static_cast<std::size_t>(id)]) continue;
      placed[static_cast<std::size_t>(id)] = true;
      order.push_back(id);
    }
  };
  for (const NodeId id : g.inputs()) place(id);
  for (NodeId id = 0; id < g.size(); ++id) place(id);
  return order;
}

ir::Graph online(const ir::Graph& g) {
  Replacements replacements;
  match_max_sumexp(g, replacements);
  match_moments(g, replacements);
  Rewriter rw(g);
  for (const NodeId id : build_order(g, replacements)) {
    auto it = replacements.find(id);
    if (it == replacements.end()) {
      rw.copy(id);
    } else {
      rw.begin(id);
      rw.replace(id, it->second.build(rw));
    }
  }
  return rw.finish();
}

}  // namespace bz

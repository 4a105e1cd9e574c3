#include "compiler/group/team.h"

#include <algorithm>

namespace bz::compiler {

std::int64_t Team::size() const {
  std::int64_t n = 1;
  for (const auto& position : outer) n *= position[0].extent;
  return n;
}

std::size_t Team::at(int member) const {
  return static_cast<std::size_t>(std::find(members.begin(), members.end(), member) - members.begin());
}

Members::Members(std::vector<Region> regions, const ir::Graph& graph) : regions_(std::move(regions)) {
  for (int i = 0; i < count(); ++i) {
    for (const Root& r : (*this)[i].roots) {
      const bool input = graph.node(r.node).as<InputAttrs>() != nullptr;  // an output that is a copy of it
      if (!input && r.stored == compute_dtype(r.stored)) owner_[r.node] = i;
    }
  }
}

std::optional<int> Members::owner(NodeId node) const {
  const auto o = owner_.find(node);
  return o == owner_.end() ? std::nullopt : std::optional(o->second);
}

const Root* Members::stored(int producer, NodeId node) const {
  if (owner(node) != producer) return nullptr;
  for (const Root& r : (*this)[producer].roots) {
    if (r.node == node && r.stored == compute_dtype(r.stored)) return &r;
  }
  return nullptr;
}

std::vector<NodeId> Members::tables_of(int p, const Team& team) const {
  std::set<NodeId> nodes;
  for (const int m : team.members) {
    if (m == p) continue;
    for (const Expr& e : (*this)[m].exprs) {
      if (e.kind == Expr::Kind::load && stored(p, e.source) != nullptr) nodes.insert(e.source);
    }
  }
  return {nodes.begin(), nodes.end()};
}

bool Members::needs(int member, const Team& team) const {
  const std::vector<NodeId> sources = (*this)[member].sources();
  return std::any_of(sources.begin(), sources.end(), [&](NodeId s) {
    return std::any_of(team.members.begin(), team.members.end(),
                       [&](int p) { return p != member && stored(p, s) != nullptr; });
  });
}

}  // namespace bz::compiler

// Rows that one kernel reads once, as a cluster of blocks holds each of them, and that are needed again after they are reduced:
//
//   %m = max %x {axes = [1]}         the elements of %x are needed for %m, and with it: split, they would be read
//   %d = sub %x, broadcast(%m)       by a kernel of their own before
#pragma once

#include <set>
#include <vector>

#include "ir/graph.h"
#include "ir/target.h"

namespace bz::compiler {

class ClusterRows {
 public:
  ClusterRows(const ir::Graph& graph, const Target& target) : graph_(graph), target_(target) {}

  // Whether clusters should reduce the rows of `id`, each of `size` elements; one block holds `resident` words. To be asked in
  // the order of the graph.
  bool take(NodeId id, std::int64_t size, std::int64_t resident);

 private:
  std::set<NodeId> elements_of(const std::vector<NodeId>& nodes) const;
  std::int64_t words_kept(const std::set<NodeId>& row, NodeId again) const;
  NodeId needed_again(NodeId id, const std::set<NodeId>& row);
  bool faster(Monoid monoid, const std::set<NodeId>& row, std::int64_t elements, std::int64_t rows) const;

  const ir::Graph& graph_;
  const Target& target_;
  std::vector<std::vector<NodeId>> users_;  // by node
  std::set<NodeId> taken_;  // computed from rows that clusters have, and from what these reduce to
};

}  // namespace bz::compiler

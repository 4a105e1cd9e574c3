// Regions that may share a kernel, while the groups are being made.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/group/group.h"

namespace bz::compiler {

// Regions that will share a kernel, and their common variables: by position, each member's own.
struct Team {
  std::vector<int> members;
  std::vector<std::vector<IndexVar>> outer;  // [position][member]
  int cluster = 1;
  bool cached = true;
  int queue = 0;
  double seconds = 0;  // of all members in one kernel
  Queued queued;
  std::int64_t size() const;         // points of the outer variables
  std::size_t at(int member) const;  // its place among the members
};

// All regions by number, and what they give each other.
class Members {
 public:
  Members(std::vector<Region> regions, const ir::Graph& graph);

  int count() const { return static_cast<int>(regions_.size()); }
  Region& operator[](int i) { return regions_[static_cast<std::size_t>(i)]; }
  const Region& operator[](int i) const { return regions_[static_cast<std::size_t>(i)]; }

  // The region that stores the node in the type of its arithmetic.
  std::optional<int> owner(NodeId node) const;
  // How `producer` does; nullptr where it does not.
  const Root* stored(int producer, NodeId node) const;
  // Nodes that member `p` gives to other members.
  std::vector<NodeId> tables_of(int p, const Team& team) const;
  // Whether another member gives something to `member`.
  bool needs(int member, const Team& team) const;

 private:
  std::vector<Region> regions_;
  std::map<NodeId, int> owner_;
};

}  // namespace bz::compiler

// Builds one region from a node that must be stored; see fuse.h for what is taken in.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <vector>

#include "compiler/fuse/fuse.h"

namespace bz::compiler {

// A root variable written as two: v = outer * inner_extent + inner.
struct VarSplit {
  int axis = 0;  // axis of the root
  std::int64_t inner = 1;
};

class RegionBuilder {
 public:
  // `stored(node)`: the node is, or will be, in memory for another reason. `forced`: nodes that are loaded wherever they
  // are no root.
  RegionBuilder(const ir::Graph& graph, const FuseOptions& options, std::function<bool(NodeId)> stored,
                const std::map<NodeId, Stored>& forced);

  // A region that stores `root`, and further nodes, each at indices over the variables of the root's axes.
  struct Further {
    NodeId node = kNoNode;
    std::vector<Index> at;
  };
  Region build(NodeId root);
  // nullopt when one of them cannot be computed there.
  std::optional<Region> build(NodeId root, const std::vector<Further>& further);
  const std::vector<Cut>& cuts() const { return cuts_; }
  // Of a root of the region last built: its indices there.
  const std::vector<Index>& indices_of(NodeId root) const;
  // Variables of the first root's axes, of the region last built; none when an axis had to be divided.
  std::vector<IndexVar> axis_vars() const { return splits_.empty() ? vars_ : std::vector<IndexVar>{}; }

  // Nodes that have a value in the region last built, in order.
  std::vector<NodeId> computed() const;
  // True when `node` can be stored by the region just built, which computes it already; adds it as a root.
  bool add_root(Region& region, NodeId node);

 private:
  struct Instance {
    NodeId node;
    std::vector<Index> at;
    std::vector<IndexBound> where;
    std::vector<int> consumers;
    Expr expr;
    bool done = false;
  };

  // False: a variable was split, start again.
  bool attempt(NodeId root, const std::vector<Further>& further);
  Region finish(const std::vector<NodeId>& roots);
  int request(NodeId node, std::vector<Index> at, std::vector<IndexBound> where, int consumer);
  void expand(int id);
  void expand_view(int id);
  void expand_reduce(int id);
  void become_load(int id, std::optional<CutReason> reason);
  std::optional<CutReason> bind(NodeId node, const std::vector<Index>& at);
  std::optional<VarSplit> find_split(const std::vector<Index>& at) const;
  NodeId absent_pad(NodeId id) const;
  int climb(int id) const;
  bool alive(int id) const;
  IndexVar fresh(std::int64_t extent, std::string name);

  const ir::Graph& graph_;
  FuseOptions options_;
  std::function<bool(NodeId)> stored_;
  const std::map<NodeId, Stored>& forced_;

  std::vector<VarSplit> splits_;
  std::vector<IndexVar> vars_;  // of the root
  std::vector<int> var_axis_;   // its axis, by position in vars_
  std::vector<std::string> names_;
  std::vector<IndexVar> kept_, reduced_;
  bool bound_ = false;  // kept_ and reduced_ are decided
  bool restart_ = false;
  std::vector<Instance> instances_;
  std::map<NodeId, std::vector<int>> by_node_;
  std::priority_queue<std::pair<NodeId, int>> open_;
  std::set<NodeId> sources_, roots_;
  std::set<NodeId> results_;  // computed here, and stored for some other reason
  std::vector<Cut> cuts_;
  // Of the region last built: for every node its instance's indices, by expression.
  std::map<NodeId, std::pair<ExprId, std::vector<Index>>> where_is_;
};

}  // namespace bz::compiler

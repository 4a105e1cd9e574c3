// Builds a graph out of simple nodes: every node asked for is first put through the rules, then looked up
// among the nodes that are there, and only added when it is new. Passes that rewrite read one graph and build
// the next with it.
//
//   Rewriter rw(g);
//   for (NodeId id = 0; id < g.size(); ++id) rw.copy(id);
//   return rw.finish();
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "compiler/simplify/range.h"
#include "ir/graph.h"

namespace bz {

// A node that may never come to be; operands are nodes of the new graph.
struct Draft {
  Attrs attrs;
  Type type;
  std::vector<NodeId> operands;
};

class Rewriter {
 public:
  explicit Rewriter(const ir::Graph& from);

  // ---- the new graph
  // ----------------------------------------------------------------------------------------------
  NodeId emit(Draft draft);
  NodeId map(ScalarOp op, std::vector<NodeId> operands);  // every op but cast
  NodeId constant(const Scalar& value, const Shape& shape);
  NodeId broadcast(NodeId x, const Shape& shape, Axes dims);
  NodeId reshape(NodeId x, const Shape& shape);
  NodeId reduce(ReduceAttrs attrs, DType dtype, std::vector<NodeId> operands);  // keepdims is false

  const ir::Graph& graph() const { return out_; }
  const Type& type(NodeId id) const { return out_.type(id); }
  // The value that all elements of `id` have, when it is a constant.
  const Scalar* constant_value(NodeId id) const;
  // The operands of `id` when it is a map with this op.
  const std::vector<NodeId>* operands_of(NodeId id, ScalarOp op) const;
  const Range& range(NodeId id) const { return ranges_[static_cast<std::size_t>(id)]; }
  // True when the elements of `id` have the precision of its type. Results of f16 and bf16 arithmetic do not:
  // they are f32 until a cast rounds them.
  bool is_rounded(NodeId id) const { return rounded_[static_cast<std::size_t>(id)]; }

  // ---- from the old graph
  // ------------------------------------------------------------------------------------------- New nodes
  // belong to the scope and location of node `id` of the old graph.
  void begin(NodeId id);
  // Emits node `id` on the new operands; its name goes to the result if that has none.
  NodeId copy(NodeId id);
  // Makes `result`, a new node, stand for node `id` of the old graph.
  void replace(NodeId id, NodeId result);
  NodeId moved(NodeId id) const { return moved_[static_cast<std::size_t>(id)]; }

  // Outputs are given what stands for them; dead nodes go.
  ir::Graph finish();

 private:
  NodeId add(const Draft& draft);
  bool compute_rounded(const Draft& draft) const;
  Range compute_range(const Draft& draft) const;

  const ir::Graph& from_;
  ir::Graph out_;
  std::vector<NodeId> moved_;  // by node of the old graph
  std::vector<bool> rounded_;  // by node of the new graph
  std::vector<Range> ranges_;
  std::unordered_multimap<std::size_t, NodeId> known_;
};

}  // namespace bz

// The graph: what a program means, independent of how it runs. Four kinds of node and nothing else:
//
//   leaf    input, constant (one value, any shape), iota (the index along one axis)
//   map     one scalar op applied elementwise to operands of one shape
//   view    a pure re-indexing of one operand: broadcast, reshape, permute, slice, flip, pad, window
//   reduce  a monoid over a set of axes
//
//   ir::Graph g;
//   NodeId x = g.input("x", {DType::f32, {4, 8}});
//   NodeId m = g.reduce(Monoid::max, x, {1}, /*keepdims=*/true);
//   NodeId e = g.map(ScalarOp::exp, {g.map(ScalarOp::sub, {x, g.broadcast_to(m, {4, 8})})});
//   g.output("y", e);
//
// Nodes are numbered in an order in which operands come first. Every builder function infers the type and throws
// Error, with the current location, on operands that do not fit.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "ir/monoid.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "support/error.h"

namespace bz {

using NodeId = std::int32_t;
inline constexpr NodeId kNoNode = -1;

struct InputAttrs {
  std::string name;
  friend bool operator==(const InputAttrs&, const InputAttrs&) = default;
};
struct ConstantAttrs {
  Scalar value;  // every element
  friend bool operator==(const ConstantAttrs&, const ConstantAttrs&) = default;
};
struct IotaAttrs {
  int axis = 0;
  friend bool operator==(const IotaAttrs&, const IotaAttrs&) = default;
};
struct MapAttrs {
  ScalarOp op;
  friend bool operator==(const MapAttrs&, const MapAttrs&) = default;
};
// Operand axis i lies along result axis dims[i] (strictly increasing); its extent is that of the result, or 1.
struct BroadcastAttrs {
  Axes dims;
  friend bool operator==(const BroadcastAttrs&, const BroadcastAttrs&) = default;
};
struct ReshapeAttrs {  // same elements in row-major order, the result's shape is the node's type
  friend bool operator==(const ReshapeAttrs&, const ReshapeAttrs&) = default;
};
struct PermuteAttrs {  // result axis i is operand axis perm[i]
  Axes perm;
  friend bool operator==(const PermuteAttrs&, const PermuteAttrs&) = default;
};
// result[.., i, ..] = operand[.., starts[a] + i * steps[a], ..]; steps are positive; one entry for every axis.
struct SliceAttrs {
  std::vector<std::int64_t> starts, steps;
  friend bool operator==(const SliceAttrs&, const SliceAttrs&) = default;
};
struct FlipAttrs {
  Axes axes;  // sorted
  friend bool operator==(const FlipAttrs&, const FlipAttrs&) = default;
};
// `lo` and `hi` new elements of `value` before and after, one entry for every axis, none negative. Without a value
// (made by the compiler, and only directly under a reduce) the new elements do not take part in the reduction.
struct PadAttrs {
  std::vector<std::int64_t> lo, hi;
  std::optional<Scalar> value;
  friend bool operator==(const PadAttrs&, const PadAttrs&) = default;
};
// Sliding windows: result[.., p, .., w] = operand[.., p * stride + w * dilation, ..]. Each windowed axis keeps its
// place with the number of positions (extent - dilation * (size - 1) - 1) / stride + 1; the axes of size `size` are
// appended at the end, in the order of `axes`.
struct WindowAttrs {
  Axes axes;
  std::vector<std::int64_t> size, stride, dilation;
  friend bool operator==(const WindowAttrs&, const WindowAttrs&) = default;
};
// Reduces `axes` (sorted) of all operands together; the node is one component of the state. Only derived monoids have
// components other than the one a user sees. argmax and argmin written by a user have one operand and mean the
// row-major index over the reduced axes; the compiler makes the index an operand of its own. Either way the index is
// component 1 of their state (value, index); see user_component.
// With `merge` the operands are the components of partial states, which are combined, not lifted.
struct ReduceAttrs {
  Monoid monoid = Monoid::sum;
  Axes axes;
  bool keepdims = false;
  int component = 0;
  bool merge = false;
  friend bool operator==(const ReduceAttrs&, const ReduceAttrs&) = default;
};

// The component of a user's reduction that the user sees: the index of argmax and argmin, else the only one.
int user_component(Monoid monoid);

using Attrs = std::variant<InputAttrs, ConstantAttrs, IotaAttrs, MapAttrs, BroadcastAttrs, ReshapeAttrs,
                           PermuteAttrs, SliceAttrs, FlipAttrs, PadAttrs, WindowAttrs, ReduceAttrs>;

enum class NodeKind : std::uint8_t { leaf, map, view, reduce };

struct Node {
  Attrs attrs;
  Type type;
  std::vector<NodeId> operands;
  std::string name;        // without '%'; empty: printed by number
  std::int32_t scope = 0;  // index into Graph::scopes(); 0 is no scope
  SourceLoc loc;

  NodeKind kind() const;
  template <class T>
  const T* as() const {
    return std::get_if<T>(&attrs);
  }
  // "exp", "reshape", "argmax", "max_sumexp.1": the word the text form uses. Reductions name their component unless it
  // is the one a user sees.
  std::string op_name() const;
};

struct Output {
  std::string name;
  NodeId node = kNoNode;
};

namespace ir {

class Graph {
 public:
  explicit Graph(std::string name = "main") : name_(std::move(name)) {}

  // ---- building; all throw Error on operands that do not fit -------------------------------------------------
  NodeId input(std::string name, Type type);
  NodeId constant(Scalar value, Shape shape = {});
  NodeId iota(DType dtype, Shape shape, int axis);  // dtype is numeric
  // Operands have one shape (see `broadcast_together` for NumPy's rules). `target` is the type of a cast.
  NodeId map(ScalarOp op, std::vector<NodeId> operands, DType target = DType::f32);
  NodeId broadcast(NodeId x, Shape shape, Axes dims);
  NodeId broadcast_to(NodeId x,
                      Shape shape);       // NumPy: axes aligned at the end; x itself when nothing changes
  NodeId reshape(NodeId x, Shape shape);  // one extent may be -1
  NodeId permute(NodeId x, Axes perm);
  NodeId slice(NodeId x, std::vector<std::int64_t> starts, std::vector<std::int64_t> stops,
               std::vector<std::int64_t> steps = {});  // one entry an axis; steps default to 1
  NodeId flip(NodeId x, Axes axes);
  NodeId pad(NodeId x, std::vector<std::int64_t> lo, std::vector<std::int64_t> hi,
             std::optional<Scalar> value);
  NodeId window(NodeId x, Axes axes, std::vector<std::int64_t> size, std::vector<std::int64_t> stride = {},
                std::vector<std::int64_t> dilation = {});
  NodeId reduce(Monoid monoid, NodeId x, Axes axes, bool keepdims);
  // Compiler-made reductions: several operands, a chosen component, or merging partial states.
  NodeId reduce(ReduceAttrs attrs, std::vector<NodeId> operands);
  void output(std::string name, NodeId node);

  // Gives all of `nodes` the shape that NumPy's broadcasting gives them. `what` names the operation in errors.
  void broadcast_together(std::span<NodeId> nodes, std::string_view what);
  // "-1 counts from the end": checks range and duplicates, returns sorted axes. An empty list means all axes.
  Axes normalize_axes(NodeId x, const Axes& axes, std::string_view what) const;

  // ---- reading ------------------------------------------------------------------------------------------------
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  std::int32_t size() const { return static_cast<std::int32_t>(nodes_.size()); }
  const Node& node(NodeId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const Type& type(NodeId id) const { return node(id).type; }
  const std::vector<NodeId>& inputs() const { return inputs_; }  // in order of declaration
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<std::string>& scopes() const { return scopes_; }  // [0] is ""
  void set_node_name(NodeId id, std::string name) {
    nodes_[static_cast<std::size_t>(id)].name = std::move(name);
  }

  // ---- where nodes come from ------------------------------------------------------------------------------------
  // Location given to the nodes and errors that follow.
  void set_location(SourceLoc loc) { loc_ = std::move(loc); }
  const SourceLoc& location() const { return loc_; }
  // While the guard lives, new nodes belong to a new scope `composite.N`, inside the current one ("a.1/b.2").
  class [[nodiscard]] ScopeGuard {
   public:
    ScopeGuard(Graph& g, std::int32_t previous) : graph_(g), previous_(previous) {}
    ~ScopeGuard() { graph_.scope_ = previous_; }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Graph& graph_;
    std::int32_t previous_;
  };
  ScopeGuard scope(std::string_view composite);
  // The scope with exactly this label, made when there is none; for parsers and passes that copy nodes.
  std::int32_t intern_scope(std::string_view label);
  void set_scope(std::int32_t scope) { scope_ = scope; }

  // Copies a node of another graph with other operands, keeping attributes, type, name, scope and location. For
  // passes, which rebuild graphs; does not infer the type again (the verifier does).
  NodeId copy(const Graph& from, NodeId id, std::vector<NodeId> operands);

  [[noreturn]] void fail(const std::string& message) const { throw Error(loc_, message); }

 private:
  NodeId add(Attrs attrs, Type type, std::vector<NodeId> operands);
  void check_id(NodeId id) const;

  std::string name_;
  std::deque<Node> nodes_;
  std::vector<NodeId> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::string> scopes_{""};
  std::unordered_map<std::string, std::int32_t> scope_ids_;
  std::unordered_set<std::string> input_names_, output_names_;
  std::int32_t scope_ = 0;
  SourceLoc loc_;
};

}  // namespace ir

// Same nodes in the same order with the same attributes, types, names and scopes (locations do not count).
bool same(const ir::Graph& a, const ir::Graph& b);

}  // namespace bz

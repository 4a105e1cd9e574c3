// What holds for every graph:
//
//   1. Operands come before the nodes that use them.
//   2. The type of a node is what inference gives for its operands and attributes, and the attributes are in
//   normal
//      form: no negative axes, reduced and flipped axes sorted, one entry for every axis where a list has
//      one.
//   3. Values of constants and pads are rounded to their type.
//   4. inputs() lists the input nodes, each once, in order; their names are distinct.
//   5. Outputs name nodes that exist; their names are distinct.
//   6. The scope of a node exists.
//   7. Elements that are not there (pad without a value) reach nothing but reductions, through views alone.
#include "ir/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace bz {
namespace {

std::string print_node(const ir::Graph& g, NodeId id) {
  const Node& node = g.node(id);
  std::vector<std::string> operands;
  for (NodeId x : node.operands) operands.push_back(fmt::format("%{}", x));
  return fmt::format("%{} = {}({}): {}", node.name.empty() ? std::to_string(id) : node.name, node.op_name(),
                     fmt::join(operands, ", "), to_string(node.type));
}

// Builds `node` again from its attributes, so that inference and its checks are written once, in Graph.
// `scratch` holds the operands.
struct Rebuild {
  ir::Graph& scratch;
  const Node& node;
  std::vector<NodeId> operands;

  NodeId x() const {
    if (operands.size() != 1) scratch.fail(fmt::format("takes 1 operand, got {}", operands.size()));
    return operands[0];
  }
  NodeId leaf(NodeId id) const {
    if (!operands.empty()) scratch.fail("a leaf has operands");
    return id;
  }
  NodeId operator()(const InputAttrs& a) const { return leaf(scratch.input(a.name, node.type)); }
  NodeId operator()(const ConstantAttrs& a) const { return leaf(scratch.constant(a.value, node.type.shape)); }
  NodeId operator()(const IotaAttrs& a) const {
    return leaf(scratch.iota(node.type.dtype, node.type.shape, a.axis));
  }
  NodeId operator()(const MapAttrs& a) const { return scratch.map(a.op, operands, node.type.dtype); }
  NodeId operator()(const BroadcastAttrs& a) const { return scratch.broadcast(x(), node.type.shape, a.dims); }
  NodeId operator()(const ReshapeAttrs&) const { return scratch.reshape(x(), node.type.shape); }
  NodeId operator()(const PermuteAttrs& a) const { return scratch.permute(x(), a.perm); }
  NodeId operator()(const SliceAttrs& a) const {
    if (a.starts.size() != node.type.shape.size() || a.steps.size() != node.type.shape.size()) {
      scratch.fail("slice does not have one entry for every axis");
    }
    std::vector<std::int64_t> stops;
    for (std::size_t i = 0; i < a.starts.size(); ++i) {
      const std::int64_t extent = node.type.shape[i];
      stops.push_back(a.starts[i] + (extent > 0 ? (extent - 1) * a.steps[i] + 1 : 0));
    }
    return scratch.slice(x(), a.starts, stops, a.steps);
  }
  NodeId operator()(const FlipAttrs& a) const { return scratch.flip(x(), a.axes); }
  NodeId operator()(const PadAttrs& a) const { return scratch.pad(x(), a.lo, a.hi, a.value); }
  NodeId operator()(const WindowAttrs& a) const {
    return scratch.window(x(), a.axes, a.size, a.stride, a.dilation);
  }
  NodeId operator()(const ReduceAttrs& a) const { return scratch.reduce(a, operands); }
};

class Verifier {
 public:
  explicit Verifier(const ir::Graph& g) : g_(g) {}

  std::vector<Violation> run() {
    for (NodeId id = 0; id < g_.size(); ++id) {
      check_scope(id);
      if (!check_order(id)) continue;
      check_type(id);
      check_values(id);
    }
    check_inputs();
    check_outputs();
    if (problems_.empty()) check_absent_elements();
    return std::move(problems_);
  }

 private:
  void report(NodeId id, const std::string& what) {
    problems_.push_back({g_.node(id).loc, fmt::format("{}: {}", print_node(g_, id), what)});
  }

  void check_scope(NodeId id) {
    const std::int32_t scope = g_.node(id).scope;
    if (scope < 0 || scope >= static_cast<std::int32_t>(g_.scopes().size())) {
      report(id, fmt::format("scope {} does not exist", scope));
    }
  }

  bool check_order(NodeId id) {
    for (NodeId x : g_.node(id).operands) {
      if (x >= 0 && x < id) continue;
      report(id, fmt::format("operand %{} does not come before it", x));
      return false;
    }
    return true;
  }

  void check_type(NodeId id) {
    const Node& node = g_.node(id);
    ir::Graph scratch;
    std::vector<NodeId> operands;
    try {
      for (NodeId x : node.operands)
        operands.push_back(scratch.constant({g_.type(x).dtype}, g_.type(x).shape));
      const NodeId again = std::visit(Rebuild{scratch, node, operands}, node.attrs);
      if (!(scratch.type(again) == node.type)) {
        report(id, fmt::format("inference gives {}", to_string(scratch.type(again))));
      }
      if (!(scratch.node(again).attrs == node.attrs)) report(id, "attributes are not in normal form");
    } catch (const Error& e) {
      report(id, e.what());
    }
  }

  void check_values(NodeId id) {
    const Node& node = g_.node(id);
    std::optional<Scalar> value;
    if (const auto* a = node.as<ConstantAttrs>()) value = a->value;
    if (const auto* a = node.as<PadAttrs>()) value = a->value;
    if (!value) return;
    const Scalar rounded =
        is_float(value->dtype) ? Scalar::of(value->dtype, value->f) : Scalar::of_int(value->dtype, value->i);
    if (!(rounded == *value)) {
      report(id, fmt::format("the value {} is not rounded to {}", to_string(*value), name(value->dtype)));
    }
  }

  void check_inputs() {
    std::vector<NodeId> found;
    std::set<std::string_view> names;
    for (NodeId id = 0; id < g_.size(); ++id) {
      const auto* a = g_.node(id).as<InputAttrs>();
      if (a == nullptr) continue;
      found.push_back(id);
      if (!names.insert(a->name).second) report(id, "another input has the same name");
    }
    if (found != g_.inputs()) problems_.push_back({{}, "inputs() does not list the input nodes in order"});
  }

  void check_outputs() {
    std::set<std::string_view> names;
    for (const Output& out : g_.outputs()) {
      if (out.node < 0 || out.node >= g_.size()) {
        problems_.push_back(
            {{}, fmt::format("output {} is node {}, which does not exist", out.name, out.node)});
      }
      if (!names.insert(out.name).second)
        problems_.push_back({{}, fmt::format("two outputs are named {}", out.name)});
    }
  }

  void check_absent_elements() {
    std::vector<bool> absent(static_cast<std::size_t>(g_.size()), false);
    for (NodeId id = 0; id < g_.size(); ++id) {
      const Node& node = g_.node(id);
      const auto* pad = node.as<PadAttrs>();
      bool reached = false;
      for (NodeId x : node.operands) reached = reached || absent[static_cast<std::size_t>(x)];
      if (reached && node.kind() == NodeKind::map) report(id, "an operand has elements that are not there");
      absent[static_cast<std::size_t>(id)] =
          (pad != nullptr && !pad->value) || (reached && node.kind() == NodeKind::view);
    }
    for (const Output& out : g_.outputs()) {
      if (absent[static_cast<std::size_t>(out.node)])
        report(out.node, "an output has elements that are not there");
    }
  }

  const ir::Graph& g_;
  std::vector<Violation> problems_;
};

}  // namespace

std::vector<Violation> verify(const ir::Graph& g) { return Verifier(g).run(); }

void verify_or_throw(const ir::Graph& g, std::string_view after) {
  std::vector<std::string> problems;
  for (const Violation& v : verify(g)) problems.push_back(v.what);
  if (problems.empty()) return;
  throw InternalError(
      fmt::format("graph {} is broken after {}:\n  {}", g.name(), after, fmt::join(problems, "\n  ")));
}

}  // namespace bz

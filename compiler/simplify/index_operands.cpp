#include "compiler/simplify/index_operands.h"

namespace bz {
namespace {

// The row-major position over the reduced axes, for every element.
NodeId position(ir::Graph& g, const Shape& shape, const Axes& axes) {
  NodeId index = kNoNode;
  std::int64_t stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    NodeId term = g.iota(DType::i64, shape, axes[i]);
    if (stride != 1)
      term = g.map(ScalarOp::mul, {term, g.constant(Scalar::of_int(DType::i64, stride), shape)});
    index = index == kNoNode ? term : g.map(ScalarOp::add, {term, index});
    stride *= shape[static_cast<std::size_t>(axes[i])];
  }
  return index == kNoNode ? g.constant(Scalar::of_int(DType::i64, 0), shape) : index;
}

}  // namespace

ir::Graph index_operands(const ir::Graph& g) {
  ir::Graph out(g.name());
  std::vector<NodeId> moved;
  for (NodeId id = 0; id < g.size(); ++id) {
    const Node& node = g.node(id);
    std::vector<NodeId> operands = node.operands;
    for (NodeId& x : operands) x = moved[static_cast<std::size_t>(x)];
    const auto* reduce = node.as<ReduceAttrs>();
    if (reduce != nullptr && !reduce->merge && info(reduce->monoid).inputs == 2 && operands.size() == 1) {
      out.set_location(node.loc);
      out.set_scope(out.intern_scope(g.scopes()[static_cast<std::size_t>(node.scope)]));
      operands.push_back(position(out, g.type(node.operands[0]).shape, reduce->axes));
    }
    moved.push_back(out.copy(g, id, std::move(operands)));
  }
  for (const Output& o : g.outputs()) out.output(o.name, moved[static_cast<std::size_t>(o.node)]);
  return out;
}

}  // namespace bz

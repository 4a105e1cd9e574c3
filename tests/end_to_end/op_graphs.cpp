#include "op_graphs.h"

namespace bz::end_to_end {

void add_ops(ir::Graph& g, DType t, int arity, std::int64_t n, const std::string& prefix) {
  const Shape shape = {n};
  std::vector<NodeId> x;
  NodeId condition = kNoNode;
  for (const ScalarOpInfo& row : scalar_ops()) {
    const bool select = row.op == ScalarOp::select;
    if (!accepts(row.op, t) || row.op == ScalarOp::cast || row.arity - (select ? 1 : 0) != arity) continue;
    while (static_cast<int>(x.size()) < arity)
      x.push_back(g.input(prefix + "x" + std::to_string(x.size()), {t, shape}));
    std::vector<NodeId> arguments = x;
    if (select) {
      if (condition == kNoNode) condition = g.input(prefix + "c", {DType::boolean, shape});
      arguments.insert(arguments.begin(), condition);
    }
    g.output(prefix + std::string(row.text), g.map(row.op, arguments));
  }
}

void add_casts(ir::Graph& g, DType t, std::int64_t n, const std::string& prefix) {
  const NodeId x = g.input(prefix + "x0", {t, {n}});
  for (const DType to : kAllDTypes)
    g.output(prefix + "to_" + std::string(name(to)), g.map(ScalarOp::cast, {x}, to));
}

}  // namespace bz::end_to_end

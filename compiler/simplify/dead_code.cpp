#include "compiler/simplify/dead_code.h"

namespace bz {

ir::Graph drop_dead_code(const ir::Graph& g) {
  std::vector<bool> live(static_cast<std::size_t>(g.size()), false);
  for (NodeId id : g.inputs()) live[static_cast<std::size_t>(id)] = true;
  for (const Output& o : g.outputs()) live[static_cast<std::size_t>(o.node)] = true;
  for (NodeId id = g.size(); id-- > 0;) {
    if (!live[static_cast<std::size_t>(id)]) continue;
    for (NodeId x : g.node(id).operands) live[static_cast<std::size_t>(x)] = true;
  }

  ir::Graph out(g.name());
  std::vector<NodeId> moved(static_cast<std::size_t>(g.size()), kNoNode);
  for (NodeId id = 0; id < g.size(); ++id) {
    if (!live[static_cast<std::size_t>(id)]) continue;
    std::vector<NodeId> operands = g.node(id).operands;
    for (NodeId& x : operands) x = moved[static_cast<std::size_t>(x)];
    moved[static_cast<std::size_t>(id)] = out.copy(g, id, std::move(operands));
  }
  for (const Output& o : g.outputs()) out.output(o.name, moved[static_cast<std::size_t>(o.node)]);
  return out;
}

}  // namespace bz

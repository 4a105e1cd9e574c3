#include "frontends/cpp/building.h"

#include <fmt/format.h>

namespace bz {

namespace {
constexpr const char* kEmpty = "the tensor is empty: it was never given a value";
}

void check_not_empty(const Arg& x) {
  if (x.tensor.empty()) throw Error(x.at.loc(), kEmpty);
}

ir::Graph& graph_of(const Arg& x) {
  check_not_empty(x);
  x.tensor.graph()->set_location(x.at.loc());
  return *x.tensor.graph();
}

Scalar scalar_of(const ir::Graph& graph, const Number& number, DType dtype) {
  const std::optional<Scalar> scalar = number.as(dtype);
  if (!scalar) graph.fail(fmt::format("{} is not a value of type {}", number.text(), name(dtype)));
  return *scalar;
}

NodeId node_in(const ir::Graph& graph, const Tensor& x) {
  if (x.empty()) graph.fail(kEmpty);
  if (x.graph().get() != &graph) {
    graph.fail(fmt::format("operands are of different graphs, {} and {}", graph.name(), x.graph()->name()));
  }
  return x.node();
}

NodeId optional_node(const ir::Graph& graph, const Tensor& x) {
  return x.empty() ? kNoNode : node_in(graph, x);
}

}  // namespace bz

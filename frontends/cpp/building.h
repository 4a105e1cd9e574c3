// Shared by the files that turn calls of the DSL into nodes.
#pragma once

#include <braze/tensor.h>

namespace bz {

// Throws Error where the tensor was passed when it was never given a value.
void check_not_empty(const Arg& x);

// The graph of a tensor, with its location set to where the tensor was passed. Throws Error there for an
// empty one.
ir::Graph& graph_of(const Arg& x);

// The number as a value of a type, or Error at the graph's location.
Scalar scalar_of(const ir::Graph& graph, const Number& number, DType dtype);

// The node of an optional tensor that has to belong to `graph`; kNoNode for an empty one.
NodeId optional_node(const ir::Graph& graph, const Tensor& x);

// The same for one that has to be there.
NodeId node_in(const ir::Graph& graph, const Tensor& x);

// The handle on a node.
Tensor wrap(std::shared_ptr<ir::Graph> graph, NodeId node);

}  // namespace bz

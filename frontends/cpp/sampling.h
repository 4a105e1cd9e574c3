// Running a graph on a few slices of its outermost axis.
//
//   Sampling s(graph);                     // throws Error that says why it cannot be
//   ir::Graph small = s.graph({0, 7, 99});   // the same program for three slices
//   HostTensor x = s.input("x", whole_x, {0, 7, 99});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace bz {

// The slices `indices` of a tensor along an axis.
HostTensor take(const HostTensor& tensor, int axis, const std::vector<std::int64_t>& indices);

// Elements that all nodes which an output needs compute, reductions by what they read.
std::int64_t work_of(const ir::Graph& graph);

class Sampling {
 public:
  explicit Sampling(const ir::Graph& graph);

  std::int64_t extent() const { return extent_; }
  // The program for `slices` slices instead of all.
  ir::Graph graph(std::int64_t slices) const;
  // What the smaller program takes for an input: slices of the tensor, or all of it.
  HostTensor input(NodeId id, const HostTensor& whole, const std::vector<std::int64_t>& slices) const;

 private:
  // Where a node has the sampled axis.
  static constexpr int kUnused = -2;  // no output needs the node
  static constexpr int kWhole = -1;   // it has no such axis and is computed in full

  void require(NodeId id, int axis);
  void require_operands(NodeId id);
  int operand_axis(NodeId id, int axis, NodeId operand) const;
  [[noreturn]] void refuse(NodeId id, const std::string& why) const;

  const ir::Graph& graph_;
  std::int64_t extent_ = 0;
  std::vector<int> axis_;  // by node
};

}  // namespace bz

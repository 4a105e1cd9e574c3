// Shared by the files of composites: short names for building arithmetic.
#pragma once

#include <array>

#include "ir/graph.h"

namespace bz::composite {

struct Build {
  ir::Graph& g;

  NodeId un(ScalarOp op, NodeId x) const { return g.map(op, {x}); }
  // Broadcasts the operands.
  NodeId bin(ScalarOp op, NodeId a, NodeId b) const {
    std::array nodes = {a, b};
    g.broadcast_together(nodes, info(op).text);
    return g.map(op, {nodes[0], nodes[1]});
  }
  NodeId add(NodeId a, NodeId b) const { return bin(ScalarOp::add, a, b); }
  NodeId sub(NodeId a, NodeId b) const { return bin(ScalarOp::sub, a, b); }
  NodeId mul(NodeId a, NodeId b) const { return bin(ScalarOp::mul, a, b); }
  NodeId div(NodeId a, NodeId b) const { return bin(ScalarOp::div, a, b); }
  NodeId select(NodeId c, NodeId a, NodeId b) const { return g.map(ScalarOp::select, {c, a, b}); }

  // `value` in the type and shape of `x`.
  NodeId like(NodeId x, double value) const {
    return g.constant(Scalar::of(g.type(x).dtype, value), g.type(x).shape);
  }
  NodeId add_scalar(NodeId x, double value) const { return add(x, like(x, value)); }
  NodeId mul_scalar(NodeId x, double value) const { return mul(x, like(x, value)); }
  NodeId div_scalar(NodeId x, double value) const { return div(x, like(x, value)); }
  NodeId clamp(NodeId x, double lo, double hi) const {
    return g.map(ScalarOp::clamp, {x, like(x, lo), like(x, hi)});
  }

  NodeId cast(NodeId x, DType dtype) const {
    return g.type(x).dtype == dtype ? x : g.map(ScalarOp::cast, {x}, dtype);
  }
  // To the type that arithmetic is done in: f32 for f16 and bf16.
  NodeId widen(NodeId x) const { return cast(x, compute_dtype(g.type(x).dtype)); }

  void require_float(NodeId x, std::string_view what) const {
    const DType t = g.type(x).dtype;
    if (!is_float(t))
      g.fail(fmt::format("{} needs a floating type, got {}; cast it to f32 first", what, name(t)));
  }
};

}  // namespace bz::composite

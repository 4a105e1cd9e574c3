#include <braze/operations.h>

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "frontends/cpp/building.h"

namespace bz {
namespace {

Tensor result(const Arg& x, NodeId node) { return wrap(x.tensor.graph(), node); }

Tensor reduction(Monoid monoid, const Arg& x, const Axes& axes, KeepDims keep) {
  return result(x, graph_of(x).reduce(monoid, x.tensor.node(), axes, keep.value));
}

// The first operand that is a tensor, at the place of the first operand of all.
Arg first_tensor(ScalarOp op, std::initializer_list<Operand> operands) {
  for (const Operand& operand : operands) {
    if (!operand.is_number) return {operand.tensor, operands.begin()->at};
  }
  throw Error(operands.begin()->at.loc(),
              fmt::format("{} of numbers only: make one of them a tensor with constant", info(op).text));
}

}  // namespace

Tensor map(ScalarOp op, std::initializer_list<Operand> operands) {
  const Arg first = first_tensor(op, operands);
  ir::Graph& graph = graph_of(first);
  std::vector<NodeId> tensors;
  for (const Operand& operand : operands) {
    if (!operand.is_number) tensors.push_back(node_in(graph, operand.tensor));
  }
  graph.broadcast_together(tensors, info(op).text);

  // Numbers take the type of the first value operand that is a tensor; the condition of select is bool.
  const Operand* const first_value = operands.begin() + (op == ScalarOp::select ? 1 : 0);
  std::optional<DType> dtype;
  for (const Operand* o = first_value; o != operands.end() && !dtype; ++o) {
    if (!o->is_number) dtype = o->tensor.dtype();
  }
  std::vector<NodeId> nodes;
  std::size_t next = 0;
  for (const Operand* o = operands.begin(); o != operands.end(); ++o) {
    if (!o->is_number) {
      nodes.push_back(tensors[next++]);
      continue;
    }
    if (o >= first_value && !dtype) {
      graph.fail(
          fmt::format("the type of {} is not known: make it a tensor with constant", o->number.text()));
    }
    const DType type = o < first_value ? DType::boolean : *dtype;
    const Shape shape = graph.type(tensors[0]).shape;
    nodes.push_back(graph.constant(scalar_of(graph, o->number, type), shape));
  }
  return result(first, graph.map(op, std::move(nodes)));
}

// ---- operators ----

Tensor operator-(const Arg& x) { return neg(x); }
Tensor operator!(const Arg& x) { return logical_not(x); }
Tensor operator+(const Operand& a, const Operand& b) { return map(ScalarOp::add, {a, b}); }
Tensor operator-(const Operand& a, const Operand& b) { return map(ScalarOp::sub, {a, b}); }
Tensor operator*(const Operand& a, const Operand& b) { return map(ScalarOp::mul, {a, b}); }
Tensor operator/(const Operand& a, const Operand& b) { return map(ScalarOp::div, {a, b}); }
Tensor operator==(const Operand& a, const Operand& b) { return map(ScalarOp::eq, {a, b}); }
Tensor operator!=(const Operand& a, const Operand& b) { return map(ScalarOp::ne, {a, b}); }
Tensor operator<(const Operand& a, const Operand& b) { return map(ScalarOp::lt, {a, b}); }
Tensor operator<=(const Operand& a, const Operand& b) { return map(ScalarOp::le, {a, b}); }
Tensor operator>(const Operand& a, const Operand& b) { return map(ScalarOp::gt, {a, b}); }
Tensor operator>=(const Operand& a, const Operand& b) { return map(ScalarOp::ge, {a, b}); }
Tensor operator&&(const Operand& a, const Operand& b) { return map(ScalarOp::logical_and, {a, b}); }
Tensor operator||(const Operand& a, const Operand& b) { return map(ScalarOp::logical_or, {a, b}); }

Tensor cast(const Arg& x, DType dtype) {
  ir::Graph& graph = graph_of(x);
  if (graph.type(x.tensor.node()).dtype == dtype) return x.tensor;
  return result(x, graph.map(ScalarOp::cast, {x.tensor.node()}, dtype));
}

// ---- views ----

Tensor broadcast_to(const Arg& x, Shape shape) {
  return result(x, graph_of(x).broadcast_to(x.tensor.node(), std::move(shape)));
}
Tensor reshape(const Arg& x, Shape shape) {
  return result(x, graph_of(x).reshape(x.tensor.node(), std::move(shape)));
}
Tensor permute(const Arg& x, Axes perm) {
  return result(x, graph_of(x).permute(x.tensor.node(), std::move(perm)));
}

Tensor transpose(const Arg& x, int axis0, int axis1) {
  ir::Graph& graph = graph_of(x);
  const NodeId node = x.tensor.node();
  const auto position = [&](int axis) {
    return static_cast<std::size_t>(graph.normalize_axes(node, {axis}, "transpose")[0]);
  };
  Axes perm(static_cast<std::size_t>(graph.type(node).rank()));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[position(axis0)], perm[position(axis1)]);
  return result(x, graph.permute(node, std::move(perm)));
}

Tensor slice(const Arg& x, std::vector<std::int64_t> starts, std::vector<std::int64_t> stops,
             std::vector<std::int64_t> steps) {
  return result(x, graph_of(x).slice(x.tensor.node(), std::move(starts), std::move(stops), std::move(steps)));
}

Tensor narrow(const Arg& x, int axis, std::int64_t start, std::int64_t length) {
  ir::Graph& graph = graph_of(x);
  const NodeId node = x.tensor.node();
  const auto a = static_cast<std::size_t>(graph.normalize_axes(node, {axis}, "narrow")[0]);
  std::vector<std::int64_t> stops = graph.type(node).shape;
  std::vector<std::int64_t> starts(stops.size(), 0);
  const std::int64_t first = start < 0 ? start + stops[a] : start;
  if (first < 0 || length < 0 || length > stops[a] - first) {
    graph.fail(fmt::format("narrow: {} elements from {} do not lie in axis {} of {}", length, start, axis,
                           to_string(graph.type(node))));
  }
  starts[a] = first;
  stops[a] = first + length;
  return result(x, graph.slice(node, std::move(starts), std::move(stops)));
}

Tensor flip(const Arg& x, Axes axes) { return result(x, graph_of(x).flip(x.tensor.node(), std::move(axes))); }

Tensor pad(const Arg& x, std::vector<std::int64_t> lo, std::vector<std::int64_t> hi, Number value) {
  ir::Graph& graph = graph_of(x);
  const Scalar scalar = scalar_of(graph, value, graph.type(x.tensor.node()).dtype);
  return result(x, graph.pad(x.tensor.node(), std::move(lo), std::move(hi), scalar));
}

Tensor window(const Arg& x, Axes axes, std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
              std::vector<std::int64_t> dilation) {
  return result(x, graph_of(x).window(x.tensor.node(), std::move(axes), std::move(size), std::move(stride),
                                      std::move(dilation)));
}

Tensor Tensor::cast(DType dtype, Place at) const { return bz::cast({*this, at}, dtype); }
Tensor Tensor::broadcast_to(Shape shape, Place at) const {
  return bz::broadcast_to({*this, at}, std::move(shape));
}
Tensor Tensor::reshape(Shape shape, Place at) const { return bz::reshape({*this, at}, std::move(shape)); }
Tensor Tensor::permute(Axes perm, Place at) const { return bz::permute({*this, at}, std::move(perm)); }
Tensor Tensor::transpose(int axis0, int axis1, Place at) const {
  return bz::transpose({*this, at}, axis0, axis1);
}
Tensor Tensor::flip(Axes axes, Place at) const { return bz::flip({*this, at}, std::move(axes)); }

// ---- reductions ----

Tensor sum(const Arg& x, const Axes& axes, KeepDims keep) { return reduction(Monoid::sum, x, axes, keep); }
Tensor prod(const Arg& x, const Axes& axes, KeepDims keep) { return reduction(Monoid::prod, x, axes, keep); }
Tensor max(const Arg& x, const Axes& axes, KeepDims keep) { return reduction(Monoid::max, x, axes, keep); }
Tensor min(const Arg& x, const Axes& axes, KeepDims keep) { return reduction(Monoid::min, x, axes, keep); }
Tensor any(const Arg& x, const Axes& axes, KeepDims keep) { return reduction(Monoid::any, x, axes, keep); }
Tensor all(const Arg& x, const Axes& axes, KeepDims keep) { return reduction(Monoid::all, x, axes, keep); }
Tensor argmax(const Arg& x, const Axes& axes, KeepDims keep) {
  return reduction(Monoid::argmax, x, axes, keep);
}
Tensor argmin(const Arg& x, const Axes& axes, KeepDims keep) {
  return reduction(Monoid::argmin, x, axes, keep);
}

}  // namespace bz

#include <braze/tensor.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "frontends/cpp/building.h"
#include "ir/print.h"

namespace bz {

SourceLoc Place::loc() const {
  const std::string_view path = file;
  const std::size_t slash = path.find_last_of("/\\");
  return {std::string(slash == std::string_view::npos ? path : path.substr(slash + 1)), line};
}

std::optional<Scalar> Number::as(DType dtype) const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) {
    if (dtype == DType::boolean && *integer != 0 && *integer != 1) return std::nullopt;
    const Scalar scalar = Scalar::of_int(dtype, *integer);
    if (is_float(dtype) ? std::isinf(scalar.f) : scalar.i != *integer) return std::nullopt;
    return scalar;
  }
  const double value = std::get<double>(value_);
  const Scalar scalar = Scalar::of(dtype, value);
  const bool kept = is_float(dtype) ? std::isfinite(scalar.f) || !std::isfinite(value)
                                    : static_cast<double>(scalar.i) == value && std::fabs(value) < 0x1p63;
  return kept ? std::optional(scalar) : std::nullopt;
}

std::string Number::text() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return fmt::format("{}", *integer);
  return fmt::format("{}", std::get<double>(value_));
}

// ---- tensors ----

Tensor wrap(std::shared_ptr<ir::Graph> graph, NodeId node) { return {std::move(graph), node}; }

const Type& Tensor::type(Place at) const {
  check_not_empty({*this, at});
  return graph_->type(node_);
}

std::int64_t Tensor::size(int axis, Place at) const {
  const Type& t = type(at);
  if (axis < -t.rank() || axis >= t.rank()) {
    throw Error(at.loc(), fmt::format("size: axis {} is out of range for rank {}", axis, t.rank()));
  }
  return t.shape[static_cast<std::size_t>(axis < 0 ? axis + t.rank() : axis)];
}

Tensor Tensor::named(std::string name, Place at) const {
  check_not_empty({*this, at});
  graph_->set_node_name(node_, std::move(name));
  return *this;
}

// ---- graphs ----

Graph::Graph(std::string name) : graph_(std::make_shared<ir::Graph>(std::move(name))) {}

Tensor Graph::input(std::string name, DType dtype, Shape shape, Place at) {
  graph_->set_location(at.loc());
  return {graph_, graph_->input(std::move(name), {dtype, std::move(shape)})};
}

Tensor Graph::constant(DType dtype, Number value, Shape shape, Place at) {
  graph_->set_location(at.loc());
  return {graph_, graph_->constant(scalar_of(*graph_, value, dtype), std::move(shape))};
}

Tensor Graph::iota(DType dtype, Shape shape, int axis, Place at) {
  graph_->set_location(at.loc());
  return {graph_, graph_->iota(dtype, std::move(shape), axis)};
}

void Graph::output(std::string name, const Arg& x) {
  ir::Graph& graph = graph_of(x);
  if (&graph != graph_.get()) {
    throw Error(x.at.loc(), fmt::format("output {} is a tensor of graph {}, not of {}", name, graph.name(),
                                        graph_->name()));
  }
  graph.output(std::move(name), x.tensor.node());
}

std::string Graph::text() const { return print(*graph_); }

}  // namespace bz

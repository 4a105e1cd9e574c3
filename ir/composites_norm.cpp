// Normalisations: subtract a mean, multiply by the reciprocal of a deviation, scale and shift.
#include <algorithm>
#include <cmath>

#include "ir/composites.h"
#include "ir/composites_build.h"

namespace bz::composite {
namespace {

// x - mean and the reciprocal of the deviation, rsqrt(variance + eps), both taken over `axes`.
struct Standard {
  NodeId difference = kNoNode, reciprocal = kNoNode;
};

Standard standard(const Build& b, NodeId x, const Axes& axes, double eps) {
  const NodeId d = b.sub(x, mean(b.g, x, axes, true));
  const NodeId v = mean(b.g, b.mul(d, d), axes, true);
  return {d, b.un(ScalarOp::rsqrt, b.add_scalar(v, eps))};
}

// A parameter in the type arithmetic on `x` is done in; it has the axes `axes` of `x`, and that type or that of `x`.
NodeId parameter(const Build& b, NodeId given, NodeId x, const Axes& axes, std::string_view what,
                 std::string_view role) {
  const Type& type = b.g.type(x);
  const Type& has = b.g.type(given);
  const DType arithmetic = compute_dtype(type.dtype);
  Type expected{type.dtype, {}};
  for (int axis : axes) expected.shape.push_back(type.shape[static_cast<std::size_t>(axis)]);
  if (has.shape != expected.shape || (has.dtype != type.dtype && has.dtype != arithmetic)) {
    const std::string wide =
        arithmetic == type.dtype ? "" : " or " + to_string(Type{arithmetic, expected.shape});
    b.g.fail(fmt::format("{}: {} is {}, expected {}{} for x of type {}", what, role, to_string(has),
                         to_string(expected), wide, name(type.dtype)));
  }
  return b.widen(given);
}

// y * gamma + beta in the type of `x`, each where it is given; y is in the type of its arithmetic.
NodeId affine(const Build& b, NodeId x, NodeId y, NodeId gamma, NodeId beta, const Axes& axes,
              std::string_view what) {
  const auto along = [&](NodeId given, std::string_view role) {
    return b.g.broadcast(parameter(b, given, x, axes, what, role), b.g.type(x).shape, axes);
  };
  if (gamma != kNoNode) y = b.mul(y, along(gamma, "gamma"));
  if (beta != kNoNode) y = b.add(y, along(beta, "beta"));
  return b.cast(y, b.g.type(x).dtype);
}

// A parameter of channels: [1, C, 1, ..], as many dimensions as `x` has.
NodeId of_channels(const Build& b, NodeId given, NodeId x, std::string_view what, std::string_view role) {
  Shape shape(b.g.type(x).shape.size(), 1);
  shape[1] = b.g.type(x).shape[1];
  return b.g.reshape(parameter(b, given, x, {1}, what, role), std::move(shape));
}

// difference * (reciprocal * gamma) + beta in the type of `x`, gamma and beta where they are given, the sum rounded once; `reciprocal` is
// [N, C, 1, ..] or of one sample. What all elements of a channel share is one product. Not so for layer_norm, whose parameters differ from
// element to element and would have to be in registers together: of 1024 bf16 it took 0.529 ms so and 0.498 otherwise (H200, 2026-11).
NodeId affine_channels(const Build& b, NodeId x, Standard s, NodeId gamma, NodeId beta,
                       std::string_view what) {
  if (gamma != kNoNode) s.reciprocal = b.mul(s.reciprocal, of_channels(b, gamma, x, what, "gamma"));
  if (beta == kNoNode) return b.cast(b.mul(s.difference, s.reciprocal), b.g.type(x).dtype);
  const Shape shape = b.g.type(x).shape;
  const NodeId scale = b.g.broadcast_to(s.reciprocal, shape);
  const NodeId shift = b.g.broadcast_to(of_channels(b, beta, x, what, "beta"), shape);
  return b.cast(b.g.map(ScalarOp::fma, {s.difference, scale, shift}), b.g.type(x).dtype);
}

// [first, rank)
Axes axes_from(const ir::Graph& g, NodeId x, int first) {
  Axes axes;
  for (int axis = first; axis < g.type(x).rank(); ++axis) axes.push_back(axis);
  return axes;
}

void require_rank(const ir::Graph& g, NodeId x, int rank, std::string_view what) {
  if (g.type(x).rank() < rank) {
    g.fail(fmt::format("{} needs at least {} dimensions, got {}", what, rank, to_string(g.type(x))));
  }
}

}  // namespace

NodeId layer_norm(ir::Graph& g, NodeId x, const Axes& axes, NodeId gamma, NodeId beta, double eps) {
  const auto scope = g.scope("layer_norm");
  const Build b{g};
  b.require_float(x, "layer_norm");
  const Axes over = g.normalize_axes(x, axes, "layer_norm");
  const Standard s = standard(b, b.widen(x), over, eps);
  return affine(b, x, b.mul(s.difference, s.reciprocal), gamma, beta, over, "layer_norm");
}

NodeId rms_norm(ir::Graph& g, NodeId x, const Axes& axes, NodeId gamma, std::optional<double> eps) {
  const auto scope = g.scope("rms_norm");
  const Build b{g};
  b.require_float(x, "rms_norm");
  const Axes over = g.normalize_axes(x, axes, "rms_norm");
  const NodeId w = b.widen(x);
  const double spacing = std::ldexp(1.0, g.type(w).dtype == DType::f64 ? -52 : -23);
  const NodeId v = mean(g, b.mul(w, w), over, true);
  const NodeId y = b.mul(w, b.un(ScalarOp::rsqrt, b.add_scalar(v, eps.value_or(spacing))));
  return affine(b, x, y, gamma, kNoNode, over, "rms_norm");
}

NodeId group_norm(ir::Graph& g, NodeId x, std::int64_t groups, NodeId gamma, NodeId beta, double eps) {
  const auto scope = g.scope("group_norm");
  const Build b{g};
  b.require_float(x, "group_norm");
  require_rank(g, x, 2, "group_norm");
  const Shape shape = g.type(x).shape;
  const std::int64_t channels = shape[1];
  if (groups < 1 || channels % groups != 0) {
    g.fail(fmt::format("group_norm: {} channels cannot be split into {} groups", channels, groups));
  }
  Shape grouped = {shape[0], groups, channels / groups};
  grouped.insert(grouped.end(), shape.begin() + 2, shape.end());
  const NodeId split = g.reshape(b.widen(x), std::move(grouped));
  const Standard s = standard(b, split, axes_from(g, split, 2), eps);
  Shape repeated = g.type(s.reciprocal).shape, of_channel(shape.size(), 1);
  repeated[2] = channels / groups;
  of_channel[0] = shape[0];
  of_channel[1] = channels;
  const NodeId reciprocal =
      g.reshape(g.broadcast_to(s.reciprocal, std::move(repeated)), std::move(of_channel));
  return affine_channels(b, x, {g.reshape(s.difference, shape), reciprocal}, gamma, beta, "group_norm");
}

NodeId instance_norm(ir::Graph& g, NodeId x, NodeId gamma, NodeId beta, double eps) {
  const auto scope = g.scope("instance_norm");
  const Build b{g};
  b.require_float(x, "instance_norm");
  require_rank(g, x, 3, "instance_norm");
  const Standard s = standard(b, b.widen(x), axes_from(g, x, 2), eps);
  return affine_channels(b, x, s, gamma, beta, "instance_norm");
}

NodeId batch_norm(ir::Graph& g, NodeId x, NodeId mean, NodeId variance, NodeId gamma, NodeId beta,
                  double eps) {
  const auto scope = g.scope("batch_norm");
  const Build b{g};
  b.require_float(x, "batch_norm");
  require_rank(g, x, 2, "batch_norm");
  const NodeId d = b.sub(b.widen(x), of_channels(b, mean, x, "batch_norm", "mean"));
  const NodeId v = of_channels(b, variance, x, "batch_norm", "variance");
  const NodeId reciprocal = b.un(ScalarOp::rsqrt, b.add_scalar(v, eps));
  return affine_channels(b, x, {d, reciprocal}, gamma, beta, "batch_norm");
}

}  // namespace bz::composite

// The composites of ir/composites.h as functions of tensors.
#include "ir/composites.h"

#include <braze/operations.h>

#include "frontends/cpp/building.h"

namespace bz {
namespace {

// Calls a composite with the graph and node of `x`, then `args`.
template <class F, class... Args>
Tensor expand(F composite, const Arg& x, const Args&... args) {
  ir::Graph& graph = graph_of(x);
  return wrap(x.tensor.graph(), composite(graph, x.tensor.node(), args...));
}

// Another tensor of the same graph as `x`, checked at the place of `x`.
NodeId needed(const Arg& x, const Tensor& other) { return node_in(graph_of(x), other); }
NodeId optional(const Arg& x, const Tensor& other) { return optional_node(graph_of(x), other); }

}  // namespace

Tensor softmax(const Arg& x, const Axes& axes) { return expand(composite::softmax, x, axes); }
Tensor log_softmax(const Arg& x, const Axes& axes) { return expand(composite::log_softmax, x, axes); }
Tensor logsumexp(const Arg& x, const Axes& axes, KeepDims keep) {
  return expand(composite::logsumexp, x, axes, keep.value);
}
Tensor mean(const Arg& x, const Axes& axes, KeepDims keep) {
  return expand(composite::mean, x, axes, keep.value);
}
Tensor var(const Arg& x, const Axes& axes, std::int64_t correction, KeepDims keep) {
  return expand(composite::var, x, axes, correction, keep.value);
}
Tensor std(const Arg& x, const Axes& axes, std::int64_t correction, KeepDims keep) {
  return expand(composite::std, x, axes, correction, keep.value);
}

Tensor square(const Arg& x) { return expand(composite::square, x); }
Tensor relu(const Arg& x) { return expand(composite::relu, x); }
Tensor leaky_relu(const Arg& x, double negative_slope) {
  return expand(composite::leaky_relu, x, negative_slope);
}
Tensor elu(const Arg& x, double alpha) { return expand(composite::elu, x, alpha); }
Tensor selu(const Arg& x) { return expand(composite::selu, x); }
Tensor gelu(const Arg& x, std::string_view approximate) { return expand(composite::gelu, x, approximate); }
Tensor silu(const Arg& x) { return expand(composite::silu, x); }
Tensor mish(const Arg& x) { return expand(composite::mish, x); }
Tensor softplus(const Arg& x, double beta, double threshold) {
  return expand(composite::softplus, x, beta, threshold);
}
Tensor softsign(const Arg& x) { return expand(composite::softsign, x); }
Tensor hardtanh(const Arg& x, double min, double max) { return expand(composite::hardtanh, x, min, max); }
Tensor hardsigmoid(const Arg& x) { return expand(composite::hardsigmoid, x); }
Tensor hardswish(const Arg& x) { return expand(composite::hardswish, x); }

Tensor layer_norm(const Arg& x, const Axes& axes, const Tensor& gamma, const Tensor& beta, double eps) {
  return expand(composite::layer_norm, x, axes, optional(x, gamma), optional(x, beta), eps);
}
Tensor rms_norm(const Arg& x, const Axes& axes, const Tensor& gamma, std::optional<double> eps) {
  return expand(composite::rms_norm, x, axes, optional(x, gamma), eps);
}
Tensor group_norm(const Arg& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta, double eps) {
  return expand(composite::group_norm, x, groups, optional(x, gamma), optional(x, beta), eps);
}
Tensor instance_norm(const Arg& x, const Tensor& gamma, const Tensor& beta, double eps) {
  return expand(composite::instance_norm, x, optional(x, gamma), optional(x, beta), eps);
}
Tensor batch_norm(const Arg& x, const Tensor& mean, const Tensor& variance, const Tensor& gamma,
                  const Tensor& beta, double eps) {
  return expand(composite::batch_norm, x, needed(x, mean), needed(x, variance), optional(x, gamma),
                optional(x, beta), eps);
}

Tensor mse(const Arg& x, const Arg& y, std::string_view reduction) {
  return expand(composite::mse, x, needed(x, y.tensor), reduction);
}
Tensor cross_entropy(const Arg& logits, const Arg& targets, std::string_view reduction) {
  return expand(composite::cross_entropy, logits, needed(logits, targets.tensor), reduction);
}

}  // namespace bz

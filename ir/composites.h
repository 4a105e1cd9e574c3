// Composites: operations that expand into leaves, maps, views and reductions. Their nodes carry a scope
// label, so that dumps still say `softmax`, and nothing after this layer knows them.
//
//   NodeId p = composite::softmax(g, x, {-1});
//
// Each is there twice: as a typed function, and as a row of composites() for the text form and `braze ops`.
// Names, formulas, defaults and the values at infinities and NaN are PyTorch's; `axes` stands where PyTorch
// has `dim`.
//
// f16 and bf16: where a formula has constants that 16 bits cannot hold (an element count, eps, 0.044715)
// everything is computed in f32 and cast to the operand's type at the end; the others are maps and reductions
// of the operand's type.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace bz {

namespace composite {

// ---- softmax and statistics (composites_statistics.cpp); an empty list of axes means all ----
NodeId softmax(ir::Graph& g, NodeId x, const Axes& axes);
NodeId log_softmax(ir::Graph& g, NodeId x, const Axes& axes);
NodeId logsumexp(ir::Graph& g, NodeId x, const Axes& axes, bool keepdims = false);
NodeId mean(ir::Graph& g, NodeId x, const Axes& axes, bool keepdims = false);
// Sum of squared deviations over max(n - correction, 0).
NodeId var(ir::Graph& g, NodeId x, const Axes& axes, std::int64_t correction = 1, bool keepdims = false);
NodeId std(ir::Graph& g, NodeId x, const Axes& axes, std::int64_t correction = 1, bool keepdims = false);

// ---- activations (composites_activation.cpp) ----
NodeId square(ir::Graph& g, NodeId x);
NodeId relu(ir::Graph& g, NodeId x);
NodeId leaky_relu(ir::Graph& g, NodeId x, double negative_slope = 0.01);
NodeId elu(ir::Graph& g, NodeId x, double alpha = 1);
NodeId selu(ir::Graph& g, NodeId x);
NodeId gelu(ir::Graph& g, NodeId x, std::string_view approximate = "none");  // or "tanh"
NodeId silu(ir::Graph& g, NodeId x);
NodeId mish(ir::Graph& g, NodeId x);
NodeId softplus(ir::Graph& g, NodeId x, double beta = 1, double threshold = 20);
NodeId softsign(ir::Graph& g, NodeId x);
NodeId hardtanh(ir::Graph& g, NodeId x, double min = -1, double max = 1);
NodeId hardsigmoid(ir::Graph& g, NodeId x);
NodeId hardswish(ir::Graph& g, NodeId x);

// ---- normalisation (composites_norm.cpp); gamma and beta may be kNoNode ----
// Parameters have the type of x, or f32 where that is f16 or bf16.
// gamma and beta have the extents of `axes`.
NodeId layer_norm(ir::Graph& g, NodeId x, const Axes& axes = {-1}, NodeId gamma = kNoNode,
                  NodeId beta = kNoNode, double eps = 1e-5);
// eps is by default the spacing of the type at 1 (of f32 for f16 and bf16).
NodeId rms_norm(ir::Graph& g, NodeId x, const Axes& axes = {-1}, NodeId gamma = kNoNode,
                std::optional<double> eps = std::nullopt);
// x is [N, C, ...]; gamma, beta, mean and variance are [C].
NodeId group_norm(ir::Graph& g, NodeId x, std::int64_t groups, NodeId gamma = kNoNode, NodeId beta = kNoNode,
                  double eps = 1e-5);
NodeId instance_norm(ir::Graph& g, NodeId x, NodeId gamma = kNoNode, NodeId beta = kNoNode,
                     double eps = 1e-5);
NodeId batch_norm(ir::Graph& g, NodeId x, NodeId mean, NodeId variance, NodeId gamma = kNoNode,
                  NodeId beta = kNoNode,
                  double eps = 1e-5);  // with given statistics, as in inference

// ---- losses (composites_loss.cpp); reduction is "mean", "sum" or "none" ----
NodeId mse(ir::Graph& g, NodeId x, NodeId y, std::string_view reduction = "mean");
// Logits [..., C], targets [...] of class indices (i32 or i64). A target outside of [0, C) has loss 0.
NodeId cross_entropy(ir::Graph& g, NodeId logits, NodeId targets, std::string_view reduction = "mean");

}  // namespace composite

// ---- the table ----

struct CompositeOperand {
  std::string_view name;
  bool optional = false;  // only at the end of the list
};

// monostate: not given, and no default.
using CompositeValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, Axes>;

struct CompositeAttr {
  enum class Kind : std::uint8_t { boolean, integer, real, text, axes };
  std::string_view name;
  Kind kind;
  CompositeValue value;   // default
  bool required = false;  // there is no default, and leaving it out is an error
};

using CompositeAttrs = std::map<std::string, CompositeValue, std::less<>>;

struct CompositeInfo {
  std::string_view name;
  std::string_view doc;
  std::vector<CompositeOperand> operands;
  std::vector<CompositeAttr> attributes;
  // Called by expand_composite with every operand (kNoNode where left out) and every attribute.
  NodeId (*expand)(ir::Graph& g, std::span<const NodeId> operands, const CompositeAttrs& attributes);
};

std::span<const CompositeInfo> composites();
const CompositeInfo* find_composite(std::string_view name);  // nullptr for a name that is none

// Checks the number of operands and the attributes (names, kinds, required ones), fills in the defaults and
// expands. An integer may stand for a real number, and for a list of one axis. Throws Error at the graph's
// location.
NodeId expand_composite(ir::Graph& g, const CompositeInfo& composite, std::span<const NodeId> operands,
                        const CompositeAttrs& attributes);

std::string_view to_string(
    CompositeAttr::Kind kind);                       // "bool", "integer", "number", "string", "list of axes"
std::string to_string(const CompositeValue& value);  // as the text form writes it; "" for monostate

}  // namespace bz

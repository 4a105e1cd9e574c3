#include "ir/composites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

namespace bz {
namespace {

using Kind = CompositeAttr::Kind;
using Operands = std::span<const NodeId>;

const Axes& axes_of(const CompositeAttrs& a) { return std::get<Axes>(a.at("axes")); }
std::int64_t integer(const CompositeAttrs& a, const char* name) { return std::get<std::int64_t>(a.at(name)); }
double real(const CompositeAttrs& a, const char* name) { return std::get<double>(a.at(name)); }
bool boolean(const CompositeAttrs& a, const char* name) { return std::get<bool>(a.at(name)); }
const std::string& text(const CompositeAttrs& a, const char* name) {
  return std::get<std::string>(a.at(name));
}
std::optional<double> optional_real(const CompositeAttrs& a, const char* name) {
  const auto* value = std::get_if<double>(&a.at(name));
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

CompositeAttr axes(bool required) {
  return {"axes", Kind::axes, required ? CompositeValue() : Axes{}, required};
}
CompositeAttr last_axis() { return {"axes", Kind::axes, Axes{-1}}; }
CompositeAttr keepdims() { return {"keepdims", Kind::boolean, false}; }
CompositeAttr correction() { return {"correction", Kind::integer, std::int64_t{1}}; }
CompositeAttr number(std::string_view name, double value) { return {name, Kind::real, value}; }
CompositeAttr eps() { return number("eps", 1e-5); }
CompositeAttr reduction() { return {"reduction", Kind::text, std::string("mean")}; }

// A composite of one operand without attributes.
template <NodeId (*F)(ir::Graph&, NodeId)>
NodeId unary(ir::Graph& g, Operands x, const CompositeAttrs&) {
  return F(g, x[0]);
}

std::vector<CompositeInfo> make_table() {
  namespace c = composite;
  const std::vector<CompositeOperand> only_x = {{"x"}};
  const std::vector<CompositeOperand> x_gamma_beta = {{"x"}, {"gamma", true}, {"beta", true}};
  return {
      {"softmax",
       "exp(x - max) / sum(exp(x - max))",
       only_x,
       {axes(true)},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) { return c::softmax(g, x[0], axes_of(a)); }},
      {"log_softmax",
       "(x - max) - log(sum(exp(x - max)))",
       only_x,
       {axes(true)},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) { return c::log_softmax(g, x[0], axes_of(a)); }},
      {"logsumexp",
       "log(sum(exp(x))) without overflow; -inf for no elements",
       only_x,
       {axes(false), keepdims()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::logsumexp(g, x[0], axes_of(a), boolean(a, "keepdims"));
       }},
      {"mean",
       "sum / count; NaN for no elements",
       only_x,
       {axes(false), keepdims()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::mean(g, x[0], axes_of(a), boolean(a, "keepdims"));
       }},
      {"var",
       "sum of squared deviations / (count - correction)",
       only_x,
       {axes(false), correction(), keepdims()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::var(g, x[0], axes_of(a), integer(a, "correction"), boolean(a, "keepdims"));
       }},
      {"std",
       "square root of var",
       only_x,
       {axes(false), correction(), keepdims()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::std(g, x[0], axes_of(a), integer(a, "correction"), boolean(a, "keepdims"));
       }},
      {"square", "x * x", only_x, {}, unary<c::square>},
      {"relu", "max(x, 0)", only_x, {}, unary<c::relu>},
      {"leaky_relu",
       "x where x > 0, else negative_slope * x",
       only_x,
       {number("negative_slope", 0.01)},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::leaky_relu(g, x[0], real(a, "negative_slope"));
       }},
      {"elu",
       "x where x > 0, else alpha * (exp(x) - 1)",
       only_x,
       {number("alpha", 1)},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) { return c::elu(g, x[0], real(a, "alpha")); }},
      {"selu", "scaled elu with the constants of self-normalising networks", only_x, {}, unary<c::selu>},
      {"gelu",
       "x * P(normal < x), exact or with the tanh approximation",
       only_x,
       {{"approximate", Kind::text, std::string("none")}},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::gelu(g, x[0], text(a, "approximate"));
       }},
      {"silu", "x * sigmoid(x)", only_x, {}, unary<c::silu>},
      {"mish", "x * tanh(softplus(x))", only_x, {}, unary<c::mish>},
      {"softplus",
       "log(1 + exp(beta * x)) / beta, x where beta * x > threshold",
       only_x,
       {number("beta", 1), number("threshold", 20)},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::softplus(g, x[0], real(a, "beta"), real(a, "threshold"));
       }},
      {"softsign", "x / (1 + |x|)", only_x, {}, unary<c::softsign>},
      {"hardtanh",
       "x clamped to [min, max]",
       only_x,
       {number("min", -1), number("max", 1)},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::hardtanh(g, x[0], real(a, "min"), real(a, "max"));
       }},
      {"hardsigmoid", "clamp(x + 3, 0, 6) / 6", only_x, {}, unary<c::hardsigmoid>},
      {"hardswish", "x * clamp((x + 3) / 6, 0, 1)", only_x, {}, unary<c::hardswish>},
      {"layer_norm",
       "(x - mean) / sqrt(var + eps) * gamma + beta over axes",
       x_gamma_beta,
       {last_axis(), eps()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::layer_norm(g, x[0], axes_of(a), x[1], x[2], real(a, "eps"));
       }},
      {"rms_norm",
       "x / sqrt(mean(x * x) + eps) * gamma over axes",
       {{"x"}, {"gamma", true}},
       {last_axis(), {"eps", Kind::real, CompositeValue()}},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::rms_norm(g, x[0], axes_of(a), x[1], optional_real(a, "eps"));
       }},
      {"group_norm",
       "layer_norm of each group of channels (axis 1) and all positions",
       x_gamma_beta,
       {{"groups", Kind::integer, CompositeValue(), true}, eps()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::group_norm(g, x[0], integer(a, "groups"), x[1], x[2], real(a, "eps"));
       }},
      {"instance_norm",
       "layer_norm of each channel (axis 1) over all positions",
       x_gamma_beta,
       {eps()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::instance_norm(g, x[0], x[1], x[2], real(a, "eps"));
       }},
      {"batch_norm",
       "(x - mean) / sqrt(variance + eps) * gamma + beta by channel (axis 1), statistics given",
       {{"x"}, {"mean"}, {"variance"}, {"gamma", true}, {"beta", true}},
       {eps()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::batch_norm(g, x[0], x[1], x[2], x[3], x[4], real(a, "eps"));
       }},
      {"mse",
       "mean of (x - y)^2",
       {{"x"}, {"y"}},
       {reduction()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::mse(g, x[0], x[1], text(a, "reduction"));
       }},
      {"cross_entropy",
       "-log_softmax(logits) at the target class, classes along the last axis",
       {{"logits"}, {"targets"}},
       {reduction()},
       [](ir::Graph& g, Operands x, const CompositeAttrs& a) {
         return c::cross_entropy(g, x[0], x[1], text(a, "reduction"));
       }},
  };
}

bool has_kind(const CompositeValue& value, Kind kind) {
  switch (kind) {
    case Kind::boolean: return std::holds_alternative<bool>(value);
    case Kind::integer: return std::holds_alternative<std::int64_t>(value);
    case Kind::real: return std::holds_alternative<double>(value);
    case Kind::text: return std::holds_alternative<std::string>(value);
    case Kind::axes: return std::holds_alternative<Axes>(value);
  }
  throw InternalError("attribute has no kind");
}

// An integer stands for a number and for a list of one axis.
CompositeValue convert(const CompositeValue& value, Kind kind) {
  const auto* i = std::get_if<std::int64_t>(&value);
  if (i != nullptr && kind == Kind::real) return static_cast<double>(*i);
  if (i != nullptr && kind == Kind::axes) return Axes{static_cast<int>(*i)};
  return value;
}

CompositeAttrs complete_attributes(const ir::Graph& g, const CompositeInfo& composite,
                                   const CompositeAttrs& given) {
  CompositeAttrs complete;
  for (const CompositeAttr& attr : composite.attributes) {
    const auto found = given.find(attr.name);
    if (found == given.end()) {
      if (attr.required) {
        g.fail(
            fmt::format("{} needs the attribute {} ({})", composite.name, attr.name, to_string(attr.kind)));
      }
      complete.emplace(attr.name, attr.value);
      continue;
    }
    CompositeValue value = convert(found->second, attr.kind);
    if (!has_kind(value, attr.kind)) {
      g.fail(fmt::format("{}: attribute {} is {}, expected {}", composite.name, attr.name, to_string(value),
                         to_string(attr.kind)));
    }
    complete.emplace(attr.name, std::move(value));
  }
  for (const auto& [name, value] : given) {
    if (complete.contains(name)) continue;
    std::vector<std::string_view> known;
    for (const CompositeAttr& attr : composite.attributes) known.push_back(attr.name);
    g.fail(fmt::format("{} has no attribute {}; {}", composite.name, name,
                       known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(known, ", "))));
  }
  return complete;
}

std::vector<NodeId> complete_operands(const ir::Graph& g, const CompositeInfo& composite, Operands given) {
  std::size_t required = 0;
  for (const CompositeOperand& operand : composite.operands) required += operand.optional ? 0 : 1;
  const std::size_t most = composite.operands.size();
  if (given.size() < required || given.size() > most) {
    const std::string count =
        required == most ? std::to_string(most) : fmt::format("{} to {}", required, most);
    g.fail(fmt::format("{} takes {} operand{}, got {}", composite.name, count, most == 1 ? "" : "s",
                       given.size()));
  }
  std::vector<NodeId> complete(given.begin(), given.end());
  complete.resize(most, kNoNode);
  return complete;
}

}  // namespace

std::span<const CompositeInfo> composites() {
  static const std::vector<CompositeInfo> table = make_table();
  return table;
}

const CompositeInfo* find_composite(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const CompositeInfo*> map;
    for (const CompositeInfo& row : composites()) map.emplace(row.name, &row);
    return map;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

NodeId expand_composite(ir::Graph& g, const CompositeInfo& composite, Operands operands,
                        const CompositeAttrs& attributes) {
  const CompositeAttrs complete = complete_attributes(g, composite, attributes);
  return composite.expand(g, complete_operands(g, composite, operands), complete);
}

std::string_view to_string(CompositeAttr::Kind kind) {
  switch (kind) {
    case Kind::boolean: return "bool";
    case Kind::integer: return "integer";
    case Kind::real: return "number";
    case Kind::text: return "string";
    case Kind::axes: return "list of axes";
  }
  throw InternalError("attribute kind has no name");
}

std::string to_string(const CompositeValue& value) {
  if (const auto* v = std::get_if<bool>(&value)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *v);
  if (const auto* v = std::get_if<double>(&value)) return fmt::format("{}", *v);
  if (const auto* v = std::get_if<std::string>(&value)) return fmt::format("\"{}\"", *v);
  if (const auto* v = std::get_if<Axes>(&value)) return fmt::format("[{}]", fmt::join(*v, ", "));
  return "";
}

}  // namespace bz

#include "ir/statement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "ir/composites.h"
#include "ir/suggest.h"

namespace bz {
namespace {

// ---- values
// ---------------------------------------------------------------------------------------------------------

// The value of a literal in the type it takes, rounded once.
Scalar literal_value(const ir::Graph& g, const std::string& text, DType dtype) {
  const char* end = text.data() + text.size();
  if (dtype == DType::boolean) {
    if (text == "true" || text == "1") return Scalar::of_int(dtype, 1);
    if (text == "false" || text == "0") return Scalar::of_int(dtype, 0);
  } else if (is_integer(dtype)) {
    std::int64_t value = 0;
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && wrap_to(dtype, value) == value)
      return Scalar::of_int(dtype, value);
  } else if (text != "true" && text != "false") {
    // strtof and strtod round once and know subnormals; the text is a checked number, inf or nan.
    double value = dtype == DType::f32 ? static_cast<double>(std::strtof(text.c_str(), nullptr))
                                       : std::strtod(text.c_str(), nullptr);
    Scalar result = Scalar::of(dtype, value);
    bool overflow = std::isinf(result.f) && text != "inf" && text != "-inf";
    if (!overflow) return result;
  }
  g.fail(fmt::format("{} is not a value of type {}", text, name(dtype)));
}

std::vector<std::string_view> names_of(std::span<const Attribute> attributes) {
  std::vector<std::string_view> names;
  for (const Attribute& a : attributes) names.push_back(a.name);
  return names;
}

// A statement's operands and attributes with their types checked.
class Reader {
 public:
  Reader(ir::Graph& g, const Statement& s) : g(g), s(s) {}

  void only(std::span<const std::string_view> accepted) const {
    for (std::string_view name : names_of(s.attributes)) {
      if (std::find(accepted.begin(), accepted.end(), name) != accepted.end()) continue;
      if (accepted.empty()) g.fail(fmt::format("{} has no attribute {}, it takes none", s.op, name));
      g.fail(fmt::format("{} has no attribute {}, it takes {}", s.op, name, fmt::join(accepted, ", ")));
    }
  }

  void operand_count(std::size_t n) const {
    if (s.operands.size() == n) return;
    g.fail(fmt::format("{} takes {} operand{}, got {}", s.op, n, n == 1 ? "" : "s", s.operands.size()));
  }

  NodeId node(std::size_t i) const {
    const StatementOperand& operand = s.operands[i];
    if (operand.is_literal()) g.fail(fmt::format("{} takes a %name, got {}", s.op, operand.literal));
    return operand.node;
  }

  const AttrValue* find(std::string_view name) const {
    for (const Attribute& a : s.attributes) {
      if (a.name == name) return &a.value;
    }
    return nullptr;
  }
  const AttrValue& get(std::string_view name) const {
    if (const AttrValue* value = find(name)) return *value;
    g.fail(fmt::format("{} needs the attribute {}", s.op, name));
  }

  // A list of integers; a single integer is a list of one.
  std::vector<std::int64_t> list(std::string_view name) const {
    const AttrValue& value = get(name);
    if (value.kind == AttrValue::Kind::list) return value.list;
    if (value.integer) return {*value.integer};
    g.fail(fmt::format("{} of {} is a list of integers, got {}", name, s.op, value.text));
  }
  std::vector<std::int64_t> list_or_empty(std::string_view name) const {
    return find(name) ? list(name) : std::vector<std::int64_t>{};
  }
  Axes axes(std::string_view name) const {
    Axes axes;
    for (std::int64_t axis : list(name)) {
      if (axis < std::numeric_limits<int>::min() || axis > std::numeric_limits<int>::max()) {
        g.fail(fmt::format("{} of {} has {}, which is no axis", name, s.op, axis));
      }
      axes.push_back(static_cast<int>(axis));
    }
    return axes;
  }
  bool flag(std::string_view name) const {
    const AttrValue* value = find(name);
    if (!value || value->text == "false") return false;
    if (value->text == "true") return true;
    g.fail(fmt::format("{} of {} is true or false, got {}", name, s.op, value->text));
  }
  DType dtype(std::string_view name) const {
    const AttrValue& value = get(name);
    if (std::optional<DType> dtype = parse_dtype(value.text)) return *dtype;
    g.fail(fmt::format("{} of {} is a type such as f16, got {}", name, s.op, value.text));
  }
  Scalar scalar(std::string_view name, DType dtype) const {
    const AttrValue& value = get(name);
    if (value.kind == AttrValue::Kind::list || value.kind == AttrValue::Kind::string) {
      g.fail(fmt::format("{} of {} is one number", name, s.op));
    }
    return literal_value(g, value.text, dtype);
  }

  ir::Graph& g;
  const Statement& s;
};

// ---- leaves and views
// -----------------------------------------------------------------------------------------------

NodeId build_input(const Reader& r) {
  r.operand_count(0);
  std::string name = r.find("name") ? r.get("name").text : r.s.name;
  if (name.empty()) r.g.fail("an input needs a name");
  return r.g.input(std::move(name), *r.s.type);
}

NodeId build_constant(const Reader& r) {
  r.operand_count(1);
  if (!r.s.operands[0].is_literal()) r.g.fail("constant takes a number, got a %name");
  return r.g.constant(literal_value(r.g, r.s.operands[0].literal, r.s.type->dtype), r.s.type->shape);
}

NodeId build_iota(const Reader& r) {
  r.operand_count(0);
  const AttrValue& axis = r.get("axis");
  if (!axis.integer || *axis.integer < -r.s.type->rank() || *axis.integer >= r.s.type->rank()) {
    r.g.fail(fmt::format("axis of iota is {}, but {} has rank {}", axis.text, to_string(*r.s.type),
                         r.s.type->rank()));
  }
  int at = static_cast<int>(*axis.integer);
  return r.g.iota(r.s.type->dtype, r.s.type->shape, at < 0 ? at + r.s.type->rank() : at);
}

NodeId build_broadcast(const Reader& r) {
  if (!r.find("dims")) return r.g.broadcast_to(r.node(0), r.list("shape"));
  return r.g.broadcast(r.node(0), r.list("shape"), r.axes("dims"));
}
NodeId build_reshape(const Reader& r) { return r.g.reshape(r.node(0), r.list("shape")); }
NodeId build_permute(const Reader& r) { return r.g.permute(r.node(0), r.axes("perm")); }
NodeId build_slice(const Reader& r) {
  return r.g.slice(r.node(0), r.list("starts"), r.list("stops"), r.list_or_empty("steps"));
}
NodeId build_flip(const Reader& r) { return r.g.flip(r.node(0), r.axes("axes")); }
NodeId build_pad(const Reader& r) {
  std::optional<Scalar> value;
  if (r.find("value")) value = r.scalar("value", r.g.type(r.node(0)).dtype);
  return r.g.pad(r.node(0), r.list("lo"), r.list("hi"), value);
}
NodeId build_window(const Reader& r) {
  return r.g.window(r.node(0), r.axes("axes"), r.list("size"), r.list_or_empty("stride"),
                    r.list_or_empty("dilation"));
}

struct Form {
  std::string_view op;
  bool typed;  // followed by a type; it checks its own operands
  std::vector<std::string_view> attributes;
  NodeId (*build)(const Reader&);
};

const std::vector<Form>& forms() {
  static const std::vector<Form> table = {
      {"input", true, {"name"}, build_input},
      {"constant", true, {}, build_constant},
      {"iota", true, {"axis"}, build_iota},
      {"broadcast", false, {"shape", "dims"}, build_broadcast},
      {"reshape", false, {"shape"}, build_reshape},
      {"permute", false, {"perm"}, build_permute},
      {"slice", false, {"starts", "stops", "steps"}, build_slice},
      {"flip", false, {"axes"}, build_flip},
      {"pad", false, {"lo", "hi", "value"}, build_pad},
      {"window", false, {"axes", "size", "stride", "dilation"}, build_window},
  };
  return table;
}

const Form* find_form(std::string_view op) {
  for (const Form& f : forms()) {
    if (f.op == op) return &f;
  }
  return nullptr;
}

// ---- maps
// -------------------------------------------------------------------------------------------------------------

NodeId build_map(const Reader& r, ScalarOp op) {
  static constexpr std::string_view kCastAttributes[] = {"dtype"};
  bool cast = op == ScalarOp::cast;
  r.only(cast ? std::span<const std::string_view>(kCastAttributes) : std::span<const std::string_view>());
  r.operand_count(static_cast<std::size_t>(info(op).arity));

  std::vector<NodeId> given;
  for (const StatementOperand& o : r.s.operands) {
    if (!o.is_literal()) given.push_back(o.node);
  }
  if (given.empty()) r.g.fail(fmt::format("{} of numbers only: make one of them a `constant`", r.s.op));
  r.g.broadcast_together(given, r.s.op);
  const Shape shape = r.g.type(given[0]).shape;

  // Literals take the type of the first value operand that is a node; the condition of select is always bool.
  std::size_t first_value = op == ScalarOp::select ? 1 : 0;
  std::optional<DType> dtype;
  for (std::size_t i = first_value; i < r.s.operands.size() && !dtype; ++i) {
    if (!r.s.operands[i].is_literal()) dtype = r.g.type(r.s.operands[i].node).dtype;
  }
  std::vector<NodeId> operands;
  std::size_t next = 0;
  for (std::size_t i = 0; i < r.s.operands.size(); ++i) {
    const StatementOperand& o = r.s.operands[i];
    if (!o.is_literal()) {
      operands.push_back(given[next++]);
    } else if (i < first_value) {
      operands.push_back(r.g.constant(literal_value(r.g, o.literal, DType::boolean), shape));
    } else if (dtype) {
      operands.push_back(r.g.constant(literal_value(r.g, o.literal, *dtype), shape));
    } else {
      r.g.fail(fmt::format("the type of {} is not known: make it a `constant`", o.literal));
    }
  }
  return cast ? r.g.map(op, std::move(operands), r.dtype("dtype")) : r.g.map(op, std::move(operands));
}

// ---- reductions
// -------------------------------------------------------------------------------------------------------

struct ReduceOp {
  Monoid monoid;
  int component;
};

// "max_sumexp.1" -> {max_sumexp, 1}.
std::optional<ReduceOp> parse_reduce(std::string_view op) {
  if (std::optional<Monoid> m = parse_monoid(op)) return ReduceOp{*m, user_component(*m)};
  std::size_t dot = op.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  std::optional<Monoid> m = parse_monoid(op.substr(0, dot));
  int component = 0;
  auto [end, error] = std::from_chars(op.data() + dot + 1, op.data() + op.size(), component);
  if (!m || error != std::errc() || end != op.data() + op.size()) return std::nullopt;
  return ReduceOp{*m, component};
}

NodeId build_reduce(const Reader& r, const ReduceOp& op) {
  static constexpr std::string_view kAttributes[] = {"axes", "keepdims", "merge"};
  r.only(kAttributes);
  if (r.s.operands.empty()) r.operand_count(1);
  std::vector<NodeId> operands;
  for (std::size_t i = 0; i < r.s.operands.size(); ++i) operands.push_back(r.node(i));
  Axes axes = r.find("axes") ? r.axes("axes") : Axes{};
  ReduceAttrs attrs{op.monoid, std::move(axes), r.flag("keepdims"), op.component, r.flag("merge")};
  return r.g.reduce(std::move(attrs), std::move(operands));
}

// ---- composites
// -------------------------------------------------------------------------------------------------------

CompositeValue composite_value(const Reader& r, const Attribute& a) {
  switch (a.value.kind) {
    case AttrValue::Kind::list: return r.axes(a.name);
    case AttrValue::Kind::string: return a.value.text;
    case AttrValue::Kind::word:
      if (a.value.text == "true" || a.value.text == "false") return a.value.text == "true";
      return a.value.text;
    case AttrValue::Kind::number:
      if (a.value.integer) return *a.value.integer;
      return std::strtod(a.value.text.c_str(), nullptr);
  }
  throw InternalError("attribute of an unknown kind");
}

NodeId build_composite(const Reader& r, const CompositeInfo& composite) {
  std::vector<NodeId> operands;
  for (std::size_t i = 0; i < r.s.operands.size(); ++i) operands.push_back(r.node(i));
  CompositeAttrs attributes;
  for (const Attribute& a : r.s.attributes) attributes.emplace(a.name, composite_value(r, a));
  return expand_composite(r.g, composite, operands, attributes);
}

[[noreturn]] void unknown_op(const ir::Graph& g, std::string_view op) {
  std::vector<std::string_view> names;
  for (const Form& f : forms()) names.push_back(f.op);
  for (const MonoidInfo& m : monoids()) names.push_back(m.text);
  for (const ScalarOpInfo& o : scalar_ops()) names.push_back(o.text);
  for (const CompositeInfo& c : composites()) names.push_back(c.name);
  g.fail(fmt::format("unknown operation {}{}", op, did_you_mean(op, names)));
}

}  // namespace

bool takes_type(std::string_view op) {
  const Form* form = find_form(op);
  return form && form->typed;
}

NodeId build(ir::Graph& g, const Statement& s) {
  Reader r(g, s);
  if (const Form* form = find_form(s.op)) {
    r.only(form->attributes);
    if (!form->typed) r.operand_count(1);
    return form->build(r);
  }
  std::optional<ScalarOp> scalar = parse_scalar_op(s.op);
  if (std::optional<ReduceOp> reduce = parse_reduce(s.op)) {
    // max and min are maps too: two operands without axes.
    bool is_map = scalar && s.operands.size() == 2 && !r.find("axes");
    if (!is_map) return build_reduce(r, *reduce);
  }
  if (scalar) return build_map(r, *scalar);
  if (const CompositeInfo* composite = find_composite(s.op)) return build_composite(r, *composite);
  unknown_op(g, s.op);
}

}  // namespace bz

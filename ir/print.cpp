#include "ir/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <unordered_map>

#include "ir/lex.h"

namespace bz {
namespace {

template <class T>
std::string list(const std::vector<T>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string word_or_string(const std::string& name) { return is_plain_word(name) ? name : quote(name); }

// Collects "a = 1, b = [2]".
class AttrText {
 public:
  void add(std::string_view name, std::string_view value) {
    if (!text_.empty()) text_ += ", ";
    text_ += fmt::format("{} = {}", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool all_ones(const std::vector<std::int64_t>& values) {
  return std::all_of(values.begin(), values.end(), [](std::int64_t v) { return v == 1; });
}

// The attributes in braces; visited by kind so that a new kind does not compile without its text.
struct AttrPrinter {
  const Node& node;
  AttrText& out;

  void operator()(const InputAttrs& a) const {
    if (a.name != node.name) out.add("name", quote(a.name));
  }
  void operator()(const ConstantAttrs&) const {}
  void operator()(const IotaAttrs& a) const { out.add("axis", std::to_string(a.axis)); }
  void operator()(const MapAttrs& a) const {
    if (a.op == ScalarOp::cast) out.add("dtype", name(node.type.dtype));
  }
  void operator()(const BroadcastAttrs& a) const {
    out.add("shape", list(node.type.shape));
    out.add("dims", list(a.dims));
  }
  void operator()(const ReshapeAttrs&) const { out.add("shape", list(node.type.shape)); }
  void operator()(const PermuteAttrs& a) const { out.add("perm", list(a.perm)); }
  void operator()(const SliceAttrs& a) const {
    std::vector<std::int64_t> stops;
    for (std::size_t i = 0; i < a.starts.size(); ++i) {
      std::int64_t n = node.type.shape[i];
      stops.push_back(n == 0 ? a.starts[i] : a.starts[i] + (n - 1) * a.steps[i] + 1);
    }
    out.add("starts", list(a.starts));
    out.add("stops", list(stops));
    if (!all_ones(a.steps)) out.add("steps", list(a.steps));
  }
  void operator()(const FlipAttrs& a) const { out.add("axes", list(a.axes)); }
  void operator()(const PadAttrs& a) const {
    out.add("lo", list(a.lo));
    out.add("hi", list(a.hi));
    if (a.value) out.add("value", print_scalar(*a.value));
  }
  void operator()(const WindowAttrs& a) const {
    out.add("axes", list(a.axes));
    out.add("size", list(a.size));
    if (!all_ones(a.stride)) out.add("stride", list(a.stride));
    if (!all_ones(a.dilation)) out.add("dilation", list(a.dilation));
  }
  void operator()(const ReduceAttrs& a) const {
    out.add("axes", list(a.axes));
    if (a.keepdims) out.add("keepdims", "true");
    if (a.merge) out.add("merge", "true");
  }
};

class Printer {
 public:
  Printer(const ir::Graph& g, const PrintOptions& options) : g_(g), options_(options) {}

  std::string run() {
    name_nodes();
    find_inline_constants();
    put("graph {} {{\n", word_or_string(g_.name()));
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (!inline_[static_cast<std::size_t>(id)]) line(id);
    }
    for (const Output& o : g_.outputs()) {
      bool implied = !o.name.empty() && o.name == g_.node(o.node).name;
      put("  output {}%{}\n", implied ? "" : word_or_string(o.name) + " = ", ref(o.node));
    }
    put("}}\n");
    return fmt::to_string(out_);
  }

 private:
  template <class... T>
  void put(fmt::format_string<T...> format, T&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(args)...);
  }
  const std::string& ref(NodeId id) const { return refs_[static_cast<std::size_t>(id)]; }

  void name_nodes() {
    std::unordered_map<std::string_view, int> taken;
    for (NodeId id = 0; id < g_.size(); ++id) {
      const std::string& name = g_.node(id).name;
      if (name.empty()) {
        refs_.push_back(std::to_string(id));
        continue;
      }
      int count = ++taken[name];
      std::string text = is_plain_name(name) ? name : quote(name);
      refs_.push_back(count == 1 ? text : fmt::format("{}~{}", text, count));
    }
  }

  // Marks the constants that the parser would make again from a literal in their user's operand list.
  void find_inline_constants() {
    inline_.assign(static_cast<std::size_t>(g_.size()), false);
    std::vector<int> uses(static_cast<std::size_t>(g_.size()), 0);
    for (NodeId id = 0; id < g_.size(); ++id) {
      for (NodeId o : g_.node(id).operands) ++uses[static_cast<std::size_t>(o)];
    }
    for (const Output& o : g_.outputs()) ++uses[static_cast<std::size_t>(o.node)];
    for (NodeId id = 0; id < g_.size(); ++id) {
      const Node& n = g_.node(id);
      const MapAttrs* map = n.as<MapAttrs>();
      if (!map) continue;
      // The parser gives a literal the type of the first other value operand.
      std::size_t first = map->op == ScalarOp::select ? 1 : 0;
      std::vector<NodeId> literals;
      std::optional<DType> dtype;
      for (std::size_t i = first; i < n.operands.size(); ++i) {
        const Node& operand = g_.node(n.operands[i]);
        bool literal = operand.as<ConstantAttrs>() && operand.name.empty() && operand.scope == n.scope &&
                       uses[static_cast<std::size_t>(n.operands[i])] == 1 &&
                       operand.type.shape == n.type.shape;
        if (literal) {
          literals.push_back(n.operands[i]);
        } else if (!dtype) {
          dtype = operand.type.dtype;
        }
      }
      NodeId expected = id - static_cast<NodeId>(literals.size());
      bool fits = dtype.has_value();
      for (NodeId c : literals) fits = fits && c == expected++ && g_.type(c).dtype == *dtype;
      if (!fits) continue;
      for (NodeId c : literals) inline_[static_cast<std::size_t>(c)] = true;
    }
  }

  void line(NodeId id) {
    const Node& n = g_.node(id);
    put("  %{} = {}", ref(id), n.op_name());
    if (n.as<InputAttrs>() || n.as<ConstantAttrs>() || n.as<IotaAttrs>()) put(" {}", print_type(n.type));
    if (const ConstantAttrs* c = n.as<ConstantAttrs>()) put(" {}", print_scalar(c->value));
    const char* separator = " ";
    for (NodeId o : n.operands) {
      if (inline_[static_cast<std::size_t>(o)]) {
        put("{}{}", separator, print_scalar(g_.node(o).as<ConstantAttrs>()->value));
      } else {
        put("{}%{}", separator, ref(o));
      }
      separator = ", ";
    }
    AttrText attrs;
    std::visit(AttrPrinter{n, attrs}, n.attrs);
    if (!attrs.text().empty()) put(" {{{}}}", attrs.text());
    if (n.scope != 0) put(" @{}", g_.scopes()[static_cast<std::size_t>(n.scope)]);
    if (options_.types) put("  # {}", print_type(n.type));
    put("\n");
  }

  const ir::Graph& g_;
  const PrintOptions& options_;
  fmt::memory_buffer out_;
  std::vector<std::string> refs_;  // by node, without '%'
  std::vector<bool> inline_;       // by node: printed where it is used
};

}  // namespace

std::string print_type(const Type& type) { return fmt::format("{}{}", name(type.dtype), list(type.shape)); }

std::string print_scalar(const Scalar& value) {
  if (is_float(value.dtype) && std::isnan(value.f)) return std::signbit(value.f) ? "-nan" : "nan";
  return to_string(value);
}

std::string print(const ir::Graph& g, const PrintOptions& options) { return Printer(g, options).run(); }

}  // namespace bz

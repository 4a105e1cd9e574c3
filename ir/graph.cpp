#include "ir/graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>

namespace bz {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

// [A-Za-z_][A-Za-z0-9_.]*
bool is_identifier(std::string_view s) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  if (s.empty() || !word(s[0]) || std::isdigit(static_cast<unsigned char>(s[0])) != 0) return false;
  return std::all_of(s.begin(), s.end(), [&](char c) { return word(c) || c == '.'; });
}

void check_shape(const ir::Graph& g, const Shape& shape, std::string_view what) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      g.fail(fmt::format("{}: extent {} of axis {} is negative in {}", what, shape[i], i, to_string(shape)));
    }
  }
  if (!checked_element_count(shape)) {
    g.fail(fmt::format("{}: {} has more than 2^62 elements", what, to_string(shape)));
  }
}

// Checks that a list of an operation has one entry for every axis of its operand.
void check_entries(const ir::Graph& g, std::string_view what, std::string_view list, std::size_t entries,
                   int rank) {
  if (static_cast<int>(entries) != rank) {
    g.fail(fmt::format("{}: {} has {} entries for rank {}", what, list, entries, rank));
  }
}

int normalize_axis(const ir::Graph& g, int axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    g.fail(fmt::format("{}: axis {} is out of range for rank {}", what, axis, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

// As Graph::normalize_axes, but in the order written and without a meaning for the empty list.
Axes distinct_axes(const ir::Graph& g, const Axes& axes, int rank, std::string_view what) {
  Axes out;
  std::vector<int> written(static_cast<std::size_t>(rank));
  std::vector<bool> seen(static_cast<std::size_t>(rank), false);
  for (int axis : axes) {
    const int a = normalize_axis(g, axis, rank, what);
    const auto slot = static_cast<std::size_t>(a);
    if (seen[slot] && written[slot] == axis) {
      g.fail(fmt::format("{}: axis {} is named twice for rank {}", what, axis, rank));
    }
    if (seen[slot]) {
      g.fail(
          fmt::format("{}: axes {} and {} are the same axis for rank {}", what, written[slot], axis, rank));
    }
    seen[slot] = true;
    written[slot] = axis;
    out.push_back(a);
  }
  return out;
}

// "cannot add f32[3,4] and f32[4,3]: dimension 0 is 3 on the left and 4 on the right"
[[noreturn]] void fail_broadcast(const ir::Graph& g, std::span<const NodeId> nodes, std::string_view what,
                                 std::size_t from_end, std::int64_t first, std::int64_t second) {
  std::vector<std::string> types;
  bool one_rank = true;
  for (NodeId n : nodes) {
    types.push_back(to_string(g.type(n)));
    one_rank = one_rank && g.type(n).rank() == g.type(nodes[0]).rank();
  }
  const std::string last = types.back();
  types.pop_back();
  // Operands of several ranks are aligned at the end, so that is where their dimensions are counted from.
  const std::int64_t dimension =
      (one_rank ? g.type(nodes[0]).rank() : 0) - 1 - static_cast<std::int64_t>(from_end);
  const bool pair = nodes.size() == 2;
  g.fail(fmt::format("cannot {} {} and {}: dimension {} is {}{} and {}{}", what, fmt::join(types, ", "), last,
                     dimension, first, pair ? " on the left" : " in one", second,
                     pair ? " on the right" : " in another"));
}

void check_reducible(const ir::Graph& g, Monoid monoid, DType t) {
  const std::string_view text = info(monoid).text;
  switch (monoid) {
    case Monoid::any:
    case Monoid::all:
      if (t != DType::boolean) {
        g.fail(fmt::format("{} needs bool, got {}; compare with 0 or cast to bool first", text, name(t)));
      }
      return;
    case Monoid::sum:
    case Monoid::prod:
    case Monoid::max:
    case Monoid::min:
    case Monoid::argmax:
    case Monoid::argmin:
      if (t == DType::boolean) {
        g.fail(fmt::format("{} needs a number, got bool; cast it to i32 or f32 first", text));
      }
      return;
    case Monoid::max_sumexp:
    case Monoid::moments:
      if (!is_float(t)) g.fail(fmt::format("{} needs a floating type, got {}", text, name(t)));
      return;
  }
}

// The reductions that have no value over no elements.
bool needs_elements(Monoid monoid) {
  return monoid == Monoid::max || monoid == Monoid::min || monoid == Monoid::argmax ||
         monoid == Monoid::argmin;
}

// Checks number and types of the operands of a reduction and returns the type of the component asked for.
DType reduction_dtype(const ir::Graph& g, const ReduceAttrs& attrs, const std::vector<NodeId>& operands) {
  const MonoidInfo& row = info(attrs.monoid);
  const DType t = g.type(operands[0]).dtype;
  check_reducible(g, attrs.monoid, t);
  const int given = static_cast<int>(operands.size());
  const bool implicit_index = !attrs.merge && row.inputs == 2 && given == 1;
  const int wanted = attrs.merge ? row.components : row.inputs;
  if (!implicit_index && (row.weights ? given < wanted : given != wanted)) {
    g.fail(fmt::format("{}{} takes {}{} operand{}, got {}", row.text, attrs.merge ? " merge" : "",
                       row.weights ? "at least " : "", wanted, wanted == 1 ? "" : "s", given));
  }
  const std::vector<DType> components = row.component_dtypes(t, inputs_of(row, given, attrs.merge));
  if (attrs.component < 0 || attrs.component >= static_cast<int>(components.size())) {
    g.fail(fmt::format("{} has {} component{}, component {} was asked for", row.text, components.size(),
                       components.size() == 1 ? "" : "s", attrs.component));
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const DType expected = attrs.merge ? components[i] : row.weights ? compute_dtype(t) : DType::i64;
    const DType got = g.type(operands[i]).dtype;
    if (compute_dtype(got) != expected) {
      g.fail(fmt::format("{}: operand {} is {}, expected {}", row.text, i, name(got), name(expected)));
    }
  }
  // A component that is an element or made of elements keeps their type, although f16 and bf16 are
  // accumulated in f32.
  const DType component = components[static_cast<std::size_t>(attrs.component)];
  return component == compute_dtype(t) ? t : component;
}

}  // namespace

// ---- nodes ----

NodeKind Node::kind() const {
  return std::visit(Overloaded{
                        [](const InputAttrs&) { return NodeKind::leaf; },
                        [](const ConstantAttrs&) { return NodeKind::leaf; },
                        [](const IotaAttrs&) { return NodeKind::leaf; },
                        [](const MapAttrs&) { return NodeKind::map; },
                        [](const ReduceAttrs&) { return NodeKind::reduce; },
                        [](const auto&) { return NodeKind::view; },
                    },
                    attrs);
}

std::string Node::op_name() const {
  return std::visit(Overloaded{
                        [](const InputAttrs&) { return std::string("input"); },
                        [](const ConstantAttrs&) { return std::string("constant"); },
                        [](const IotaAttrs&) { return std::string("iota"); },
                        [](const MapAttrs& a) { return std::string(info(a.op).text); },
                        [](const BroadcastAttrs&) { return std::string("broadcast"); },
                        [](const ReshapeAttrs&) { return std::string("reshape"); },
                        [](const PermuteAttrs&) { return std::string("permute"); },
                        [](const SliceAttrs&) { return std::string("slice"); },
                        [](const FlipAttrs&) { return std::string("flip"); },
                        [](const PadAttrs&) { return std::string("pad"); },
                        [](const WindowAttrs&) { return std::string("window"); },
                        [](const ReduceAttrs& a) {
                          const MonoidInfo& row = info(a.monoid);
                          if (row.user && a.component == user_component(a.monoid))
                            return std::string(row.text);
                          return fmt::format("{}.{}", row.text, a.component);
                        },
                    },
                    attrs);
}

int user_component(Monoid monoid) { return monoid == Monoid::argmax || monoid == Monoid::argmin ? 1 : 0; }

// ---- leaves and maps ----

NodeId ir::Graph::add(Attrs attrs, Type type, std::vector<NodeId> operands) {
  check_shape(*this, type.shape, "result");
  if (size() == std::numeric_limits<NodeId>::max()) fail("the graph has more than 2^31 - 1 nodes");
  nodes_.push_back({std::move(attrs), std::move(type), std::move(operands), "", scope_, loc_});
  return size() - 1;
}

void ir::Graph::check_id(NodeId id) const {
  if (id < 0 || id >= size()) fail(fmt::format("node {} does not exist, the graph has {} nodes", id, size()));
}

NodeId ir::Graph::input(std::string name, Type type) {
  if (!is_identifier(name)) fail(fmt::format("input name \"{}\" is not an identifier", name));
  if (!input_names_.insert(name).second) fail(fmt::format("there are two inputs named \"{}\"", name));
  check_shape(*this, type.shape, fmt::format("input {}", name));
  const NodeId id = add(InputAttrs{name}, std::move(type), {});
  nodes_.back().name = std::move(name);
  inputs_.push_back(id);
  return id;
}

NodeId ir::Graph::constant(Scalar value, Shape shape) {
  check_shape(*this, shape, "constant");
  return add(ConstantAttrs{value}, {value.dtype, std::move(shape)}, {});
}

NodeId ir::Graph::iota(DType dtype, Shape shape, int axis) {
  if (dtype == DType::boolean) fail("iota needs a number, got bool");
  check_shape(*this, shape, "iota");
  const int a = normalize_axis(*this, axis, static_cast<int>(shape.size()), "iota");
  return add(IotaAttrs{a}, {dtype, std::move(shape)}, {});
}

NodeId ir::Graph::map(ScalarOp op, std::vector<NodeId> operands, DType target) {
  std::vector<DType> dtypes;
  for (NodeId x : operands) {
    check_id(x);
    dtypes.push_back(type(x).dtype);
    if (type(x).shape != type(operands[0]).shape) {
      fail(fmt::format("{} needs operands of one shape, got {} and {}; broadcast them first", info(op).text,
                       to_string(type(operands[0])), to_string(type(x))));
    }
  }
  std::string why;
  const std::optional<DType> result = infer_dtype(op, dtypes, target, &why);
  if (!result) fail(why);
  Shape shape = type(operands[0]).shape;
  return add(MapAttrs{op}, {*result, std::move(shape)}, std::move(operands));
}

// ---- views ----

NodeId ir::Graph::broadcast(NodeId x, Shape shape, Axes dims) {
  check_id(x);
  check_shape(*this, shape, "broadcast");
  const Type& from = type(x);
  const int rank = static_cast<int>(shape.size());
  check_entries(*this, "broadcast", "dims", dims.size(), from.rank());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dims[i] = normalize_axis(*this, dims[i], rank, "broadcast");
    if (i > 0 && dims[i] <= dims[i - 1]) {
      fail(fmt::format("broadcast: dims [{}] are not increasing; permute first", fmt::join(dims, ", ")));
    }
    const std::int64_t extent = from.shape[i];
    const std::int64_t target = shape[static_cast<std::size_t>(dims[i])];
    if (extent != target && extent != 1) {
      fail(fmt::format("cannot broadcast {} to {}: axis {} has extent {}, axis {} of the result {}",
                       to_string(from), to_string(shape), i, extent, dims[i], target));
    }
  }
  const DType dtype = from.dtype;
  return add(BroadcastAttrs{std::move(dims)}, {dtype, std::move(shape)}, {x});
}

NodeId ir::Graph::broadcast_to(NodeId x, Shape shape) {
  check_id(x);
  if (type(x).shape == shape) return x;
  const int rank = type(x).rank();
  const int extra = static_cast<int>(shape.size()) - rank;
  if (extra < 0) {
    fail(fmt::format("cannot broadcast {} to {}: it has more axes", to_string(type(x)), to_string(shape)));
  }
  Axes dims(static_cast<std::size_t>(rank));
  std::iota(dims.begin(), dims.end(), extra);
  return broadcast(x, std::move(shape), std::move(dims));
}

NodeId ir::Graph::reshape(NodeId x, Shape shape) {
  check_id(x);
  const Type& from = type(x);
  const Shape asked = shape;
  auto unknown = shape.end();
  for (auto it = shape.begin(); it != shape.end(); ++it) {
    if (*it != -1) continue;
    if (unknown != shape.end()) fail(fmt::format("reshape: {} has more than one -1", to_string(asked)));
    unknown = it;
  }
  if (unknown != shape.end()) *unknown = 1;
  check_shape(*this, shape, "reshape");
  const std::int64_t have = from.elements();
  const std::int64_t known = element_count(shape);
  if (unknown != shape.end()) {
    if (known == 0)
      fail(fmt::format("reshape: -1 could be anything in {}, as an extent is 0", to_string(asked)));
    *unknown = have / known;
  }
  if (element_count(shape) != have) {
    fail(fmt::format("cannot reshape {} to {}: it has {} elements, not {}{}", to_string(from),
                     to_string(asked), have, unknown != shape.end() ? "a multiple of " : "", known));
  }
  const DType dtype = from.dtype;
  return add(ReshapeAttrs{}, {dtype, std::move(shape)}, {x});
}

NodeId ir::Graph::permute(NodeId x, Axes perm) {
  check_id(x);
  const Type& from = type(x);
  check_entries(*this, "permute", "perm", perm.size(), from.rank());
  perm = distinct_axes(*this, perm, from.rank(), "permute");
  Shape shape;
  for (int axis : perm) shape.push_back(from.shape[static_cast<std::size_t>(axis)]);
  const DType dtype = from.dtype;
  return add(PermuteAttrs{std::move(perm)}, {dtype, std::move(shape)}, {x});
}

NodeId ir::Graph::slice(NodeId x, std::vector<std::int64_t> starts, std::vector<std::int64_t> stops,
                        std::vector<std::int64_t> steps) {
  check_id(x);
  const Type& from = type(x);
  if (steps.empty()) steps.assign(from.shape.size(), 1);
  check_entries(*this, "slice", "starts", starts.size(), from.rank());
  check_entries(*this, "slice", "stops", stops.size(), from.rank());
  check_entries(*this, "slice", "steps", steps.size(), from.rank());
  Shape shape;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t extent = from.shape[i];
    const std::int64_t start = starts[i] < 0 ? starts[i] + extent : starts[i];
    const std::int64_t stop = stops[i] < 0 ? stops[i] + extent : stops[i];
    if (start < 0 || stop > extent || start > stop) {
      fail(fmt::format("slice: {}:{} of axis {} does not lie in extent {}", starts[i], stops[i], i, extent));
    }
    if (steps[i] < 1) {
      fail(fmt::format("slice: step {} of axis {} is not positive; flip the axis to go backwards", steps[i],
                       i));
    }
    starts[i] = start;
    shape.push_back((stop - start) / steps[i] + ((stop - start) % steps[i] != 0 ? 1 : 0));
  }
  const DType dtype = from.dtype;
  return add(SliceAttrs{std::move(starts), std::move(steps)}, {dtype, std::move(shape)}, {x});
}

NodeId ir::Graph::flip(NodeId x, Axes axes) {
  check_id(x);
  Type result = type(x);
  return add(FlipAttrs{normalize_axes(x, axes, "flip")}, std::move(result), {x});
}

NodeId ir::Graph::pad(NodeId x, std::vector<std::int64_t> lo, std::vector<std::int64_t> hi,
                      std::optional<Scalar> value) {
  check_id(x);
  Type result = type(x);
  check_entries(*this, "pad", "lo", lo.size(), result.rank());
  check_entries(*this, "pad", "hi", hi.size(), result.rank());
  if (value && value->dtype != result.dtype) {
    fail(fmt::format("pad: the value is {}, the operand {}", bz::name(value->dtype), to_string(result)));
  }
  for (std::size_t i = 0; i < lo.size(); ++i) {
    if (lo[i] < 0 || hi[i] < 0) {
      fail(
          fmt::format("pad: {} and {} elements on axis {}: neither may be negative; slice to remove elements",
                      lo[i], hi[i], i));
    }
    std::int64_t& extent = result.shape[i];
    if (__builtin_add_overflow(extent, lo[i], &extent) || __builtin_add_overflow(extent, hi[i], &extent)) {
      fail(fmt::format("pad: {} and {} elements on axis {} are too many", lo[i], hi[i], i));
    }
  }
  check_shape(*this, result.shape, "pad");
  return add(PadAttrs{std::move(lo), std::move(hi), value}, std::move(result), {x});
}

NodeId ir::Graph::window(NodeId x, Axes axes, std::vector<std::int64_t> size,
                         std::vector<std::int64_t> stride, std::vector<std::int64_t> dilation) {
  check_id(x);
  Type result = type(x);
  axes = distinct_axes(*this, axes, result.rank(), "window");
  if (axes.empty()) fail("window: axes are empty");
  if (stride.empty()) stride.assign(axes.size(), 1);
  if (dilation.empty()) dilation.assign(axes.size(), 1);
  for (const auto& [list, entries] : {std::pair{"size", size.size()}, std::pair{"stride", stride.size()},
                                      std::pair{"dilation", dilation.size()}}) {
    if (entries != axes.size()) {
      fail(fmt::format("window: {} has {} entries for {} axes", list, entries, axes.size()));
    }
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::int64_t& extent = result.shape[static_cast<std::size_t>(axes[i])];
    if (size[i] < 1 || stride[i] < 1 || dilation[i] < 1) {
      fail(fmt::format("window: size {}, stride {} and dilation {} of axis {} must be positive", size[i],
                       stride[i], dilation[i], axes[i]));
    }
    std::int64_t span = 0;
    if (__builtin_mul_overflow(size[i] - 1, dilation[i], &span) || span >= extent) {
      fail(fmt::format("window: size {} with dilation {} does not fit axis {} of extent {}; pad it first",
                       size[i], dilation[i], axes[i], extent));
    }
    extent = (extent - span - 1) / stride[i] + 1;
    result.shape.push_back(size[i]);
  }
  check_shape(*this, result.shape, "window");
  return add(WindowAttrs{std::move(axes), std::move(size), std::move(stride), std::move(dilation)},
             std::move(result), {x});
}

// ---- reductions ----

NodeId ir::Graph::reduce(Monoid monoid, NodeId x, Axes axes, bool keepdims) {
  if (!info(monoid).user) fail(fmt::format("{} is made by the compiler only", info(monoid).text));
  return reduce(ReduceAttrs{monoid, std::move(axes), keepdims, user_component(monoid), false}, {x});
}

NodeId ir::Graph::reduce(ReduceAttrs attrs, std::vector<NodeId> operands) {
  const std::string_view what = info(attrs.monoid).text;
  if (operands.empty()) fail(fmt::format("{} needs an operand", what));
  for (NodeId x : operands) {
    check_id(x);
    if (type(x).shape != type(operands[0]).shape) {
      fail(fmt::format("{} needs operands of one shape, got {} and {}", what, to_string(type(operands[0])),
                       to_string(type(x))));
    }
  }
  const DType dtype = reduction_dtype(*this, attrs, operands);
  attrs.axes = normalize_axes(operands[0], attrs.axes, what);
  const Type& from = type(operands[0]);
  Shape shape;
  auto next = attrs.axes.begin();
  for (int axis = 0; axis < from.rank(); ++axis) {
    const std::int64_t extent = from.shape[static_cast<std::size_t>(axis)];
    const bool reduced = next != attrs.axes.end() && *next == axis;
    if (reduced) ++next;
    if (reduced && extent == 0 && !attrs.merge && needs_elements(attrs.monoid)) {
      fail(fmt::format("{}: axis {} of {} has extent 0, and {} of no elements is not defined", what, axis,
                       to_string(from), what));
    }
    if (!reduced || attrs.keepdims) shape.push_back(reduced ? 1 : extent);
  }
  return add(std::move(attrs), {dtype, std::move(shape)}, std::move(operands));
}

void ir::Graph::output(std::string name, NodeId node) {
  check_id(node);
  if (!is_identifier(name)) fail(fmt::format("output name \"{}\" is not an identifier", name));
  if (!output_names_.insert(name).second) fail(fmt::format("there are two outputs named \"{}\"", name));
  outputs_.push_back({std::move(name), node});
}

// ---- helpers ----

void ir::Graph::broadcast_together(std::span<NodeId> nodes, std::string_view what) {
  std::size_t rank = 0;
  for (NodeId x : nodes) {
    check_id(x);
    rank = std::max(rank, type(x).shape.size());
  }
  Shape shape(rank, 1);
  for (std::size_t from_end = rank; from_end-- > 0;) {
    std::int64_t& extent = shape[rank - 1 - from_end];
    for (NodeId x : nodes) {
      const Shape& s = type(x).shape;
      if (from_end >= s.size()) continue;
      const std::int64_t e = s[s.size() - 1 - from_end];
      if (e == 1 || e == extent) continue;
      if (extent != 1) fail_broadcast(*this, nodes, what, from_end, extent, e);
      extent = e;
    }
  }
  for (NodeId& x : nodes) x = broadcast_to(x, shape);
}

Axes ir::Graph::normalize_axes(NodeId x, const Axes& axes, std::string_view what) const {
  check_id(x);
  Axes out = distinct_axes(*this, axes, type(x).rank(), what);
  if (axes.empty()) {
    out.resize(type(x).shape.size());
    std::iota(out.begin(), out.end(), 0);
  }
  std::sort(out.begin(), out.end());
  return out;
}

ir::Graph::ScopeGuard ir::Graph::scope(std::string_view composite) {
  const std::int32_t previous = scope_;
  const std::string& outer = scopes_[static_cast<std::size_t>(previous)];
  const std::string stem = outer.empty() ? std::string(composite) : fmt::format("{}/{}", outer, composite);
  std::size_t number = scopes_.size();
  while (scope_ids_.contains(fmt::format("{}.{}", stem, number))) ++number;
  scope_ = intern_scope(fmt::format("{}.{}", stem, number));
  return ScopeGuard(*this, previous);
}

std::int32_t ir::Graph::intern_scope(std::string_view label) {
  if (label.empty()) return 0;
  const auto [it, fresh] =
      scope_ids_.try_emplace(std::string(label), static_cast<std::int32_t>(scopes_.size()));
  if (fresh) scopes_.emplace_back(label);
  return it->second;
}

NodeId ir::Graph::copy(const ir::Graph& from, NodeId id, std::vector<NodeId> operands) {
  from.check_id(id);
  for (NodeId x : operands) check_id(x);
  Node node = from.node(id);
  node.operands = std::move(operands);
  node.scope = intern_scope(from.scopes()[static_cast<std::size_t>(node.scope)]);
  if (const auto* attrs = node.as<InputAttrs>()) {
    check(input_names_.insert(attrs->name).second, "an input was copied twice");
    inputs_.push_back(size());
  }
  nodes_.push_back(std::move(node));
  return size() - 1;
}

bool same(const ir::Graph& a, const ir::Graph& b) {
  const auto same_output = [](const Output& x, const Output& y) {
    return x.name == y.name && x.node == y.node;
  };
  if (a.size() != b.size() || a.inputs() != b.inputs()) return false;
  if (!std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end(),
                  same_output)) {
    return false;
  }
  for (NodeId id = 0; id < a.size(); ++id) {
    const Node& x = a.node(id);
    const Node& y = b.node(id);
    if (!(x.attrs == y.attrs) || !(x.type == y.type) || x.operands != y.operands || x.name != y.name ||
        a.scopes()[static_cast<std::size_t>(x.scope)] != b.scopes()[static_cast<std::size_t>(y.scope)]) {
      return false;
    }
  }
  return true;
}

}  // namespace bz

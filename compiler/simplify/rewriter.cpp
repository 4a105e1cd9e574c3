#include "compiler/simplify/rewriter.h"

#include <algorithm>
#include <functional>

#include "compiler/simplify/dead_code.h"
#include "compiler/simplify/rules.h"

namespace bz {
namespace {

// ---- hashing: equal drafts have equal hashes
// ------------------------------------------------------------------------

class Hasher {
 public:
  template <class T>
  void add(const T& value) {
    state_ = (state_ ^ std::hash<T>()(value)) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 29;
  }
  template <class T>
  void add_list(const std::vector<T>& values) {
    add(values.size());
    for (const T& v : values) add(v);
  }
  void add_scalar(const Scalar& s) {
    add(static_cast<int>(s.dtype));
    add(s.f == s.f ? s.f : 0.0);
    add(s.i);
  }
  std::size_t value() const { return state_; }

 private:
  std::size_t state_ = 0;
};

struct HashAttrs {
  Hasher& h;
  void operator()(const InputAttrs& a) const { h.add(a.name); }
  void operator()(const ConstantAttrs& a) const { h.add_scalar(a.value); }
  void operator()(const IotaAttrs& a) const { h.add(a.axis); }
  void operator()(const MapAttrs& a) const { h.add(static_cast<int>(a.op)); }
  void operator()(const BroadcastAttrs& a) const { h.add_list(a.dims); }
  void operator()(const ReshapeAttrs&) const {}
  void operator()(const PermuteAttrs& a) const { h.add_list(a.perm); }
  void operator()(const SliceAttrs& a) const {
    h.add_list(a.starts);
    h.add_list(a.steps);
  }
  void operator()(const FlipAttrs& a) const { h.add_list(a.axes); }
  void operator()(const PadAttrs& a) const {
    h.add_list(a.lo);
    h.add_list(a.hi);
    if (a.value) h.add_scalar(*a.value);
  }
  void operator()(const WindowAttrs& a) const {
    h.add_list(a.axes);
    h.add_list(a.size);
    h.add_list(a.stride);
    h.add_list(a.dilation);
  }
  void operator()(const ReduceAttrs& a) const {
    h.add(static_cast<int>(a.monoid));
    h.add_list(a.axes);
    h.add(a.component * 4 + a.keepdims * 2 + a.merge);
  }
};

std::size_t hash(const Draft& d) {
  Hasher h;
  h.add(d.attrs.index());
  std::visit(HashAttrs{h}, d.attrs);
  h.add(static_cast<int>(d.type.dtype));
  h.add_list(d.type.shape);
  h.add_list(d.operands);
  return h.value();
}

// ---- adding a draft to a graph, through the function that checks it
// ---------------------------------------------------

struct AddNode {
  ir::Graph& g;
  const Draft& d;

  NodeId operator()(const InputAttrs& a) const { return g.input(a.name, d.type); }
  NodeId operator()(const ConstantAttrs& a) const { return g.constant(a.value, d.type.shape); }
  NodeId operator()(const IotaAttrs& a) const { return g.iota(d.type.dtype, d.type.shape, a.axis); }
  NodeId operator()(const MapAttrs& a) const { return g.map(a.op, d.operands, d.type.dtype); }
  NodeId operator()(const BroadcastAttrs& a) const {
    return g.broadcast(d.operands[0], d.type.shape, a.dims);
  }
  NodeId operator()(const ReshapeAttrs&) const { return g.reshape(d.operands[0], d.type.shape); }
  NodeId operator()(const PermuteAttrs& a) const { return g.permute(d.operands[0], a.perm); }
  NodeId operator()(const SliceAttrs& a) const {
    std::vector<std::int64_t> stops;
    for (std::size_t i = 0; i < a.starts.size(); ++i) {
      std::int64_t n = d.type.shape[i];
      stops.push_back(a.starts[i] + (n > 0 ? (n - 1) * a.steps[i] + 1 : 0));
    }
    return g.slice(d.operands[0], a.starts, std::move(stops), a.steps);
  }
  NodeId operator()(const FlipAttrs& a) const { return g.flip(d.operands[0], a.axes); }
  NodeId operator()(const PadAttrs& a) const { return g.pad(d.operands[0], a.lo, a.hi, a.value); }
  NodeId operator()(const WindowAttrs& a) const {
    return g.window(d.operands[0], a.axes, a.size, a.stride, a.dilation);
  }
  NodeId operator()(const ReduceAttrs& a) const { return g.reduce(a, d.operands); }
};

// Maps whose result is one of their operands, up to sign, or a small integer: never in need of rounding.
bool picks_or_rounds(ScalarOp op) {
  static constexpr ScalarOp kOps[] = {ScalarOp::neg,    ScalarOp::abs,   ScalarOp::max,  ScalarOp::min,
                                      ScalarOp::select, ScalarOp::clamp, ScalarOp::sign, ScalarOp::floor,
                                      ScalarOp::ceil,   ScalarOp::round, ScalarOp::trunc};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

}  // namespace

Rewriter::Rewriter(const ir::Graph& from)
    : from_(from), out_(from.name()), moved_(static_cast<std::size_t>(from.size()), kNoNode) {}

NodeId Rewriter::emit(Draft draft) {
  for (const Rule& rule : rules()) {
    if (std::optional<NodeId> result = rule.apply(*this, draft)) return *result;
  }
  return add(draft);
}

NodeId Rewriter::add(const Draft& draft) {
  std::size_t key = hash(draft);
  auto [begin, end] = known_.equal_range(key);
  for (auto it = begin; it != end; ++it) {
    const Node& n = out_.node(it->second);
    if (n.attrs == draft.attrs && n.type == draft.type && n.operands == draft.operands) return it->second;
  }
  NodeId id = std::visit(AddNode{out_, draft}, draft.attrs);
  check(out_.type(id) == draft.type, "simplify drafted a node of another type");
  rounded_.push_back(compute_rounded(draft));
  ranges_.push_back(compute_range(draft));
  known_.emplace(key, id);
  return id;
}

Range Rewriter::compute_range(const Draft& draft) const {
  std::vector<Range> operands;
  std::vector<DType> dtypes;
  for (NodeId x : draft.operands) {
    operands.push_back(range(x));
    dtypes.push_back(type(x).dtype);
  }
  return range_of(draft.attrs, draft.type.dtype, operands, dtypes);
}

bool Rewriter::compute_rounded(const Draft& draft) const {
  if (compute_dtype(draft.type.dtype) == draft.type.dtype) return true;
  if (std::holds_alternative<InputAttrs>(draft.attrs) || std::holds_alternative<ConstantAttrs>(draft.attrs))
    return true;
  if (std::holds_alternative<IotaAttrs>(draft.attrs)) return false;
  if (const MapAttrs* map = std::get_if<MapAttrs>(&draft.attrs)) {
    if (map->op == ScalarOp::cast) return true;
    if (!picks_or_rounds(map->op)) return false;
  } else if (const ReduceAttrs* reduce = std::get_if<ReduceAttrs>(&draft.attrs)) {
    if (reduce->monoid != Monoid::max && reduce->monoid != Monoid::min) return false;
  }
  return std::all_of(draft.operands.begin(), draft.operands.end(), [&](NodeId x) { return is_rounded(x); });
}

NodeId Rewriter::map(ScalarOp op, std::vector<NodeId> operands) {
  std::vector<DType> dtypes;
  for (NodeId x : operands) dtypes.push_back(type(x).dtype);
  std::string why;
  std::optional<DType> dtype = infer_dtype(op, dtypes, DType::f32, &why);
  if (!dtype) throw InternalError(why);
  Shape shape = type(operands[0]).shape;
  return emit({MapAttrs{op}, {*dtype, std::move(shape)}, std::move(operands)});
}

NodeId Rewriter::constant(const Scalar& value, const Shape& shape) {
  return emit({ConstantAttrs{value}, {value.dtype, shape}, {}});
}

NodeId Rewriter::broadcast(NodeId x, const Shape& shape, Axes dims) {
  return emit({BroadcastAttrs{std::move(dims)}, {type(x).dtype, shape}, {x}});
}

NodeId Rewriter::reshape(NodeId x, const Shape& shape) {
  return emit({ReshapeAttrs{}, {type(x).dtype, shape}, {x}});
}

NodeId Rewriter::reduce(ReduceAttrs attrs, DType dtype, std::vector<NodeId> operands) {
  const Shape& from = type(operands[0]).shape;
  Shape shape;
  for (int axis = 0; axis < static_cast<int>(from.size()); ++axis) {
    if (!std::binary_search(attrs.axes.begin(), attrs.axes.end(), axis)) {
      shape.push_back(from[static_cast<std::size_t>(axis)]);
    }
  }
  return emit({std::move(attrs), {dtype, std::move(shape)}, std::move(operands)});
}

const Scalar* Rewriter::constant_value(NodeId id) const {
  const ConstantAttrs* constant = out_.node(id).as<ConstantAttrs>();
  return constant ? &constant->value : nullptr;
}

const std::vector<NodeId>* Rewriter::operands_of(NodeId id, ScalarOp op) const {
  const MapAttrs* map = out_.node(id).as<MapAttrs>();
  return map && map->op == op ? &out_.node(id).operands : nullptr;
}

void Rewriter::begin(NodeId id) {
  const Node& n = from_.node(id);
  out_.set_location(n.loc);
  out_.set_scope(out_.intern_scope(from_.scopes()[static_cast<std::size_t>(n.scope)]));
}

NodeId Rewriter::copy(NodeId id) {
  begin(id);
  const Node& n = from_.node(id);
  Draft draft{n.attrs, n.type, n.operands};
  for (NodeId& x : draft.operands) x = moved(x);
  replace(id, emit(std::move(draft)));
  return moved(id);
}

void Rewriter::replace(NodeId id, NodeId result) {
  moved_[static_cast<std::size_t>(id)] = result;
  if (out_.node(result).name.empty()) out_.set_node_name(result, from_.node(id).name);
}

ir::Graph Rewriter::finish() {
  for (const Output& o : from_.outputs()) out_.output(o.name, moved(o.node));
  return drop_dead_code(out_);
}

}  // namespace bz

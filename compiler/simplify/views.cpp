// Views of views, views that move nothing, and maps of views.
#include <algorithm>
#include <numeric>

#include "compiler/simplify/rules.h"
#include "compiler/simplify/shapes.h"

namespace bz {

Axes wide_axes(const Shape& shape) {
  Axes axes;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) axes.push_back(static_cast<int>(i));
  }
  return axes;
}

Shape squeezed(const Shape& shape) {
  Shape out;
  for (std::int64_t extent : shape) {
    if (extent != 1) out.push_back(extent);
  }
  return out;
}

namespace {

// Applies the rules of one kind of view; an own operator for every kind that has rules.
struct Compose {
  Rewriter& rw;
  const Draft& draft;

  NodeId x() const { return draft.operands[0]; }
  const Node& operand() const { return rw.graph().node(x()); }
  const Shape& from() const { return operand().type.shape; }
  const Shape& to() const { return draft.type.shape; }
  template <class T>
  const T* inner() const {
    return operand().as<T>();
  }
  NodeId inner_operand() const { return operand().operands[0]; }

  using Result = std::optional<NodeId>;

  Result operator()(const BroadcastAttrs& a) const {
    if (element_count(from()) == element_count(to())) return rw.reshape(x(), to());
    if (const BroadcastAttrs* b = inner<BroadcastAttrs>()) {
      Axes dims;
      for (int d : b->dims) dims.push_back(a.dims[static_cast<std::size_t>(d)]);
      return rw.broadcast(inner_operand(), to(), std::move(dims));
    }
    Axes wide = wide_axes(from());
    if (wide.size() == from().size()) return std::nullopt;
    Axes dims;
    for (int axis : wide) dims.push_back(a.dims[static_cast<std::size_t>(axis)]);
    return rw.broadcast(rw.reshape(x(), squeezed(from())), to(), std::move(dims));
  }

  Result operator()(const ReshapeAttrs&) const {
    if (from() == to()) return x();
    if (inner<ReshapeAttrs>()) return rw.reshape(inner_operand(), to());
    // A broadcast has the added axes at once.
    const BroadcastAttrs* b = inner<BroadcastAttrs>();
    if (!b || squeezed(from()) != squeezed(to())) return std::nullopt;
    Axes before = wide_axes(from()), after = wide_axes(to()), dims;
    for (int d : b->dims) {
      auto place = std::lower_bound(before.begin(), before.end(), d) - before.begin();
      dims.push_back(after[static_cast<std::size_t>(place)]);
    }
    return rw.broadcast(inner_operand(), to(), std::move(dims));
  }

  Result operator()(const PermuteAttrs& a) const {
    Axes order;
    for (int axis : a.perm) {
      if (from()[static_cast<std::size_t>(axis)] != 1) order.push_back(axis);
    }
    if (std::is_sorted(order.begin(), order.end())) return rw.reshape(x(), to());
    if (const PermuteAttrs* p = inner<PermuteAttrs>()) {
      Axes perm;
      for (int axis : a.perm) perm.push_back(p->perm[static_cast<std::size_t>(axis)]);
      return rw.emit({PermuteAttrs{std::move(perm)}, draft.type, {inner_operand()}});
    }
    if (const BroadcastAttrs* b = inner<BroadcastAttrs>()) {
      Axes dims;
      for (int d : b->dims)
        dims.push_back(static_cast<int>(std::find(a.perm.begin(), a.perm.end(), d) - a.perm.begin()));
      if (std::is_sorted(dims.begin(), dims.end()))
        return rw.broadcast(inner_operand(), to(), std::move(dims));
    }
    return std::nullopt;
  }

  Result operator()(const SliceAttrs& a) const {
    if (from() == to()) return x();
    SliceAttrs slice = a;
    if (const SliceAttrs* s = inner<SliceAttrs>()) {
      for (std::size_t i = 0; i < slice.starts.size(); ++i) {
        slice.starts[i] = s->starts[i] + a.starts[i] * s->steps[i];
        slice.steps[i] = s->steps[i] * a.steps[i];
      }
      return rw.emit({std::move(slice), draft.type, {inner_operand()}});
    }
    for (std::size_t i = 0; i < slice.starts.size(); ++i) {
      if (to()[i] <= 1) slice.steps[i] = 1;
      if (to()[i] == 0) slice.starts[i] = 0;
    }
    if (slice == a) return std::nullopt;
    return rw.emit({std::move(slice), draft.type, {x()}});
  }

  Result operator()(const FlipAttrs& a) const {
    Axes axes;
    for (int axis : a.axes) {
      if (to()[static_cast<std::size_t>(axis)] > 1) axes.push_back(axis);
    }
    NodeId operand = x();
    if (const FlipAttrs* f = inner<FlipAttrs>()) {
      Axes both;
      std::set_symmetric_difference(axes.begin(), axes.end(), f->axes.begin(), f->axes.end(),
                                    std::back_inserter(both));
      axes = std::move(both);
      operand = inner_operand();
    }
    if (axes.empty()) return operand;
    if (operand == x() && axes == a.axes) return std::nullopt;
    return rw.emit({FlipAttrs{std::move(axes)}, draft.type, {operand}});
  }

  Result operator()(const PadAttrs&) const { return from() == to() ? Result(x()) : std::nullopt; }

  template <class T>
  Result operator()(const T&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<NodeId> compose_views(Rewriter& rw, const Draft& draft) {
  return std::visit(Compose{rw, draft}, draft.attrs);
}

std::optional<NodeId> map_before_view(Rewriter& rw, const Draft& draft) {
  if (!std::holds_alternative<MapAttrs>(draft.attrs)) return std::nullopt;
  NodeId first = kNoNode;
  for (NodeId x : draft.operands) {
    if (rw.constant_value(x)) continue;
    const Node& n = rw.graph().node(x);
    if (!n.as<BroadcastAttrs>() && !n.as<ReshapeAttrs>()) return std::nullopt;
    if (first == kNoNode) first = x;
    const Node& f = rw.graph().node(first);
    bool alike = n.attrs == f.attrs && rw.type(n.operands[0]).shape == rw.type(f.operands[0]).shape;
    if (!alike) return std::nullopt;
  }
  if (first == kNoNode) return std::nullopt;

  Draft view{rw.graph().node(first).attrs, draft.type, {}};
  Draft inside = draft;
  inside.type.shape = rw.type(rw.graph().node(first).operands[0]).shape;
  for (NodeId& x : inside.operands) {
    const Scalar* value = rw.constant_value(x);
    x = value ? rw.constant(*value, inside.type.shape) : rw.graph().node(x).operands[0];
  }
  view.operands = {rw.emit(std::move(inside))};
  return rw.emit(std::move(view));
}

}  // namespace bz

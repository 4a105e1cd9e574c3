#include "compiler/split/split.h"

#include <algorithm>
#include <map>

#include "compiler/split/cluster_rows.h"

namespace bz::compiler {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// How many parts, and along which of the reduced axes; 1 part: leave it.
struct Plan {
  int axis = -1;
  std::int64_t parts = 1, length = 0;
};

Plan plan_for(const ir::Graph& g, NodeId id, const ReduceAttrs& attrs, const Target& target,
              ClusterRows& cluster_rows) {
  const Node& node = g.node(id);
  const Shape& shape = g.type(node.operands[0]).shape;
  const std::int64_t results = node.type.elements();
  if (attrs.merge || results == 0) return {};
  Plan p;
  std::int64_t size = 1;
  for (const int a : attrs.axes) {
    const std::int64_t extent = shape[static_cast<std::size_t>(a)];
    size *= extent;
    if (p.axis < 0 || extent > shape[static_cast<std::size_t>(p.axis)]) p.axis = a;
  }
  if (p.axis < 0) return {};
  const bool rows = attrs.axes.back() == static_cast<int>(shape.size()) - 1;
  const std::int64_t sms = target.multiprocessors;
  std::int64_t wanted;
  if (rows) {
    // A block or a cluster a row. A block holds 48 Ki words; a part should be worth a block's start, and there should be more of them
    // where each has much, so that all multiprocessors are done at the same time: the sum of 2^30 f32 took 0.947 ms in 1024 parts and
    // 0.940 in 8192 (H200, 2026-11).
    constexpr std::int64_t kResident = 48 << 10, kLeastPart = 4096, kMuch = 128 << 10;
    if (results >= sms || size <= kResident || cluster_rows.take(id, size, kResident)) return {};
    wanted = std::max(std::min(ceil_div(4 * sms, results), size / kLeastPart),
                      std::min(ceil_div(32 * sms, results), size / kMuch));
  } else {
    // Threads along the columns, at most 32 along the reduced axis.
    constexpr std::int64_t kLeastPart = 128;
    if (results * 32 >= sms * 512 || size < 32 * kLeastPart) return {};
    wanted = std::min(ceil_div(sms * 1024, results * 8), size / kLeastPart);
  }
  const std::int64_t extent = shape[static_cast<std::size_t>(p.axis)];
  wanted = std::min(wanted, extent);
  if (wanted < 2) return {};
  for (std::int64_t n = wanted; n < 2 * wanted && n <= extent; ++n) {
    if (extent % n == 0) return {p.axis, n, extent / n};
  }
  const std::int64_t length = ceil_div(extent, wanted);
  return {p.axis, ceil_div(extent, length), length};
}

class Splitter {
 public:
  Splitter(const ir::Graph& from, const Target& target)
      : from_(from), target_(target), cluster_rows_(from, target), to_(from.name()) {}

  ir::Graph run() {
    for (NodeId id = 0; id < from_.size(); ++id) map_.push_back(rebuild(id));
    for (const Output& o : from_.outputs()) to_.output(o.name, mapped(o.node));
    return std::move(to_);
  }

 private:
  NodeId mapped(NodeId id) const { return map_[static_cast<std::size_t>(id)]; }

  NodeId rebuild(NodeId id) {
    const Node& node = from_.node(id);
    std::vector<NodeId> operands;
    for (const NodeId o : node.operands) operands.push_back(mapped(o));
    const auto* attrs = node.as<ReduceAttrs>();
    const Plan p = attrs == nullptr ? Plan{} : plan_for(from_, id, *attrs, target_, cluster_rows_);
    if (p.parts == 1) return to_.copy(from_, id, std::move(operands));
    to_.set_location(node.loc);
    to_.set_scope(to_.intern_scope(from_.scopes()[static_cast<std::size_t>(node.scope)]));
    const NodeId result = split(*attrs, p, operands);
    to_.set_scope(0);
    return result;
  }

  // Operand with the axis in two: [.., parts, length, ..].
  NodeId in_parts(NodeId x, const Plan& p) {
    Shape shape = to_.type(x).shape;
    const auto axis = static_cast<std::size_t>(p.axis);
    if (const std::int64_t missing = p.parts * p.length - shape[axis]; missing > 0) {
      std::vector<std::int64_t> lo(shape.size(), 0), hi(shape.size(), 0);
      hi[axis] = missing;
      x = to_.pad(x, lo, hi, std::nullopt);
    }
    shape[axis] = p.parts;
    shape.insert(shape.begin() + p.axis + 1, p.length);
    return to_.reshape(x, std::move(shape));
  }

  NodeId split(const ReduceAttrs& attrs, const Plan& p, const std::vector<NodeId>& operands) {
    std::vector<NodeId>& partial = partials_[{attrs.monoid, attrs.axes, operands}];
    if (partial.empty()) {
      std::vector<NodeId> parts;
      for (const NodeId o : operands) parts.push_back(in_parts(o, p));
      ReduceAttrs first = attrs;
      first.keepdims = false;
      for (int& a : first.axes) a += a >= p.axis ? 1 : 0;
      const int components = components_of(
          info(attrs.monoid), inputs_of(info(attrs.monoid), static_cast<int>(operands.size()), false));
      for (first.component = 0; first.component < components; ++first.component) {
        partial.push_back(to_.reduce(first, parts));
      }
    }
    // The axis of the parts, among those that are left.
    ReduceAttrs second = attrs;
    second.keepdims = false;
    second.merge = true;
    second.axes = {p.axis - static_cast<int>(std::count_if(attrs.axes.begin(), attrs.axes.end(),
                                                           [&](int a) { return a < p.axis; }))};
    const NodeId merged = to_.reduce(second, partial);
    if (!attrs.keepdims) return merged;
    Shape shape = to_.type(operands[0]).shape;
    for (const int a : attrs.axes) shape[static_cast<std::size_t>(a)] = 1;
    return to_.reshape(merged, std::move(shape));
  }

  const ir::Graph& from_;
  const Target& target_;
  ClusterRows cluster_rows_;
  ir::Graph to_;
  std::vector<NodeId> map_;
  std::map<std::tuple<Monoid, Axes, std::vector<NodeId>>, std::vector<NodeId>> partials_;
};

}  // namespace

ir::Graph split(const ir::Graph& graph, const Target& target) { return Splitter(graph, target).run(); }

}  // namespace bz::compiler

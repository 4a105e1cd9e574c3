#include "random_graph.h"

#include <algorithm>
#include <limits>

#include "ir/composites.h"

namespace bz::end_to_end {
namespace {

constexpr std::int64_t kMostElements = 3000;

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : dice_(seed), g_("random_" + std::to_string(seed)) {}

  ir::Graph build() {
    const std::int64_t inputs = dice_.between(1, 3);
    for (std::int64_t k = 0; k < inputs; ++k) add(g_.input("x" + std::to_string(k), {dtype(), shape()}));
    const std::int64_t steps = dice_.one_in(8) ? dice_.between(17, 50) : dice_.between(3, 16);
    for (std::int64_t k = 0; k < steps; ++k) {
      try {
        step();
      } catch (const Error&) {  // operands that do not fit: another step
      }
    }
    g_.output("y0", pool_.back());
    const std::int64_t more = dice_.below(4);
    for (std::int64_t k = 0; k < more; ++k) g_.output("y" + std::to_string(k + 1), any());
    return std::move(g_);
  }

 private:
  void add(NodeId id) {
    if (g_.type(id).elements() <= kMostElements) pool_.push_back(id);
  }

  DType dtype() {
    if (dice_.one_in(2)) return DType::f32;
    return dice_.pick(kAllDTypes);
  }

  Shape shape() {
    static constexpr std::int64_t kExtents[] = {1,  2,  3,  4,  5,  7,  8,  9,   13,  15,  16,
                                                17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129};
    static constexpr std::int64_t kRows[] = {255,  256,  257,  509,  511,  512,  513,
                                             1021, 1023, 1024, 1025, 2047, 2048, 2049};
    // Rows that take more than a warp.
    if (dice_.one_in(8)) return {dice_.one_in(2) ? dice_.pick(kRows) : dice_.between(200, 2100)};
    if (dice_.one_in(16)) return {dice_.between(1, 5), dice_.pick(kRows) / 4};
    Shape s;
    std::int64_t elements = 1;
    for (std::int64_t rank = dice_.between(0, 4); rank > 0; --rank) {
      std::int64_t extent = dice_.one_in(60) ? 0 : dice_.pick(kExtents);
      if (elements * extent > kMostElements / 2) extent = 1;
      elements *= extent;
      s.push_back(extent);
    }
    return s;
  }

  // Prefers recent nodes, so that graphs grow deep, and takes old ones, so that they share.
  NodeId any() {
    if (dice_.one_in(2)) return dice_.pick(pool_);
    const std::int64_t last = static_cast<std::int64_t>(pool_.size()) - 1;
    return pool_[static_cast<std::size_t>(last - dice_.below(std::min<std::int64_t>(last + 1, 3)))];
  }
  template <class Fits>
  NodeId any_that(const Fits& fits) {
    for (int k = 0; k < 12; ++k) {
      if (const NodeId id = any(); fits(g_.type(id))) return id;
    }
    throw Error("no node fits");
  }

  Scalar scalar(DType t) {
    static constexpr double kValues[] = {0, 1, -1, 2, 0.5, -0.25, 3, 0.1, 7};
    static constexpr double kSpecial[] = {-0.0,
                                          std::numeric_limits<double>::infinity(),
                                          -std::numeric_limits<double>::infinity(),
                                          std::numeric_limits<double>::quiet_NaN(),
                                          1e-40,
                                          1e30};
    if (is_float(t) && dice_.one_in(16)) return Scalar::of(t, dice_.pick(kSpecial));
    return t == DType::boolean ? Scalar::of_int(t, dice_.below(2)) : Scalar::of(t, dice_.pick(kValues));
  }

  void step() {
    switch (dice_.below(14)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: return map();
      case 5:
      case 6:
      case 7: return view();
      case 8:
      case 9: return reduction();
      case 10: return relative_to_reduction();
      case 11:
      case 12: return composite();
      default: return leaf_or_cast();
    }
  }

  // A node of the type for an operand beside `x`; a constant when none broadcasts with it.
  NodeId partner(NodeId x, DType t) {
    for (int k = 0; k < 4; ++k) {
      const NodeId y = any();
      if (g_.type(y).dtype != t) continue;
      const Shape &a = g_.type(x).shape, &b = g_.type(y).shape;
      bool fits = true;
      std::int64_t elements = 1;
      for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
        const std::int64_t ea = i < a.size() ? a[a.size() - 1 - i] : 1,
                           eb = i < b.size() ? b[b.size() - 1 - i] : 1;
        fits = fits && (ea == eb || ea == 1 || eb == 1);
        elements *= std::max(ea, eb);
      }
      if (fits && elements <= kMostElements) return y;
    }
    return g_.constant(scalar(t));
  }

  void map() {
    const ScalarOpInfo& row = dice_.pick(scalar_ops());
    if (row.op == ScalarOp::cast) return;
    const NodeId first = any_that([&](const Type& t) { return accepts(row.op, t.dtype); });
    NodeId x = first;
    const bool positive = row.op == ScalarOp::log || row.op == ScalarOp::log2 || row.op == ScalarOp::sqrt ||
                          row.op == ScalarOp::rsqrt || row.op == ScalarOp::pow;
    if (positive && !dice_.one_in(5)) x = g_.map(ScalarOp::abs, {x});
    std::vector<NodeId> operands = {x};
    while (static_cast<int>(operands.size()) < row.arity - (row.op == ScalarOp::select ? 1 : 0)) {
      operands.push_back(partner(x, g_.type(x).dtype));
    }
    if (row.op == ScalarOp::select) operands.insert(operands.begin(), partner(x, DType::boolean));
    g_.broadcast_together(operands, row.text);
    add(g_.map(row.op, operands));
  }

  void view() {
    const NodeId x = any();
    const Shape s = g_.type(x).shape;
    const int rank = static_cast<int>(s.size());
    if (rank == 0) return add(g_.broadcast_to(x, {dice_.between(1, 5)}));
    const int axis = static_cast<int>(dice_.below(rank));
    const std::int64_t extent = s[static_cast<std::size_t>(axis)];
    const std::size_t at = static_cast<std::size_t>(axis);
    switch (dice_.below(8)) {
      case 0: {
        Shape to = s;
        to.insert(to.begin(), dice_.between(1, 4));
        if (g_.type(x).elements() * to[0] > kMostElements) return;
        return add(g_.broadcast_to(x, to));
      }
      case 1: {  // split or merge an axis, or all
        Shape to = s;
        if (dice_.one_in(3)) {
          to = {g_.type(x).elements()};
        } else if (axis + 1 < rank && dice_.one_in(2)) {
          to[at] *= to[at + 1];
          to.erase(to.begin() + axis + 1);
        } else {
          for (const std::int64_t by : {2, 3, 4, 5}) {
            if (extent % by != 0 || extent == 0) continue;
            to[at] = by;
            to.insert(to.begin() + axis + 1, extent / by);
            break;
          }
        }
        return add(g_.reshape(x, to));
      }
      case 2: {
        Axes perm;
        for (int k = 0; k < rank; ++k) perm.push_back(k);
        for (int k = rank - 1; k > 0; --k)
          std::swap(perm[static_cast<std::size_t>(k)], perm[static_cast<std::size_t>(dice_.below(k + 1))]);
        return add(g_.permute(x, perm));
      }
      case 3:
      case 4: {
        std::vector<std::int64_t> starts, stops, steps;
        for (const std::int64_t e : s) {
          const std::int64_t start = dice_.one_in(2) ? 0 : dice_.below(e + 1) / 2;
          starts.push_back(start);
          stops.push_back(dice_.one_in(2) ? e : e - (e - start) / 3);
          steps.push_back(dice_.one_in(3) ? dice_.between(1, 3) : 1);
        }
        return add(g_.slice(x, starts, stops, steps));
      }
      case 5: return add(g_.flip(x, {axis}));
      case 6: {
        std::vector<std::int64_t> lo, hi;
        std::int64_t elements = 1;
        for (const std::int64_t e : s) {
          lo.push_back(dice_.one_in(2) ? dice_.below(3) : 0);
          hi.push_back(dice_.one_in(2) ? dice_.below(3) : 0);
          elements *= e + lo.back() + hi.back();
        }
        if (elements > kMostElements) return;
        return add(g_.pad(x, lo, hi, scalar(g_.type(x).dtype)));
      }
      default: {
        const std::int64_t size = dice_.between(1, 4);
        if (g_.type(x).elements() * size > kMostElements) return;
        return add(g_.window(x, {axis}, {size}, {dice_.between(1, 2)}, {dice_.between(1, 2)}));
      }
    }
  }

  void reduction() {
    const MonoidInfo& row = dice_.pick(monoids());
    if (!row.user) return;
    const bool logical = row.kind == Monoid::any || row.kind == Monoid::all;
    const NodeId x =
        any_that([&](const Type& t) { return (t.dtype == DType::boolean) == logical && t.rank() > 0; });
    const Axes axes = some_axes(x);
    // Of many elements it overflows or vanishes.
    if (row.kind == Monoid::prod && g_.type(x).elements() > 60 && !dice_.one_in(8)) return;
    add(g_.reduce(row.kind, x, axes, dice_.one_in(2)));
  }

  Axes some_axes(NodeId x) {
    Axes axes;
    for (int k = 0; k < g_.type(x).rank(); ++k) {
      if (dice_.one_in(2)) axes.push_back(k);
    }
    if (axes.empty()) axes.push_back(static_cast<int>(dice_.below(g_.type(x).rank())));
    return axes;
  }

  // x - max(x), x / sum(x) and their like: phases over one domain, or over several.
  void relative_to_reduction() {
    static constexpr Monoid kMonoids[] = {Monoid::sum, Monoid::sum, Monoid::max, Monoid::min, Monoid::prod};
    static constexpr ScalarOp kOps[] = {ScalarOp::sub, ScalarOp::mul, ScalarOp::add, ScalarOp::div,
                                        ScalarOp::max, ScalarOp::lt,  ScalarOp::eq};
    const NodeId x = any_that([](const Type& t) { return t.dtype != DType::boolean && t.rank() > 0; });
    std::vector<NodeId> both = {x, g_.reduce(dice_.pick(kMonoids), x, some_axes(x), true)};
    const ScalarOp op = dice_.pick(kOps);
    if (!accepts(op, g_.type(x).dtype)) return;
    g_.broadcast_together(both, info(op).text);
    if (dice_.one_in(4)) std::swap(both[0], both[1]);
    add(g_.map(op, both));
  }

  void composite() {
    const CompositeInfo& row = dice_.pick(composites());
    const NodeId x = any_that([](const Type& t) { return is_float(t.dtype) && t.rank() > 0; });
    CompositeAttrs attributes;
    for (const CompositeAttr& a : row.attributes) {
      if (!a.required && dice_.one_in(3)) continue;
      if (a.name == "axes") attributes["axes"] = some_axes(x);
      if (a.name == "keepdims") attributes["keepdims"] = dice_.one_in(2);
      if (a.name == "correction") attributes["correction"] = dice_.below(3);
      if (a.name == "approximate") attributes["approximate"] = std::string("tanh");
      if (a.name == "reduction") attributes["reduction"] = std::string(dice_.one_in(2) ? "sum" : "none");
      if (a.name == "groups") attributes["groups"] = dice_.between(1, 3);
      if (a.name == "eps" && dice_.one_in(4)) attributes["eps"] = 0.5;
    }
    std::vector<NodeId> operands = {x};
    for (std::size_t k = 1; k < row.operands.size(); ++k) {
      if (row.operands[k].optional && dice_.one_in(3)) break;
      operands.push_back(parameter(operand_type(row, row.operands[k].name, g_.type(x), attributes)));
    }
    add(expand_composite(g_, row, operands, attributes));
  }

  Type operand_type(const CompositeInfo& row, std::string_view operand, const Type& x,
                    const CompositeAttrs& attributes) {
    if (operand == "y") return x;
    if (operand == "targets") return {DType::i32, Shape(x.shape.begin(), x.shape.end() - 1)};
    const bool over_axes = row.name == "layer_norm" || row.name == "rms_norm";
    if (!over_axes) return {x.dtype, {x.rank() > 1 ? x.shape[1] : 1}};  // by channel
    const auto given = attributes.find("axes");
    Type t = {x.dtype, {}};
    for (const int axis : given == attributes.end() ? Axes{x.rank() - 1} : std::get<Axes>(given->second)) {
      t.shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    }
    return t;
  }
  NodeId parameter(const Type& t) { return g_.input("p" + std::to_string(g_.inputs().size()), t); }

  void leaf_or_cast() {
    const NodeId x = any();
    const Type type = g_.type(x);
    switch (dice_.below(4)) {
      case 0: return add(g_.constant(scalar(type.dtype), type.shape));
      case 1:
        if (type.rank() == 0) return;
        return add(g_.iota(type.dtype == DType::boolean ? DType::i32 : type.dtype, type.shape,
                           static_cast<int>(dice_.below(type.rank()))));
      default: return add(g_.map(ScalarOp::cast, {x}, dtype()));
    }
  }

  Dice dice_;
  ir::Graph g_;
  std::vector<NodeId> pool_;
};

}  // namespace

ir::Graph random_graph(std::uint64_t seed) { return Generator(seed).build(); }

}  // namespace bz::end_to_end

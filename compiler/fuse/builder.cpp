#include "compiler/fuse/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/fuse/digits.h"
#include "compiler/fuse/view_index.h"
#include "support/error.h"

namespace bz::compiler {

RegionBuilder::RegionBuilder(const ir::Graph& graph, const FuseOptions& options,
                             std::function<bool(NodeId)> stored, const std::map<NodeId, Stored>& forced)
    : graph_(graph), options_(options), stored_(std::move(stored)), forced_(forced) {}

IndexVar RegionBuilder::fresh(std::int64_t extent, std::string name) {
  const IndexVar v{static_cast<std::int32_t>(names_.size()), extent};
  names_.push_back(std::move(name));
  return v;
}

Region RegionBuilder::build(NodeId root) {
  splits_.clear();
  while (!attempt(root, {})) {
  }
  return finish({root});
}

std::optional<Region> RegionBuilder::build(NodeId root, const std::vector<Further>& further) {
  splits_.clear();
  if (!attempt(root, further)) return std::nullopt;  // the indices are over variables that are no more
  std::vector<NodeId> roots = {root};
  for (const Further& f : further) roots.push_back(f.node);
  for (const NodeId r : roots) {
    if (instances_[static_cast<std::size_t>(by_node_[r][0])].expr.source == r) return std::nullopt;
  }
  Region region = finish(roots);
  for (const Root& r : region.roots) {  // every element is stored, and once
    const std::int64_t elements = graph_.type(r.node).elements();
    const std::optional<std::vector<Digit>> digits = digits_of(r.offset);
    std::int64_t reached = 1;
    for (std::size_t i = 0; digits && i < digits->size(); ++i) reached *= (*digits)[i].var.extent;
    if (!digits || reached != elements) return std::nullopt;
    if (region.domains() * (r.varies ? region.domain_size() : 1) != elements) return std::nullopt;
  }
  return region;
}

const std::vector<Index>& RegionBuilder::indices_of(NodeId root) const {
  return instances_[static_cast<std::size_t>(by_node_.at(root)[0])].at;
}

bool RegionBuilder::attempt(NodeId root, const std::vector<Further>& further) {
  vars_.clear();
  var_axis_.clear();
  names_ = {"lane"};
  kept_.clear();
  reduced_.clear();
  bound_ = false;
  restart_ = false;
  instances_.clear();
  by_node_.clear();
  open_ = {};
  sources_.clear();
  results_.clear();
  cuts_.clear();
  roots_ = {root};
  for (const Further& f : further) roots_.insert(f.node);

  const Shape& shape = graph_.type(root).shape;
  std::vector<Index> at;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    // The axis as a product of variables: outer ones from the splits, largest step first.
    std::vector<std::int64_t> steps;
    for (const VarSplit& s : splits_) {
      if (s.axis == static_cast<int>(i)) steps.push_back(s.inner);
    }
    std::sort(steps.rbegin(), steps.rend());
    steps.push_back(1);
    Index e;
    std::int64_t extent = shape[i];
    for (std::size_t part = 0; part < steps.size(); ++part) {
      const std::int64_t step = steps[part];
      const IndexVar v = fresh(
          extent / step,
          fmt::format("i{}{}", i, steps.size() > 1 ? std::string(1, static_cast<char>('a' + part)) : ""));
      if (v.extent != 1) {
        vars_.push_back(v);
        var_axis_.push_back(static_cast<int>(i));
      }
      e = e + Index::var(v) * step;
      extent = step;
    }
    at.push_back(std::move(e));
  }
  kept_ = vars_;
  request(root, at, {}, -1);
  for (const Further& f : further) request(f.node, f.at, {}, -1);
  while (!open_.empty() && !restart_) {
    const int id = open_.top().second;
    open_.pop();
    if (!instances_[static_cast<std::size_t>(id)].done) expand(id);
  }
  return !restart_;
}

int RegionBuilder::request(NodeId node, std::vector<Index> at, std::vector<IndexBound> where, int consumer) {
  std::vector<int>& known = by_node_[node];
  for (const int id : known) {
    Instance& i = instances_[static_cast<std::size_t>(id)];
    if (i.at == at && i.where == where) {
      i.consumers.push_back(consumer);
      return id;
    }
  }
  const int id = static_cast<int>(instances_.size());
  Instance instance{node, std::move(at), std::move(where), {}, {}, false};
  if (consumer >= 0) instance.consumers.push_back(consumer);
  instance.expr.node = node;
  instance.expr.dtype = compute_dtype(graph_.type(node).dtype);
  instances_.push_back(std::move(instance));
  known.push_back(id);
  open_.emplace(node, id);
  return id;
}

void RegionBuilder::become_load(int id, std::optional<CutReason> reason) {
  Instance& i = instances_[static_cast<std::size_t>(id)];
  i.done = true;
  i.expr.kind = Expr::Kind::load;
  i.expr.operands.clear();
  i.expr.source = i.node;
  i.expr.stored = graph_.type(i.node).dtype;
  i.expr.index = linearize(i.at, graph_.type(i.node).shape);
  i.expr.where = i.where;
  sources_.insert(i.node);
  if (reason) {
    const NodeId to =
        i.consumers.empty() ? kNoNode : instances_[static_cast<std::size_t>(i.consumers[0])].node;
    cuts_.push_back({i.node, to, *reason, {}});
  }
}

void RegionBuilder::expand(int id) {
  // Copies: request() may move the instances.
  const NodeId node_id = instances_[static_cast<std::size_t>(id)].node;
  const std::vector<Index> at = instances_[static_cast<std::size_t>(id)].at;
  const std::vector<IndexBound> where = instances_[static_cast<std::size_t>(id)].where;
  const Node& node = graph_.node(node_id);
  Expr& expr = instances_[static_cast<std::size_t>(id)].expr;

  if (node.as<InputAttrs>() != nullptr) return become_load(id, std::nullopt);
  if (const auto* c = node.as<ConstantAttrs>()) {
    expr.kind = Expr::Kind::constant;
    expr.value = Scalar{expr.dtype, c->value.f, c->value.i};
    instances_[static_cast<std::size_t>(id)].done = true;
    return;
  }
  if (const auto* iota = node.as<IotaAttrs>()) {
    expr.kind = Expr::Kind::index;
    expr.index = at[static_cast<std::size_t>(iota->axis)];
    expr.cast = node.type.dtype;
    instances_[static_cast<std::size_t>(id)].done = true;
    return;
  }
  if (!roots_.contains(node_id)) {
    const bool plain =
        std::all_of(at.begin(), at.end(), [](const Index& e) { return e.as_var() >= 0 || e.is_constant(); });
    if (stored_(node_id) && !plain) return become_load(id, CutReason::already_stored);
    if (const auto f = forced_.find(node_id); f != forced_.end()) {
      become_load(id, f->second.reason);
      cuts_.back().detail = f->second.detail;
      return;
    }
    const auto open = static_cast<int>(open_.size());
    if (static_cast<int>(instances_.size()) > options_.operations)
      return become_load(id, CutReason::too_many_operations);
    if (static_cast<int>(sources_.size()) + open > options_.arguments)
      return become_load(id, CutReason::too_many_arguments);
    if (stored_(node_id) && results_.insert(node_id).second &&
        static_cast<int>(results_.size()) > options_.results)
      return become_load(id, CutReason::too_many_arguments);
  }
  switch (node.kind()) {
    case NodeKind::leaf: throw InternalError("a leaf that is no input, constant or iota");
    case NodeKind::map: {
      instances_[static_cast<std::size_t>(id)].done = true;
      const ScalarOp op = node.as<MapAttrs>()->op;
      std::vector<ExprId> operands;
      for (const NodeId o : node.operands) operands.push_back(request(o, at, where, id));
      Expr& e = instances_[static_cast<std::size_t>(id)].expr;
      e.kind = Expr::Kind::map;
      e.op = op;
      e.cast = node.type.dtype;
      e.operands = std::move(operands);
      return;
    }
    case NodeKind::view: return expand_view(id);
    case NodeKind::reduce: return expand_reduce(id);
  }
}

void RegionBuilder::expand_view(int id) {
  const Instance self = instances_[static_cast<std::size_t>(id)];
  const Node& node = graph_.node(self.node);
  const NodeId operand = node.operands[0];
  const Shape& shape = graph_.type(operand).shape;
  instances_[static_cast<std::size_t>(id)].done = true;
  std::vector<Index> in = operand_index(node, shape, self.at);
  if (const auto* pad = node.as<PadAttrs>()) {
    check(pad->value.has_value(), "a pad without a value outside of a reduction");
    const std::vector<IndexBound> bounds = inside(in, shape);
    std::vector<IndexBound> where = self.where;
    add_bounds(where, bounds);
    const bool nothing_inside = element_count(shape) == 0;
    const ExprId value = nothing_inside ? -1 : request(operand, std::move(in), std::move(where), id);
    Expr& e = instances_[static_cast<std::size_t>(id)].expr;
    const Scalar fill{e.dtype, pad->value->f, pad->value->i};
    e.value = fill;
    if (nothing_inside) {
      e.kind = Expr::Kind::constant;
    } else {
      e.kind = Expr::Kind::pad;
      e.where = bounds;
      e.operands = {value};
    }
    return;
  }
  const ExprId value = request(operand, std::move(in), self.where, id);
  // A view is its operand at other indices: an alias, resolved in finish().
  Expr& e = instances_[static_cast<std::size_t>(id)].expr;
  e.kind = Expr::Kind::pad;
  e.where.clear();
  e.operands = {value};
}

std::optional<VarSplit> RegionBuilder::find_split(const std::vector<Index>& at) const {
  for (const Index& e : at) {
    for (const Index::Term& t : e.terms()) {
      if (t.atom->kind != Index::Atom::Kind::div) continue;
      const std::int32_t var = t.atom->argument.as_var();
      for (std::size_t i = 0; i < vars_.size(); ++i) {
        if (vars_[i].id != var || vars_[i].extent % t.atom->divisor != 0) continue;
        // The step of this variable within its axis.
        std::int64_t step = 1;
        for (std::size_t j = i + 1; j < vars_.size() && var_axis_[j] == var_axis_[i]; ++j)
          step *= vars_[j].extent;
        return VarSplit{var_axis_[i], step * t.atom->divisor};
      }
    }
  }
  return std::nullopt;
}

// The first pad without value below `id` through views alone; kNoNode when there is none.
NodeId RegionBuilder::absent_pad(NodeId id) const {
  while (graph_.node(id).kind() == NodeKind::view) {
    const auto* pad = graph_.node(id).as<PadAttrs>();
    if (pad != nullptr && !pad->value) return id;
    id = graph_.node(id).operands[0];
  }
  return kNoNode;
}

// Decides the domain at the first reduction; later ones must fit it.
std::optional<CutReason> RegionBuilder::bind(NodeId id, const std::vector<Index>& at) {
  const Node& node = graph_.node(id);
  const Shape& operand = graph_.type(node.operands[0]).shape;
  std::vector<std::int64_t> extents;
  std::int64_t size = 1;
  for (const int a : node.as<ReduceAttrs>()->axes) {
    const std::int64_t e = operand[static_cast<std::size_t>(a)];
    size *= e;
    if (e != 1) extents.push_back(e);
  }
  const std::int64_t results = node.type.elements();
  std::vector<IndexVar> used, rest;
  for (const IndexVar& v : bound_ ? kept_ : vars_) {
    const bool uses = std::any_of(at.begin(), at.end(), [&](const Index& e) { return e.uses(v.id); });
    (uses ? used : rest).push_back(v);
  }
  if (bound_) {
    if (std::any_of(at.begin(), at.end(), [&](const Index& e) { return uses_any(e, reduced_); })) {
      return CutReason::inside_reduction;
    }
    if (product(reduced_) != size) return CutReason::different_domain;
    if (product(kept_) != results) return CutReason::repeated_reduction;
    return std::nullopt;
  }
  if (product(used) != results || (!rest.empty() && product(rest) != size)) {
    if (const auto s = find_split(at)) {
      splits_.push_back(*s);
      restart_ = true;
      return std::nullopt;
    }
    return product(used) != results ? CutReason::repeated_reduction : CutReason::different_domain;
  }
  bound_ = true;
  kept_ = used;
  if (rest.empty()) {
    for (std::size_t i = 0; i < extents.size(); ++i) rest.push_back(fresh(extents[i], fmt::format("r{}", i)));
  }
  reduced_ = rest;
  return std::nullopt;
}

// The last node after the reduction `id` that still has its few elements and feeds just one consumer.
int RegionBuilder::climb(int id) const {
  for (;;) {
    const Instance& i = instances_[static_cast<std::size_t>(id)];
    if (i.consumers.empty()) return id;
    const int c = i.consumers[0];
    if (!std::all_of(i.consumers.begin(), i.consumers.end(), [&](int other) { return other == c; }))
      return id;
    const Instance& consumer = instances_[static_cast<std::size_t>(c)];
    const Node& node = graph_.node(consumer.node);
    const bool same_elements = node.type.elements() == graph_.type(i.node).elements();
    if (consumer.consumers.empty() || !same_elements || node.kind() == NodeKind::reduce) return id;
    id = c;
  }
}

// Whether a root still needs this instance: not all that asked for it may have become loads since.
bool RegionBuilder::alive(int id) const {
  std::vector<int> work = {id};
  std::set<int> seen;
  while (!work.empty()) {
    const int at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    const Instance& i = instances_[static_cast<std::size_t>(at)];
    if (roots_.contains(i.node)) return true;
    for (const int c : i.consumers) {
      const Instance& consumer = instances_[static_cast<std::size_t>(c)];
      const bool cut = consumer.done && consumer.expr.kind == Expr::Kind::load;
      if (!cut) work.push_back(c);
    }
  }
  return false;
}

void RegionBuilder::expand_reduce(int id) {
  if (!cuts_.empty() && !alive(id)) {
    instances_[static_cast<std::size_t>(id)].done = true;
    return;
  }
  const Instance self = instances_[static_cast<std::size_t>(id)];
  const Node& node = graph_.node(self.node);
  const auto& attrs = *node.as<ReduceAttrs>();
  if (graph_.type(node.operands[0]).elements() == 0) {
    Instance& instance = instances_[static_cast<std::size_t>(id)];
    instance.done = true;
    instance.expr.kind = Expr::Kind::constant;
    const MonoidInfo& monoid = info(attrs.monoid);
    const int inputs = inputs_of(monoid, static_cast<int>(node.operands.size()), attrs.merge);
    instance.expr.value = monoid.identity(graph_.type(node.operands[0]).dtype,
                                          inputs)[static_cast<std::size_t>(attrs.component)];
    return;
  }
  const std::optional<CutReason> no = bind(self.node, self.at);
  if (restart_) return;
  if (no) return become_load(climb(id), no);
  instances_[static_cast<std::size_t>(id)].done = true;

  // Indices of the operands: the kept axes from `at`, the reduced ones from the region's reduced variables.
  const Shape& operand = graph_.type(node.operands[0]).shape;
  Shape reduced_shape, var_shape;
  for (const int a : attrs.axes) reduced_shape.push_back(operand[static_cast<std::size_t>(a)]);
  std::vector<Index> var_at;
  for (const IndexVar& v : reduced_) {
    var_shape.push_back(v.extent);
    var_at.push_back(Index::var(v));
  }
  const std::vector<Index> reduced_at = delinearize(linearize(var_at, var_shape), reduced_shape);
  std::vector<Index> in;
  std::size_t next_kept = 0, next_reduced = 0;
  for (int a = 0; a < static_cast<int>(operand.size()); ++a) {
    if (std::find(attrs.axes.begin(), attrs.axes.end(), a) != attrs.axes.end()) {
      in.push_back(reduced_at[next_reduced++]);
      if (attrs.keepdims) ++next_kept;
    } else {
      in.push_back(self.at[next_kept++]);
    }
  }
  std::vector<ExprId> operands;
  std::vector<IndexBound> present;
  for (const NodeId o : node.operands) {
    NodeId source = o;
    std::vector<Index> source_at = in;
    for (NodeId pad = absent_pad(o); pad != kNoNode; pad = absent_pad(source)) {
      // Through the views down to a pad without value: what that adds does not take part.
      for (bool past = false; !past;) {
        past = source == pad;
        const Node& view = graph_.node(source);
        source = view.operands[0];
        source_at = operand_index(view, graph_.type(source).shape, source_at);
      }
      add_bounds(present, inside(source_at, graph_.type(source).shape));
    }
    // Where the result is used may bound the reduced variables too, under a pad of the broadcast result; the reduction
    // itself runs over all of them.
    std::vector<IndexBound> where = self.where;
    std::erase_if(where, [&](const IndexBound& b) { return uses_any(b.e, reduced_); });
    add_bounds(where, present);
    operands.push_back(request(source, std::move(source_at), std::move(where), id));
  }
  Expr& e = instances_[static_cast<std::size_t>(id)].expr;
  e.kind = Expr::Kind::reduce;
  e.operands = std::move(operands);
  e.component = attrs.component;
  e.where = std::move(present);
}

Region RegionBuilder::finish(const std::vector<NodeId>& roots) {
  // Views are aliases of their operand; what nothing needs any more (above a cut) is left out.
  const auto resolve = [&](int id) {
    for (;;) {
      const Expr& e = instances_[static_cast<std::size_t>(id)].expr;
      if (e.kind != Expr::Kind::pad || !e.where.empty()) return id;
      id = e.operands[0];
    }
  };
  std::vector<int> order;
  std::vector<bool> needed(instances_.size(), false);
  std::vector<int> work;
  for (const NodeId r : roots) work.push_back(resolve(by_node_[r][0]));
  while (!work.empty()) {
    const int id = work.back();
    work.pop_back();
    if (needed[static_cast<std::size_t>(id)]) continue;
    needed[static_cast<std::size_t>(id)] = true;
    order.push_back(id);
    for (ExprId& o : instances_[static_cast<std::size_t>(id)].expr.operands) {
      o = resolve(o);
      work.push_back(o);
    }
  }
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(instances_[static_cast<std::size_t>(a)].node, a) <
           std::pair(instances_[static_cast<std::size_t>(b)].node, b);
  });

  Region region;
  region.fast_math = options_.fast_math;
  region.kept = kept_;
  region.reduced = reduced_;
  region.var_names = names_;
  std::vector<ExprId> place(instances_.size(), -1);
  std::map<NodeId, int> reduction_of;  // by node
  where_is_.clear();
  const auto varies = [&](const Index& e) { return uses_any(e, region.reduced); };
  for (const int id : order) {
    Instance& instance = instances_[static_cast<std::size_t>(id)];
    Expr e = instance.expr;
    e.varies = varies(e.index) ||
               std::any_of(e.where.begin(), e.where.end(), [&](const IndexBound& b) { return varies(b.e); });
    for (ExprId& o : e.operands) {
      o = place[static_cast<std::size_t>(o)];
      e.varies = e.varies || region.exprs[static_cast<std::size_t>(o)].varies;
      e.phase = std::max(e.phase, region.exprs[static_cast<std::size_t>(o)].phase);
    }
    if (e.kind == Expr::Kind::reduce) {
      const auto& attrs = *graph_.node(e.node).as<ReduceAttrs>();
      Reduction r{attrs.monoid, compute_dtype(graph_.type(graph_.node(e.node).operands[0]).dtype),
                  attrs.merge,  e.operands,
                  e.where,      e.phase};
      // Components of one state are nodes of their own with the same operands.
      std::size_t at = 0;
      while (at < region.reductions.size() &&
             (region.reductions[at].monoid != r.monoid || region.reductions[at].merge != r.merge ||
              region.reductions[at].operands != r.operands || region.reductions[at].where != r.where)) {
        ++at;
      }
      if (at == region.reductions.size()) region.reductions.push_back(r);
      e.reduction = static_cast<int>(at);
      e.operands.clear();
      e.where.clear();
      e.varies = false;
      e.phase = r.phase + 1;
    }
    place[static_cast<std::size_t>(id)] = static_cast<ExprId>(region.exprs.size());
    // Under a guard nothing is loaded outside, and the value is that of the node inside alone.
    if (instance.where.empty())
      where_is_.emplace(e.node, std::pair(place[static_cast<std::size_t>(id)], instance.at));
    region.exprs.push_back(std::move(e));
  }
  // Nodes that are views of what is computed here can be stored too.
  for (const auto& [node, ids] : by_node_) {
    const Instance& view = instances_[static_cast<std::size_t>(ids[0])];
    const int target = resolve(ids[0]);
    if (place[static_cast<std::size_t>(target)] >= 0 && view.where.empty())
      where_is_.emplace(node, std::pair(place[static_cast<std::size_t>(target)], view.at));
  }
  for (const NodeId r : roots) {
    const Instance& i = instances_[static_cast<std::size_t>(by_node_[r][0])];
    const ExprId value = place[static_cast<std::size_t>(resolve(by_node_[r][0]))];
    Index offset = linearize(i.at, graph_.type(r).shape);
    const bool several = region.exprs[static_cast<std::size_t>(value)].varies || varies(offset);
    region.roots.push_back({r, value, std::move(offset), graph_.type(r).dtype, several});
  }
  std::erase_if(cuts_,
                [&](const Cut& c) { return place[static_cast<std::size_t>(by_node_[c.from][0])] < 0; });
  return region;
}

std::vector<NodeId> RegionBuilder::computed() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, where] : where_is_) nodes.push_back(node);
  return nodes;
}

bool RegionBuilder::add_root(Region& region, NodeId node) {
  if (std::any_of(region.roots.begin(), region.roots.end(), [&](const Root& r) { return r.node == node; }))
    return false;
  const auto found = where_is_.find(node);
  if (found == where_is_.end() || region.exprs[static_cast<std::size_t>(found->second.first)].source == node)
    return false;
  const auto& [expr, at] = found->second;
  const Expr& e = region.exprs[static_cast<std::size_t>(expr)];
  // Every element of the node is computed, and once: each axis is a variable of its own or constant.
  const Index offset = linearize(at, graph_.type(node).shape);
  const bool several = e.varies || uses_any(offset, region.reduced);
  const std::int64_t visited = region.domains() * (several ? region.domain_size() : 1);
  std::set<std::int32_t> seen;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const std::int32_t v = at[i].as_var();
    if (v < 0 ? !(at[i] == Index(0) && graph_.type(node).shape[i] == 1) : !seen.insert(v).second)
      return false;
  }
  if (visited != graph_.type(node).elements()) return false;
  region.roots.push_back({node, expr, offset, graph_.type(node).dtype, several});
  return true;
}

}  // namespace bz::compiler

#include "compiler/fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/fuse/builder.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

// Other stored nodes of one shape that are tried as further roots of a region.
constexpr int kSiblings = 16;

std::string label(const ir::Graph& g, NodeId id) {
  const std::string& scope = g.scopes()[static_cast<std::size_t>(g.node(id).scope)];
  std::string text = scope.empty() ? g.node(id).op_name() : scope.substr(0, scope.find_first_of("./"));
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const FuseLimits& limits)
      : graph_(graph),
        builder_(graph, limits, [this](NodeId n) { return pending_.contains(n) || owner_.contains(n); }) {}

  Fusion run() {
    for (const Output& o : graph_.outputs()) pending_.insert(o.node);
    while (!pending_.empty()) {
      const NodeId root = *pending_.rbegin();
      pending_.erase(root);
      if (graph_.type(root).elements() > 0) build(root);  // nothing to store otherwise
    }
    assign_storage();
    order();
    return std::move(fusion_);
  }

 private:
  void build(NodeId root) {
    Region region = builder_.build({root});
    std::vector<Cut> cuts = builder_.cuts();
    add_inner_roots(region);
    merge_siblings(root, region, cuts);
    const int id = static_cast<int>(fusion_.regions.size());
    for (const Root& r : region.roots) {
      pending_.erase(r.node);
      if (!is_input(r.node)) owner_[r.node] = id;  // an output that is an input is a copy of it
    }
    for (const NodeId s : region.sources()) {
      if (!is_input(s) && !owner_.contains(s)) pending_.insert(s);
    }
    fusion_.cuts.insert(fusion_.cuts.end(), cuts.begin(), cuts.end());
    region.name = label(graph_, root);
    fusion_.regions.push_back(std::move(region));
  }

  bool is_input(NodeId n) const { return graph_.node(n).as<InputAttrs>() != nullptr; }

  // Values that must be stored and are computed here anyway.
  void add_inner_roots(Region& region) {
    const std::vector<NodeId> candidates(pending_.begin(), pending_.end());
    for (const NodeId n : candidates) {
      if (!builder_.add_root(region, n)) continue;
      if (cyclic(region)) region.roots.pop_back();
    }
  }

  // Other stored nodes of the same shape whose region has the same domain and reads some of the same data.
  void merge_siblings(NodeId root, Region& region, std::vector<Cut>& cuts) {
    std::vector<NodeId> roots = {root};
    std::vector<NodeId> candidates;
    for (auto it = pending_.rbegin();
         it != pending_.rend() && static_cast<int>(candidates.size()) < kSiblings; ++it) {
      const bool stored_here =
          std::any_of(region.roots.begin(), region.roots.end(), [&](const Root& r) { return r.node == *it; });
      if (!stored_here && graph_.type(*it).shape == graph_.type(root).shape) candidates.push_back(*it);
    }
    for (const NodeId n : candidates) {
      const Region alone = builder_.build({n});
      const std::size_t separate_cuts = cuts.size() + builder_.cuts().size();
      if (!same_domain(alone, region) || !share_source(alone, region)) continue;
      std::vector<NodeId> both = roots;
      both.push_back(n);
      Region merged = builder_.build(both);
      std::vector<Cut> merged_cuts = builder_.cuts();
      if (!same_domain(merged, region) || merged_cuts.size() > separate_cuts) continue;
      add_inner_roots(merged);
      if (cyclic(merged)) continue;
      roots = std::move(both);
      region = std::move(merged);
      cuts = std::move(merged_cuts);
    }
  }

  static bool same_domain(const Region& a, const Region& b) {
    return a.domains() == b.domains() && a.domain_size() == b.domain_size();
  }
  static bool share_source(const Region& a, const Region& b) {
    const std::vector<NodeId> x = a.sources(), y = b.sources();
    std::vector<NodeId> both;
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(both));
    return !both.empty();
  }

  // Whether the region would have to wait for one of its own roots.
  bool cyclic(const Region& region) const {
    std::set<NodeId> roots;
    for (const Root& r : region.roots) roots.insert(r.node);
    std::vector<NodeId> work = region.sources();
    std::set<NodeId> seen(work.begin(), work.end());
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      if (roots.contains(n) && !is_input(n)) return true;
      const auto owner = owner_.find(n);
      const std::vector<NodeId> next =
          owner != owner_.end() ? fusion_.regions[static_cast<std::size_t>(owner->second)].sources()
                                : graph_.node(n).operands;
      for (const NodeId m : next) {
        if (seen.insert(m).second) work.push_back(m);
      }
    }
    return false;
  }

  // Inputs and outputs have their own type in memory, temporaries the compute type. An f16 or bf16 output that another
  // region loads is stored twice, rounded for the user and unrounded for the other region.
  void assign_storage() {
    std::set<NodeId> outputs, loaded;
    for (const Output& o : graph_.outputs()) outputs.insert(o.node);
    const auto temporary = [&](NodeId n) {
      const DType t = graph_.type(n).dtype;
      return !is_input(n) && (!outputs.contains(n) || t != compute_dtype(t));
    };
    for (Region& region : fusion_.regions) {
      for (Expr& e : region.exprs) {
        if (e.kind != Expr::Kind::load || !temporary(e.source)) continue;
        e.temporary = true;
        e.stored = e.dtype;
        loaded.insert(e.source);
      }
    }
    for (Region& region : fusion_.regions) {
      const std::vector<Root> roots = region.roots;
      for (std::size_t i = 0; i < roots.size(); ++i) {
        if (!loaded.contains(roots[i].node)) continue;
        Root r = roots[i];
        r.temporary = true;
        r.stored = compute_dtype(r.stored);
        if (outputs.contains(r.node)) {
          region.roots.push_back(r);
        } else {
          region.roots[i] = r;
        }
      }
    }
  }

  // Producers before consumers; among the ready ones, the one with the smallest first root.
  void order() {
    std::vector<Region>& regions = fusion_.regions;
    std::vector<int> waiting(regions.size(), 0);
    std::vector<std::vector<int>> users(regions.size());
    for (std::size_t i = 0; i < regions.size(); ++i) {
      std::set<int> producers;
      for (const NodeId s : regions[i].sources()) {
        if (const auto o = owner_.find(s); o != owner_.end()) producers.insert(o->second);
      }
      waiting[i] = static_cast<int>(producers.size());
      for (const int p : producers) users[static_cast<std::size_t>(p)].push_back(static_cast<int>(i));
    }
    std::set<std::pair<NodeId, int>> ready;
    const auto key = [&](int i) { return std::pair(regions[static_cast<std::size_t>(i)].roots[0].node, i); };
    for (std::size_t i = 0; i < regions.size(); ++i) {
      if (waiting[i] == 0) ready.insert(key(static_cast<int>(i)));
    }
    std::vector<Region> ordered;
    while (!ready.empty()) {
      const int i = ready.begin()->second;
      ready.erase(ready.begin());
      for (const int u : users[static_cast<std::size_t>(i)]) {
        if (--waiting[static_cast<std::size_t>(u)] == 0) ready.insert(key(u));
      }
      ordered.push_back(std::move(regions[static_cast<std::size_t>(i)]));
      ordered.back().name += fmt::format("_{}", ordered.size() - 1);
    }
    check(ordered.size() == waiting.size(), "regions wait for each other");
    regions = std::move(ordered);
    std::reverse(fusion_.cuts.begin(), fusion_.cuts.end());
  }

  const ir::Graph& graph_;
  RegionBuilder builder_;
  Fusion fusion_;
  std::set<NodeId> pending_;     // must be stored, by no region yet
  std::map<NodeId, int> owner_;  // region that stores a node
};

}  // namespace

std::string_view text(CutReason reason) {
  switch (reason) {
    case CutReason::different_domain: return "different_domain";
    case CutReason::inside_reduction: return "inside_reduction";
    case CutReason::repeated_reduction: return "repeated_reduction";
    case CutReason::too_many_operations: return "too_many_operations";
    case CutReason::too_many_arguments: return "too_many_arguments";
    case CutReason::domain_too_large: return "domain_too_large";
    case CutReason::already_stored: return "already_stored";
  }
  return "";
}

Fusion fuse(const ir::Graph& graph, const FuseLimits& limits) { return Fuser(graph, limits).run(); }

}  // namespace bz::compiler

#include "compiler/fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/fuse/builder.h"
#include "compiler/fuse/cost.h"
#include "compiler/fuse/digits.h"
#include "compiler/fuse/recompute.h"
#include "compiler/fuse/transposed.h"
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
  Fuser(const ir::Graph& graph, const FuseOptions& options, const std::map<NodeId, Stored>& forced)
      : graph_(graph),
        builder_(
            graph, options, [this](NodeId n) { return pending_.contains(n) || owner_.contains(n); }, forced) {
  }

  Fusion run() {
    // Consumers before producers, and what lies behind as many reductions side by side: what reads the same data meets.
    for (NodeId n = 0; n < graph_.size(); ++n) {
      int depth = graph_.node(n).as<ReduceAttrs>() != nullptr ? 1 : 0;
      const int own = depth;
      for (const NodeId o : graph_.node(n).operands)
        depth = std::max(depth, own + depth_[static_cast<std::size_t>(o)]);
      depth_.push_back(depth);
    }
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
    Region region = builder_.build(root);
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
    const auto first = static_cast<std::ptrdiff_t>(region.roots.size());
    for (const NodeId n : builder_.computed()) {
      if (pending_.contains(n)) builder_.add_root(region, n);
    }
    const std::set<NodeId> needed = needs(region);
    region.roots.erase(std::remove_if(region.roots.begin() + first, region.roots.end(),
                                      [&](const Root& r) { return needed.contains(r.node); }),
                       region.roots.end());
  }

  // Other stored nodes whose region walks over some of the same data in the same way: both are computed from one read.
  void merge_siblings(NodeId root, Region& region, std::vector<Cut>& cuts) {
    std::vector<NodeId> roots = {root};
    std::vector<NodeId> candidates;
    for (auto it = pending_.rbegin();
         it != pending_.rend() && static_cast<int>(candidates.size()) < kSiblings; ++it) {
      const bool stored_here =
          std::any_of(region.roots.begin(), region.roots.end(), [&](const Root& r) { return r.node == *it; });
      if (!stored_here && graph_.type(*it).elements() > 0) candidates.push_back(*it);
    }
    for (const NodeId n : candidates) {
      const Region alone = builder_.build(n);
      const std::size_t separate_cuts = cuts.size() + builder_.cuts().size();
      if (!share_source(alone, region) && accesses(region, n).empty()) continue;
      std::vector<NodeId> both = roots;
      both.push_back(n);
      std::optional<Region> merged = build_together(both);
      if (!merged || builder_.cuts().size() > separate_cuts) continue;
      std::vector<Cut> merged_cuts = builder_.cuts();
      add_inner_roots(*merged);
      if (cyclic(*merged)) continue;
      roots = std::move(both);
      region = std::move(*merged);
      cuts = std::move(merged_cuts);
    }
  }

  // One region for all of them, over the axes of the largest; the indices of each other follow from what both load.
  std::optional<Region> build_together(std::vector<NodeId> nodes) {
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) {
      return graph_.type(a).elements() > graph_.type(b).elements();
    });
    Region region = builder_.build(nodes[0]);
    std::vector<IndexVar> vars = builder_.axis_vars();
    std::vector<RegionBuilder::Further> further;
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      const Region alone = builder_.build(nodes[i]);
      std::optional<std::vector<Index>> at = same_walk(alone, builder_.indices_of(nodes[i]), region, vars);
      if (!at) return std::nullopt;
      further.push_back({nodes[i], std::move(*at)});
      std::optional<Region> merged = builder_.build(nodes[0], further);
      if (!merged) return std::nullopt;
      region = std::move(*merged);
    }
    return region;
  }

  // Indices over `vars`, of `region`, with which `alone` loads what it shares with the region from the same places as it.
  static std::optional<std::vector<Index>> same_walk(const Region& alone, const std::vector<Index>& at,
                                                     const Region& region,
                                                     const std::vector<IndexVar>& vars) {
    const auto is_over_vars = [&](const Index& e) {
      std::vector<IndexVar> used;
      e.collect_vars(used);
      return std::all_of(used.begin(), used.end(), [&](const IndexVar& v) {
        const auto known = std::find(vars.begin(), vars.end(), v);
        return known != vars.end() && known->extent == v.extent;
      });
    };
    // Built over axes of one kind, both number their variables alike: equal indices are the same walk.
    for (const Expr& mine : alone.exprs) {
      if (mine.kind != Expr::Kind::load || !std::all_of(at.begin(), at.end(), is_over_vars)) continue;
      const std::vector<Index> theirs = accesses(region, mine.source);
      if (std::find(theirs.begin(), theirs.end(), mine.index) != theirs.end()) return at;
    }
    for (const Expr& mine : alone.exprs) {
      if (mine.kind != Expr::Kind::load) continue;
      const std::optional<std::vector<Digit>> digits = digits_of(mine.index);
      if (!digits) continue;
      for (const Index& theirs : accesses(region, mine.source)) {
        std::map<std::int32_t, Index> place;
        for (const Digit& d : *digits) place.emplace(d.var.id, d.of(theirs));
        std::vector<Index> moved;
        bool known = true;
        for (const Index& e : at) {
          std::vector<IndexVar> used;
          e.collect_vars(used);
          for (const IndexVar& v : used) known = known && place.contains(v.id);
          if (!known) break;
          moved.push_back(e.substitute([&](std::int32_t id) { return &place.at(id); }));
          known = is_over_vars(moved.back());
        }
        if (known) return moved;
      }
    }
    return std::nullopt;
  }

  // Where the region loads or stores elements of the node.
  static std::vector<Index> accesses(const Region& region, NodeId node) {
    std::vector<Index> all;
    for (const Expr& e : region.exprs) {
      if (e.kind == Expr::Kind::load && e.source == node) all.push_back(e.index);
    }
    for (const Root& r : region.roots) {
      if (r.node == node) all.push_back(r.offset);
    }
    return all;
  }

  static bool share_source(const Region& a, const Region& b) {
    const std::vector<NodeId> x = a.sources();
    return std::any_of(x.begin(), x.end(), [&](NodeId n) { return !accesses(b, n).empty(); });
  }

  // Whether the region would have to wait for one of its own roots.
  bool cyclic(const Region& region) const {
    const std::set<NodeId> needed = needs(region);
    return std::any_of(region.roots.begin(), region.roots.end(),
                       [&](const Root& r) { return needed.contains(r.node); });
  }

  // What must be there before the region runs, inputs apart, down to its first root.
  std::set<NodeId> needs(const Region& region) const {
    // A node comes after its operands. Only a region with several roots may wait for a later node than one of its own.
    NodeId lowest = owner_.empty() ? region.roots[0].node : owner_.begin()->first;
    for (const Root& r : region.roots) lowest = std::min(lowest, r.node);
    std::set<NodeId> seen;
    std::vector<NodeId> work;
    const auto add = [&](const std::vector<NodeId>& nodes) {
      for (const NodeId n : nodes) {
        if (n >= lowest && !is_input(n) && seen.insert(n).second) work.push_back(n);
      }
    };
    add(region.sources());
    while (!work.empty()) {
      const NodeId n = work.back();
      work.pop_back();
      const auto owner = owner_.find(n);
      add(owner != owner_.end() ? fusion_.regions[static_cast<std::size_t>(owner->second)].sources()
                                : graph_.node(n).operands);
    }
    return seen;
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
    // An edge that several regions cut is one edge.
    std::set<std::pair<NodeId, NodeId>> seen;
    std::erase_if(fusion_.cuts, [&](const Cut& c) { return !seen.emplace(c.from, c.to).second; });
  }

  const ir::Graph& graph_;
  RegionBuilder builder_;
  Fusion fusion_;
  std::vector<int> depth_;  // by node: reductions on the longest path to it
  struct Later {
    const std::vector<int>* depth;
    bool operator()(NodeId a, NodeId b) const {
      return std::pair((*depth)[static_cast<std::size_t>(a)], a) <
             std::pair((*depth)[static_cast<std::size_t>(b)], b);
    }
  };
  std::set<NodeId, Later> pending_{Later{&depth_}};  // must be stored, by no region yet
  std::map<NodeId, int> owner_;                      // region that stores a node
};

}  // namespace

std::string_view text(CutReason reason) {
  switch (reason) {
    case CutReason::different_domain: return "different_domain";
    case CutReason::inside_reduction: return "inside_reduction";
    case CutReason::repeated_reduction: return "repeated_reduction";
    case CutReason::cheaper_to_store: return "cheaper_to_store";
    case CutReason::transposed: return "transposed";
    case CutReason::too_many_operations: return "too_many_operations";
    case CutReason::too_many_arguments: return "too_many_arguments";
    case CutReason::domain_too_large: return "domain_too_large";
    case CutReason::already_stored: return "already_stored";
  }
  return "";
}

namespace {

// Values that several regions want, where storing them takes less than computing them again.
void store_shared(const ir::Graph& graph, const FuseOptions& options, std::map<NodeId, Stored>& forced,
                  Fusion& best) {
  // Storing one value changes what is worth it for others; a few rounds see all that matters.
  constexpr int kRounds = 4;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Recomputed> shared = recomputed(graph, best);
    std::map<NodeId, Stored> more = forced;
    for (const Recomputed& r : shared) {
      if (r.gain > 0) {
        more.emplace(
            r.node,
            Stored{CutReason::cheaper_to_store,
                   fmt::format(
                       "{} bytes to store and load it, {} bytes and {:.0f} instructions to compute it again",
                       r.bytes_stored, r.bytes_again, r.instructions_again)});
      }
    }
    best.recomputed = shared;
    if (more.size() == forced.size()) break;
    Fusion next = Fuser(graph, options, more).run();
    if (time_of(graph, next) >= time_of(graph, best)) break;
    forced = std::move(more);
    best = std::move(next);
  }
}

// Values that lie the other way than threads walk, where storing them takes less than what moves beside them: what gains
// most, then what gains most after that. A permutation can have other uses than the one that it would be stored for.
void store_transposed(const ir::Graph& graph, const FuseOptions& options, std::map<NodeId, Stored>& forced,
                      Fusion& best) {
  const auto time = [&](const Fusion& f) {
    double sum = time_of(graph, f) + static_cast<double>(f.regions.size()) * kLaunchBytes;
    for (const Region& r : f.regions) sum += static_cast<double>(wasted_bytes(r));
    return sum;
  };
  constexpr std::size_t kTrials = 8;
  for (std::size_t rounds = 0; rounds < kTrials; ++rounds) {
    std::vector<Transposed> all = transposed(graph, best);
    if (all.size() > kTrials) all.resize(kTrials);
    std::map<NodeId, Stored> chosen;
    double least = time(best);
    for (const Transposed& t : all) {
      std::map<NodeId, Stored> more = forced;
      for (const NodeId n : t.nodes) {
        more.emplace(
            n, Stored{CutReason::transposed,
                      fmt::format("{} bytes to store and load it, {} bytes of sectors for single elements",
                                  t.stored, t.wasted)});
      }
      Fusion next = Fuser(graph, options, more).run();
      const double seconds = time(next);
      if (seconds >= least) continue;
      least = seconds;
      next.recomputed = recomputed(graph, next);
      chosen = std::move(more);
      best = std::move(next);
    }
    if (chosen.empty()) break;
    forced = std::move(chosen);
  }
}

}  // namespace

Fusion fuse(const ir::Graph& graph, const FuseOptions& options) {
  std::map<NodeId, Stored> forced;
  Fusion best = Fuser(graph, options, forced).run();
  store_shared(graph, options, forced, best);
  store_transposed(graph, options, forced, best);
  return best;
}

}  // namespace bz::compiler

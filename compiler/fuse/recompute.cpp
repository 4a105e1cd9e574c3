#include "compiler/fuse/recompute.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/fuse/cost.h"

namespace bz::compiler {
namespace {

// Values that are looked at closely, the largest first.
constexpr std::size_t kCandidates = 32;

std::int64_t bytes(const ir::Graph& graph, NodeId n, DType stored) {
  return graph.type(n).elements() * size_of(stored);
}

// What a region moves and computes.
struct Work {
  std::int64_t bytes = 0;
  double instructions = 0;
  // The longer of the two, in bytes that could be moved meanwhile.
  double time() const { return std::max(static_cast<double>(bytes), instructions / kInstructionsPerByte); }
};

// Of the whole region, or of it when it loads `node` (which then counts no bytes).
Work work_of(const ir::Graph& graph, const Region& region, NodeId node = kNoNode) {
  Work w;
  std::vector<bool> needed(region.exprs.size(), false), reduced(region.reductions.size(), false);
  for (const Root& r : region.roots) {
    needed[static_cast<std::size_t>(r.expr)] = true;
    w.bytes += bytes(graph, r.node, r.stored);
  }
  std::map<NodeId, std::int64_t> sources;
  for (std::size_t i = region.exprs.size(); i-- > 0;) {
    const Expr& e = region.exprs[i];
    if (!needed[i] || e.node == node) continue;
    w.instructions += instructions_of(region, e);
    if (e.kind == Expr::Kind::load) sources[e.source] = bytes(graph, e.source, e.stored);
    if (e.kind == Expr::Kind::reduce) reduced[static_cast<std::size_t>(e.reduction)] = true;
    const std::vector<ExprId>& operands =
        e.kind == Expr::Kind::reduce ? region.reductions[static_cast<std::size_t>(e.reduction)].operands
                                     : e.operands;
    for (const ExprId o : operands) needed[static_cast<std::size_t>(o)] = true;
  }
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) w.instructions += instructions_of(region, region.reductions[i]);
  }
  for (const auto& [source, b] : sources) w.bytes += b;
  return w;
}

}  // namespace

std::vector<Recomputed> recomputed(const ir::Graph& graph, const Fusion& fusion) {
  std::map<NodeId, std::vector<int>> computed;  // node -> regions
  std::set<NodeId> stored;
  for (std::size_t i = 0; i < fusion.regions.size(); ++i) {
    for (const Expr& e : fusion.regions[i].exprs) {
      std::vector<int>& in = computed[e.node];
      if (e.kind == Expr::Kind::map && e.varies && (in.empty() || in.back() != static_cast<int>(i)))
        in.push_back(static_cast<int>(i));
    }
    for (const Root& r : fusion.regions[i].roots) stored.insert(r.node);
  }
  // Where paths part: no consumer is computed in as many regions.
  std::map<NodeId, std::size_t> widest;  // node -> most regions that compute a map of it
  for (const auto& [node, in] : computed) {
    if (in.size() < 2) continue;
    for (const NodeId o : graph.node(node).operands) widest[o] = std::max(widest[o], in.size());
  }
  std::vector<NodeId> nodes;
  for (const auto& [node, in] : computed) {
    if (in.size() >= 2 && widest[node] < in.size()) nodes.push_back(node);
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](NodeId a, NodeId b) { return graph.type(a).elements() > graph.type(b).elements(); });
  if (nodes.size() > kCandidates) nodes.resize(kCandidates);
  std::vector<Recomputed> all;
  for (const NodeId node : nodes) {
    const std::vector<int>& in = computed[node];
    Recomputed r{node, static_cast<int>(in.size()), 0, 0};
    // A region that stores the value computes it anyway; else the first one would.
    const auto stores = [&](int i) {
      const std::vector<Root>& roots = fusion.regions[static_cast<std::size_t>(i)].roots;
      return std::any_of(roots.begin(), roots.end(), [&](const Root& root) { return root.node == node; });
    };
    const auto owner = std::find_if(in.begin(), in.end(), stores);
    const int first = owner == in.end() ? in[0] : *owner;
    const std::int64_t size = bytes(graph, node, compute_dtype(graph.type(node).dtype));
    for (const int i : in) {
      const Region& region = fusion.regions[static_cast<std::size_t>(i)];
      const Work now = work_of(graph, region);
      Work then = now;
      if (i != first) {
        then = work_of(graph, region, node);
        r.bytes_again += now.bytes - then.bytes;
        r.instructions_again += now.instructions - then.instructions;
      }
      if (i != first || !stored.contains(node)) {
        r.bytes_stored += size;
        then.bytes += size;
      }
      r.gain += now.time() - then.time();
    }
    if (r.bytes_again > 0 || r.gain > 0) all.push_back(r);
  }
  return all;
}

double time_of(const ir::Graph& graph, const Fusion& fusion) {
  double sum = 0;
  for (const Region& region : fusion.regions) sum += work_of(graph, region).time();
  return sum;
}

}  // namespace bz::compiler

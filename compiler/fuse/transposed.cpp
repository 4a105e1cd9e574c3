#include "compiler/fuse/transposed.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "compiler/fuse/access.h"
#include "compiler/fuse/cost.h"
#include "compiler/fuse/digits.h"

namespace bz::compiler {
namespace {

// What the lanes of a region that reduces run along: that along which most bytes are contiguous.
struct Lanes {
  IndexVar var;
  bool reduced = false;
};
std::optional<Lanes> lanes_of(const Region& region, const std::vector<Access>& all) {
  std::optional<Lanes> best;
  std::int64_t most = 0;
  for (const bool reduced : {true, false}) {
    for (const IndexVar& v : reduced ? region.reduced : region.kept) {
      const std::int64_t bytes = contiguous_bytes(all, v);
      if (bytes <= most) continue;
      most = bytes;
      best = {v, reduced};
    }
  }
  return best;
}

// Bytes of an access beside those of its elements, where its neighbours in memory are not its neighbours in a warp. Loads
// of a block meet in its cache: a warp has a row of up to 1024 elements, a block several such rows; a thread of columns
// walks along what it reduces.
std::int64_t wasted_bytes(const Region& region, const Access& a, const Lanes& lanes) {
  constexpr std::int64_t kRowOfWarp = 1024;
  if (a.load >= 0 && lanes.reduced && region.domain_size() <= kRowOfWarp) return 0;
  if (!a.offset.uses(lanes.var.id) || contiguous_along(a.offset, lanes.var)) return 0;
  const auto in_sector = [&](const IndexVar& v) {
    return v.extent * size_of(a.dtype) >= kSectorBytes && contiguous_along(a.offset, v);
  };
  const bool other_kept = std::any_of(region.kept.begin(), region.kept.end(), in_sector);
  const bool other_reduced = std::any_of(region.reduced.begin(), region.reduced.end(), in_sector);
  if (!other_kept && !(a.root >= 0 && other_reduced)) return 0;
  const std::int64_t stride = std::abs(coefficient(a.offset, lanes.var)) * size_of(a.dtype);
  const std::int64_t moved = stride == 0 ? kSectorBytes : std::min<std::int64_t>(stride, kSectorBytes);
  return a.touched * (moved - size_of(a.dtype));
}

// Permutations of each node, other views between them left out.
std::map<NodeId, std::vector<NodeId>> permutations(const ir::Graph& graph) {
  std::map<NodeId, std::vector<NodeId>> all;
  std::vector<NodeId> viewed;  // by node: what it is a view of all elements of
  for (NodeId n = 0; n < graph.size(); ++n) {
    const Node& node = graph.node(n);
    viewed.push_back(n);
    if (node.kind() != NodeKind::view) continue;
    if (graph.type(node.operands[0]).elements() != graph.type(n).elements()) continue;
    viewed.back() = viewed[static_cast<std::size_t>(node.operands[0])];
    if (node.as<PermuteAttrs>() != nullptr) all[viewed.back()].push_back(n);
  }
  return all;
}

}  // namespace

std::int64_t wasted_bytes(const Region& region) {
  if (region.reductions.empty()) return 0;
  const std::vector<Access> all = accesses(region);
  const std::optional<Lanes> lanes = lanes_of(region, all);
  std::int64_t sum = 0;
  for (const Access& a : all) sum += lanes ? wasted_bytes(region, a, *lanes) : 0;
  return sum;
}

std::vector<Transposed> transposed(const ir::Graph& graph, const Fusion& fusion) {
  // Storing what is permuted on either side may turn the region's lanes.
  std::map<std::vector<NodeId>, std::int64_t> wasted;
  const auto permuted = permutations(graph);
  for (const Region& region : fusion.regions) {
    const std::int64_t bytes = wasted_bytes(region);
    if (bytes == 0) continue;
    for (const NodeId source : region.sources()) {
      const auto at = permuted.find(source);
      if (at == permuted.end()) continue;
      for (const NodeId n : at->second) wasted[{n}] += bytes;
    }
    bool pointwise = false;
    for (const Root& root : region.roots) {
      const Expr& e = region.exprs[static_cast<std::size_t>(root.expr)];
      if (e.kind == Expr::Kind::map && e.node != root.node) wasted[{e.node}] += bytes;
      pointwise |= e.varies;
    }
    if (!pointwise) continue;
    std::set<NodeId> results;
    for (const Expr& e : region.exprs) {
      for (const ExprId o : e.operands) {
        const Expr& of_domain = region.exprs[static_cast<std::size_t>(o)];
        if (e.varies && !of_domain.varies && of_domain.phase > 0) results.insert(of_domain.node);
      }
    }
    if (results.empty()) continue;
    wasted[{results.begin(), results.end()}] += bytes;
  }
  std::vector<Transposed> all;
  for (const auto& [nodes, bytes] : wasted) {
    std::int64_t stored = 0;
    for (const NodeId n : nodes)
      stored += 2 * graph.type(n).elements() * size_of(compute_dtype(graph.type(n).dtype));
    if (static_cast<double>(bytes) > static_cast<double>(stored) + kLaunchBytes)
      all.push_back({nodes, bytes, stored});
  }
  std::stable_sort(all.begin(), all.end(), [](const Transposed& a, const Transposed& b) {
    return a.wasted - a.stored > b.wasted - b.stored;
  });
  return all;
}

}  // namespace bz::compiler

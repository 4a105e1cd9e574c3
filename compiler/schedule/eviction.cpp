#include "compiler/schedule/eviction.h"

#include <algorithm>
#include <set>

#include "compiler/fuse/access.h"

namespace bz::compiler {
namespace {

// Whether each vector of the load is whole lines' worth of elements that nobody else reads: what another thread reads the rest of
// should stay until then (sums over the middle axis of 128 x 4096 x 4095 took 5 % more time).
bool is_streamed(const Region& region, const Schedule& s, const Expr& load) {
  constexpr int kVectorBytes = 16;
  const std::vector<IndexVar>& along = s.lanes_reduced ? region.reduced : region.kept;
  return load.varies && !along.empty() && contiguous_along(load.index, along.back()) &&
         moves_with_domain(region, load) && s.vector * size_of(load.stored) == kVectorBytes &&
         aligned_start(region, s) == Index(0) && (s.keep != Keep::nothing || region.phases() == 1);
}

}  // namespace

std::map<NodeId, kernel::Evict> evictions(const Group& group, std::span<const Schedule> schedules,
                                          const ir::Graph& graph, const Target& target) {
  // So much of what is read is written where both compete.
  constexpr std::int64_t kCompetes = 4;
  std::map<NodeId, std::int64_t> read, written;
  std::map<NodeId, bool> streamed;
  // Scales of rows that are not aligned are loaded element by element, which takes more instructions with hints (layer_norm of 65535
  // f32: 4 %).
  std::set<NodeId> single;
  // What is read again from L2 takes enough of it: softmax over the middle axis of 16 x 1024 x 4096 took 2 % longer with a hint.
  bool again = false;
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    const Region& region = group.stages[i];
    again = again || (schedules[i].keep == Keep::nothing && region.phases() > 1);
    for (const Expr& e : region.exprs) {
      if (e.kind != Expr::Kind::load || e.table >= 0) continue;
      read[e.source] = graph.type(e.source).elements() * size_of(e.stored);
      if (!moves_with_domain(region, e) && !(aligned_start(region, schedules[i]) == Index(0)))
        single.insert(e.source);
      const bool one = !group.staged() && is_streamed(region, schedules[i], e);
      streamed[e.source] = one && (!streamed.contains(e.source) || streamed[e.source]);
    }
    for (const Root& r : region.roots) {
      if (r.table < 0) written[r.node] = graph.type(r.node).elements() * size_of(r.stored);
    }
  }
  const auto sum = [](const std::map<NodeId, std::int64_t>& bytes) {
    std::int64_t all = 0;
    for (const auto& [node, n] : bytes) all += n;
    return all;
  };
  std::map<NodeId, kernel::Evict> hints;
  // What fits is there for the next kernel.
  if (sum(read) + sum(written) <= target.l2_bytes) return hints;
  const bool compete = kCompetes * sum(written) >= sum(read) && !again;
  for (const auto& [source, bytes] : read) {
    if (compete && !single.contains(source)) hints[source] = kernel::Evict::last;
    if (!compete && streamed[source] && bytes > target.l2_bytes) hints[source] = kernel::Evict::first;
  }
  return hints;
}

}  // namespace bz::compiler

#include "compiler/schedule/eviction.h"

#include <algorithm>

#include "compiler/fuse/access.h"

namespace bz::compiler {
namespace {

// What a kernel does with a source.
struct Use {
  std::vector<std::size_t> stages;  // that read it, in order
  Touched read;
  // In all loads, but those that a domain has once, neighbouring threads read neighbouring elements, in vectors where there are any.
  bool along_lanes = true;
  // In all loads threads read 16 bytes each, side by side, aligned, and nobody else reads them: what another thread reads the
  // rest of should stay until then (sums over the middle axis of 128 x 4096 x 4095 took 5 % more time).
  bool streamed = true;
};

const std::vector<IndexVar>& lanes_of(const Region& region, const Schedule& s) {
  return s.lanes_reduced ? region.reduced : region.kept;
}

// Scales of rows that are not aligned are loaded in pieces, which takes more instructions with hints (layer_norm of 65535 f32: 4 % more
// time; of 16 bits, in vectors, at most 1 %).
bool is_along_lanes(const Region& region, const Schedule& s, const Expr& load) {
  const std::vector<IndexVar>& along = lanes_of(region, s);
  return load.varies && !along.empty() && contiguous_along(load.index, along.back()) &&
         (moves_with_domain(region, load) || aligned_start(region, s) == Index(0));
}

bool is_streamed(const Region& region, const Schedule& s, const Expr& load) {
  return is_along_lanes(region, s, load) && moves_with_domain(region, load) &&
         s.vector * size_of(load.stored) == kVectorBytes && aligned_start(region, s) == Index(0) &&
         (s.keep != Keep::nothing || region.phases() == 1);
}

using Hints = std::map<NodeId, kernel::Evict>;  // by source
constexpr kernel::Evict kFirst{0}, kLast{kernel::Evict::kAll};

// Of what several stages of a queue read, where L2 does not have all of it from one to the next.
void add_hints_of_queue(const Group& group, const std::map<NodeId, Use>& uses, double l2,
                        std::vector<Hints>& hints) {
  if (group.queue == 0 || group.cached) return;
  const double domains = static_cast<double>(group.queue) / static_cast<double>(group.teams());
  double between = 0;  // bytes that are to be read again
  for (const auto& [source, use] : uses) between += use.stages.size() > 1 ? domains * use.read.bytes() : 0;
  for (const auto& [source, use] : uses) {
    if (use.stages.size() < 2 || !use.along_lanes || use.read.bytes() <= l2) continue;
    const double last = kernel::Evict::kAll * kQueueStays * l2 / between;
    hints[use.stages.front()].insert({source, {std::clamp(static_cast<int>(last), 1, kernel::Evict::kAll)}});
    hints[use.stages.back()].insert({source, kFirst});
  }
}

}  // namespace

std::vector<Hints> evictions(const Group& group, std::span<const Schedule> schedules, const Target& target) {
  // So much of what is read is written where both compete.
  constexpr double kCompetes = 4;
  std::map<NodeId, Use> uses;
  Touched written;
  // What is read again from L2 takes enough of it: softmax over the middle axis of 16 x 1024 x 4096 took 2 % longer with a hint.
  bool again = false;
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    const Region& region = group.stages[i];
    const Schedule& s = schedules[i];
    again = again || (s.keep == Keep::nothing && region.phases() > 1);
    for (const Expr& e : region.exprs) {
      if (e.kind != Expr::Kind::load || e.table >= 0) continue;
      Use& use = uses[e.source];
      if (use.stages.empty() || use.stages.back() != i) use.stages.push_back(i);
      again = again || use.stages.size() > 1;
      use.read.add(e.source, e.index, e.stored);
      use.along_lanes = use.along_lanes && (!e.varies || is_along_lanes(region, s, e));
      use.streamed = use.streamed && !group.staged() && is_streamed(region, s, e);
    }
    for (const Root& r : region.roots) {
      if (r.table < 0) written.add(r.node, r.offset, r.stored);
    }
  }
  double read = 0;
  for (const auto& [source, use] : uses) read += use.read.bytes();
  const auto l2 = static_cast<double>(target.l2_bytes);
  std::vector<Hints> hints(group.stages.size());
  // What fits is there for the next kernel.
  if (read + written.bytes() <= l2) return hints;
  const bool compete = kCompetes * written.bytes() >= read && !again;
  for (const auto& [source, use] : uses) {
    for (const std::size_t stage : use.stages) {
      if (compete && use.along_lanes) hints[stage].insert({source, kLast});
      if (!compete && use.streamed && use.read.bytes() > l2) hints[stage].insert({source, kFirst});
    }
  }
  add_hints_of_queue(group, uses, l2, hints);
  return hints;
}

}  // namespace bz::compiler

// Grouping: regions over different axes that share a kernel.
//
// GroupNorm followed by a logsumexp over channels is two regions: one reduces over a group of one sample, the other over
// the channels at one position. Neither is the other's domain, but both stay inside a sample: nothing of one sample is
// needed for another. The sample is the domain of the *group*, its `outer` variables. A block owns one, or a cluster of
// blocks does, and runs the regions one after the other as *stages* with a barrier between them. What a stage gives the
// next is small and lives in a *table* in shared memory; what both read is read from DRAM once and found in a cache the
// second time.
//
//   region group_norm_0: kept (n: 128, g: 16), reduced (c, h, w)    \  group: outer n, 2 stages,
//   region logsumexp_1:  kept (n: 128, h, w),  reduced (g, c)       /  tables mean[16], rsqrt[16]
//
// A sample that is too large for that shares a kernel in another form, a *queue*: nobody owns it. The work of the stages is
// cut into tickets, which stand in one queue in such an order that a later stage of a sample follows the first ones of the
// samples after it at a distance, its lag. Each block takes one (schedule/queue.h). What one stage gives the next is in
// global memory, as between kernels. One stage may compute while another waits for memory, and with a small lag what both read is
// found in L2 the second time.
//
// Which variables are common is read off the indices: a table element stored at (n, g) and loaded at f(n, h, w, g, c) is in
// the same n when f, solved for n, is the loading region's own variable n.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/fuse/fuse.h"
#include "ir/target.h"

namespace bz::compiler {

// What one stage gives to later ones, for one point of the outer variables; in shared memory of every block.
struct Table {
  NodeId node = kNoNode;
  DType dtype = DType::f32;
  std::int64_t elements = 1;
};

// Points of the outer variables that a stage of a queue stays behind, at most.
inline constexpr int kMostLag = 16;

// Registers of a thread of a queue, where as many blocks as have them fill a multiprocessor: what a stage that computes takes alone. Left to
// itself, ptxas gave gn_tail 95, and it took 0.34 ms instead of 0.32 (H200, 2026-11).
inline constexpr int kQueueRegisters = 72;

// The part of L2 that tickets ask for: what is read again of that many domains stays, where it does not have all that they need
// (schedule/eviction.h). With 0.35 and 0.65 gn_tail and others took up to 1.5 % more time (H200, 2026-12).
inline constexpr double kQueueStays = 0.5;

// How long a queue takes, in seconds, with all launches.
struct Queued {
  double teams = 1;
  double alone = 0;                   // the first stages, and the later ones, one after the other
  double memory = 0, arithmetic = 0;  // side by side; nothing is found in L2
  double saved = 0;                   // of memory, where L2 has all that is read again
  double waits = 0;                   // of stages for each other, with a lag of 1
  double launches = 0;
  int near = 0;  // the largest lag with which L2 has it
  double stays =
      0;  // domains of which it has what is asked to stay, with any other; 0 beside much that is written
  bool cached(int lag) const { return lag <= near; }
  // Side by side but for the first teams, of which there are no later stages yet, and the last ones.
  double seconds(int lag) const {
    const double share = std::min(1.0, lag / teams);
    const double part = cached(lag) ? 1 : std::min(1.0, stays / lag);
    const double work = share * alone + (1 - share) * std::max(arithmetic, memory - part * saved);
    return launches + std::max(work, waits / lag);
  }
};

// What becomes one kernel.
struct Group {
  std::string name;
  std::vector<Region> stages;  // in the order they run, one as a rule
  std::vector<Table> tables;
  int cluster = 1;     // blocks that own a point of the outer variables, where there are several stages
  bool cached = true;  // what several stages read is still in L2 when the later ones do
  // Of a queue: the points of the outer variables that a stage stays behind what it needs. 0: a block or cluster owns each.
  int queue = 0;
  std::vector<std::int64_t>
      ticket_blocks;  // of a queue, by stage: blocks of its schedule that are one ticket
  Queued queued;      // of a queue
  bool staged() const { return stages.size() > 1; }
  std::int64_t teams() const { return stages.front().teams(); }
};

enum class Join : std::uint8_t {
  no,   // each region is a kernel
  yes,  // where it saves time
};
// Whether a schedule by hand for the region of that name asks for a queue; nullopt where there is none for it.
using QueueWish = std::function<std::optional<bool>(const std::string& name)>;
// Joins regions where that saves reading again more than it costs in idle multiprocessors. Takes the regions in the order
// they may run; explains in `cuts` why an edge between two kernels could not become a table.
std::vector<Group> group(std::vector<Region> regions, const ir::Graph& graph, const Target& target,
                         std::vector<Cut>& cuts, Join join, const QueueWish& wish = {});

}  // namespace bz::compiler

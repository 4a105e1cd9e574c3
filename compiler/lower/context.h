// What every part of the lowering of a stage reads: the kernel that is being written, region and schedule, and where in the
// kernel the stage is. None of it changes but the kernel.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/lower/kernel_builder.h"
#include "compiler/lower/lower.h"

namespace bz::compiler {

using Handle = ScalarBuilder::Handle;

// The kernel that is being written.
struct KernelContext {
  Lowered& out;
  KernelBuilder& builder;
  std::map<NodeId, kernel::BufferId> sources;                 // of loads
  std::map<std::pair<NodeId, bool>, kernel::BufferId> roots;  // of stores: node, whether to a temporary
  std::vector<kernel::ArrayId> tables;
  kernel::ArrayId boxes = kernel::kNone;   // mailboxes, where blocks of a cluster exchange
  kernel::BufferId slots = kernel::kNone;  // where blocks of a gang do
  std::int64_t boxes_used = 0;             // those that stages have taken

  const kernel::Array& array(kernel::ArrayId id) const {
    return out.kernel.arrays[static_cast<std::size_t>(id)];
  }
  const kernel::Buffer& buffer(kernel::BufferId id) const {
    return out.kernel.buffers[static_cast<std::size_t>(id)];
  }
};

// Where a stage finds itself.
struct StagePlace {
  bool staged = false;  // one of several stages: the block goes over all domains of its team
  IndexVar team;        // otherwise: which domains are the block's
  Index outer;          // the team's point of the outer variables
  // Of a ticket: so many blocks of the schedule from this one on, as far as there are any.
  std::int64_t ticket_blocks = 0;
  Index first_block;
  Index rank;       // of the block in its cluster
  int cluster = 1;  // blocks of the cluster
  Index thread_kept, thread_reduced;
  std::string prefix;                     // of the names of its arrays
  std::map<NodeId, kernel::Evict> evict;  // by source of loads, where they have a hint
};

struct StageContext {
  StageContext(KernelContext& kernel, const Region& region, const Schedule& schedule, const StagePlace& place)
      : kernel(kernel),
        builder(kernel.builder),
        region(region),
        schedule(schedule),
        place(place),
        extent(extent_of(region, schedule)) {
    if (schedule.vector > 1) lane = Index::var({kernel::kLaneVar, schedule.vector});
    if (sharing(schedule) > 1) share = place.rank;
  }

  KernelContext& kernel;
  KernelBuilder& builder;
  const Region& region;
  const Schedule& schedule;
  const StagePlace& place;
  Extent extent;
  std::int64_t first_vector = 0;  // of the thread: it has `extent.vectors` from this one on
  Index lane;
  Index share;  // of a domain that a cluster shares: the block's rank

  const Expr& expr(ExprId id) const { return region.exprs[static_cast<std::size_t>(id)]; }
  const Reduction& reduction(int r) const { return region.reductions[static_cast<std::size_t>(r)]; }

  // "part0_1"; in a kernel of several stages "s1_part0_1".
  template <class... Numbers>
  std::string array_name(std::string_view name, Numbers... numbers) const {
    return fmt::format(
        "{}{}{}", place.prefix, name,
        fmt::join(std::array<std::size_t, sizeof...(numbers)>{static_cast<std::size_t>(numbers)...}, "_"));
  }
};

}  // namespace bz::compiler

// Lowering of one region into its kernel: the whole of it as a rule, one stage of it where several regions share a kernel.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "compiler/lower/kernel_builder.h"
#include "compiler/lower/lower.h"

namespace bz::compiler {

// The kernel that is being written.
struct KernelContext {
  Lowered& out;
  KernelBuilder& builder;
  std::map<NodeId, kernel::BufferId> sources;                 // of loads
  std::map<std::pair<NodeId, bool>, kernel::BufferId> roots;  // of stores: node, whether to a temporary
  std::vector<kernel::ArrayId> tables;
  kernel::ArrayId boxes = kernel::kNone;  // mailboxes, where blocks of a cluster exchange
  std::int64_t boxes_used = 0;            // those that stages have taken
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
  std::string prefix;  // of the names of its arrays
};

void lower_stage(KernelContext& kernel, const Region& region, const Schedule& schedule,
                 const StagePlace& place);

}  // namespace bz::compiler

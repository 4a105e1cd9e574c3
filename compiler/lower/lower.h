// Lowering: a group of regions and a schedule for each become one kernel, mechanically. Every reduction is combined
// serially, then over the vector, the lanes of a warp, the warps of the block and the blocks of the cluster - whichever its
// variables are laid over - by one routine that knows a monoid only by its table row. There is no code for softmax here.
#pragma once

#include <span>

#include "compiler/group/group.h"
#include "compiler/schedule/schedule.h"
#include "ir/kernel.h"

namespace bz::compiler {

// What a buffer of a kernel holds: a node, in a temporary or in an input or output of the program. No node: the counters of a
// queue, in a temporary that is 0 when a run starts.
struct Binding {
  NodeId node = kNoNode;
  bool temporary = false;
  bool written = false;
};

struct Lowered {
  kernel::Kernel kernel;
  std::vector<Binding> bindings;  // by buffer
};

// `target`: whose cache the loads hint to. `alignment`: in bytes, of the addresses of inputs and outputs.
// Temporaries are aligned for any access.
Lowered lower(const Group& group, const ir::Graph& graph, std::span<const Schedule> schedules,
              const Target& target, int alignment);

}  // namespace bz::compiler

// When what a kernel reads leaves the L2 cache.
//
// Where a kernel writes at least a quarter of what it reads, what is written should leave L2 first: it goes
// to memory in a steadier stream then. It does when what is read is asked to stay: pointwise kernels took 2 %
// less time so, rows of 4096 and 16384 elements 4 % less. A kernel that writes less has no use for what it
// has read once: logsumexp of rows of 256 f32 took 4 % less time where that leaves first (H200, 2026-11).
//
// What a stage of a queue reads and another reads again is often more than L2 holds, so that all of it is gone when it is wanted. So as much
// as half of L2 holds is asked to stay, the rest to go, and all of it may go when it is read for the last time: gn_tail took 2 % less time so,
// silu and a maximum after the group_norm 7 % (H200, 2026-12).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "compiler/schedule/schedule.h"
#include "ir/kernel.h"

namespace bz::compiler {

// By stage of the group, and source of its loads; those that are not there have no hint.
std::vector<std::map<NodeId, kernel::Evict>> evictions(const Group& group,
                                                       std::span<const Schedule> schedules,
                                                       const Target& target);

}  // namespace bz::compiler

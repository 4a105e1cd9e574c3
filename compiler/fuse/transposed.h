// Values that lie the other way in memory than the threads of a region walk.
//
//   y = permute(softmax(x))      threads walk along the rows of x, and each element of y is in another sector
//
// A pointwise region moves such data in tiles (schedule/tile.h). One that reduces does not: it can be faster to let it
// write to a temporary as it walks, or read one, and to leave the rest to a pointwise region. What a domain has once of what it
// reduces is often the smallest temporary, though the pointwise region then computes from the inputs again.
#pragma once

#include <vector>

#include "compiler/fuse/fuse.h"

namespace bz::compiler {

// Bytes that the region moves only because they share sectors with what it needs.
std::int64_t wasted_bytes(const Region& region);

struct Transposed {
  std::vector<NodeId> nodes;  // what would be stored for it
  std::int64_t wasted = 0;    // bytes
  std::int64_t stored = 0;    // bytes moved to store the nodes and load them again
};
// Where storing saves more than it moves: the most first.
std::vector<Transposed> transposed(const ir::Graph& graph, const Fusion& fusion);

}  // namespace bz::compiler

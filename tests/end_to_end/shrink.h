// Makes a failing graph small: drops outputs and ends, puts inputs and operands in the place of nodes, and
// shrinks extents, as long as it fails.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace bz::end_to_end {

// `fails(g)` holds, and for the result too. Tries at most `budget` graphs.
ir::Graph shrink(ir::Graph g, const std::function<bool(const ir::Graph&)>& fails, int budget = 400);

}  // namespace bz::end_to_end

// Recompute or store: what several regions compute, and what either way costs in bytes and instructions.
#pragma once

#include <vector>

#include "compiler/fuse/fuse.h"

namespace bz::compiler {

// The values that several regions compute, where their paths part. Kept to those that matter: a bounded number.
std::vector<Recomputed> recomputed(const ir::Graph& graph, const Fusion& fusion);

// Of all regions, in bytes that could be moved in the time: of each, the longer of reading every source once and of computing.
double time_of(const ir::Graph& graph, const Fusion& fusion);

}  // namespace bz::compiler

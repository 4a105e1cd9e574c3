// Recompute or store: what several regions compute, and what either way costs in bytes.
#pragma once

#include <vector>

#include "compiler/fuse/fuse.h"

namespace bz::compiler {

// The values that several regions compute, where their paths part. Kept to those that matter: a bounded number.
std::vector<Recomputed> recomputed(const ir::Graph& graph, const Fusion& fusion);

// Bytes that the regions move when each reads every source once.
std::int64_t bytes_of(const ir::Graph& graph, const Fusion& fusion);

}  // namespace bz::compiler

// What the arithmetic of a region costs: enough to tell whether a kernel waits for memory or for instructions.
#pragma once

#include "compiler/fuse/region.h"
#include "ir/target.h"

namespace bz::compiler {

// With every multiprocessor at work: the sum over all elements of the f32 instructions of what is computed for each.
double arithmetic_seconds(const Region& region, const Target& target);

}  // namespace bz::compiler

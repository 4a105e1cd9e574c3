// What the arithmetic of a region costs: enough to tell whether a kernel waits for memory or for instructions.
#pragma once

#include "compiler/fuse/region.h"
#include "ir/target.h"

namespace bz::compiler {

// f32 instructions of all elements of an expression of the region, of taking what a reduction reduces into its state, and
// of everything.
double instructions_of(const Region& region, const Expr& e);
double instructions_of(const Region& region, const Reduction& r);
double instructions_of(const Region& region);
// What an H200 issues while it moves a byte: below that a kernel waits for memory.
inline constexpr double kInstructionsPerByte = 6.9;

// Of one small kernel in a graph; H200, 2026-11.
inline constexpr double kLaunchSeconds = 2e-6;
// What an H200 moves meanwhile.
inline constexpr double kLaunchBytes = kLaunchSeconds * 4.28e12;

// With every multiprocessor at work: the sum over all elements of the f32 instructions of what is computed for each.
double arithmetic_seconds(const Region& region, const Target& target);

}  // namespace bz::compiler

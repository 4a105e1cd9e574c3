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

// A second read that hits L2, against the copy speed of DRAM; and how much of L2 can be counted on. H200, 2026-11.
inline constexpr double kCacheSpeed = 1.4, kCacheShare = 0.6;
// The share of the multiprocessors that clusters of 1, 2, 4, 8, 16 blocks reach: they do not cross the chip's processing
// clusters, which are not all of one size. Of the H200's 132: 15 clusters of 8 and 7 of 16.
inline double reach(int cluster) { return cluster == 16 ? 0.85 : cluster == 8 ? 0.91 : 1; }

// A multiprocessor reads so much faster than its share of the memory's speed, while others compute. H200, 2026-11.
inline constexpr double kBurst = 2;

// From the issue of a load to its arrival while memory is busy. H200, 2026-11.
inline constexpr double kLoadSeconds = 0.8e-6;

// f32 lanes of a multiprocessor, and their clock rate on an H200.
inline constexpr double kLanes = 128, kHertz = 1.75e9;

// Instructions that an expression takes for one element, and taking an element into a reduction's state.
int element_instructions(const Region& region, const Expr& e);
int element_instructions(const Region& region, const Reduction& r);
// Of putting two states together; of taking so many elements at once into what is carried of those before; of what comes, where states
// are put together all at once, beside the folds of their components.
int instructions_to_combine(const Region& region, const Reduction& r);
int instructions_to_take_in(const Region& region, const Reduction& r, int elements);
int instructions_together(const Region& region, const Reduction& r);
// With every multiprocessor at work: the sum over all elements of the f32 instructions of what is computed for each.
double arithmetic_seconds(const Region& region, const Target& target);

}  // namespace bz::compiler

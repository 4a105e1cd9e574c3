// Times of programs on random data.
#pragma once

#include <braze/executable.h>

#include <vector>

namespace bz {

// Seconds of every repetition on `sets` sets of inputs and outputs in turn, sorted.
std::vector<double> time_sorted(runtime::Device& device, Program& program,
                                const std::vector<PlanBuffer>& arguments, const BenchOptions& options,
                                std::int64_t sets = 1);
double median(const std::vector<double>& sorted);
// Seconds of the host to start a run, the median of many, of a device that runs while the host goes on.
double launch_seconds(runtime::Device& device, Program& program, const std::vector<PlanBuffer>& arguments);

}  // namespace bz

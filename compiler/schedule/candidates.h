// Schedules that are worth a prediction, for the three ways in which threads can lie along memory. In order of preference, where the model
// sees no difference; much of that order was found by measuring.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "compiler/fuse/access.h"
#include "compiler/schedule/schedule.h"

namespace bz::compiler {

// Powers of two. Nothing that they count has more than the largest of them: threads, elements of a thread.
inline constexpr std::int64_t kMostPower = 1 << 30;
inline int power_at_least(std::int64_t n) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(n, 1, kMostPower))));
}
inline int power_at_most(std::int64_t n) {
  return static_cast<int>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp<std::int64_t>(n, 1, kMostPower))));
}

// For a row that many blocks share, anywhere on the device.
std::optional<Schedule> gang_candidate(const Region& region, const Target& target, int full);

// Threads along the reduced variable. `full`: elements in 16 bytes; `team`: blocks that share the domains;
// when the domain stays in registers, threads exchange what they have found `exchanges` times.
std::vector<Schedule> row_candidates(const Region& region, const Target& target, int full, int team,
                                     int exchanges);
// Threads along a kept variable; more threads share a domain when there are too few columns. `staged`: one of several stages, whose kernel
// decides on clusters; `queued`: of a queue.
std::vector<Schedule> column_candidates(const Region& region, const Target& target, int full, bool staged,
                                        bool queued);
// What is contiguous along two kept variables; none where tiles would not gain.
std::vector<Schedule> tile_candidates(const Region& region, const std::vector<Access>& all,
                                      const Target& target);

}  // namespace bz::compiler

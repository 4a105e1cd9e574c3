// Random programs for tests: all maps, views, reductions and composites over small shapes of every type, with
// shared subexpressions and several outputs. The same seed gives the same graph.
#pragma once

#include <cstdint>
#include <iterator>

#include "ir/graph.h"

namespace bz::end_to_end {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {
    for (int k = 0; k < 4; ++k) bits();
  }
  std::uint64_t bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((bits() >> 20) % static_cast<std::uint64_t>(n));
  }
  std::int64_t between(std::int64_t lo, std::int64_t hi) { return lo + below(hi - lo + 1); }
  bool one_in(int n) { return below(n) == 0; }
  template <class Range>
  auto& pick(Range&& range) {
    return range[static_cast<std::size_t>(below(static_cast<std::int64_t>(std::size(range))))];
  }

 private:
  std::uint64_t state_;
};

ir::Graph random_graph(std::uint64_t seed);

}  // namespace bz::end_to_end

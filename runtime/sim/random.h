// Random orders that are the same on every machine for the same seed.
#pragma once

#include <cstdint>
#include <numeric>

namespace bz::sim {

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  // In [0, n), n below 2^32.
  std::uint64_t below(std::uint64_t n) { return ((next() >> 32) * n) >> 32; }

 private:
  std::uint64_t state_;
};

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return Random(a ^ Random(b).next()).next(); }

// A bijection of [0, n), n at most 2^31, that needs no table: i -> (i * step + start) mod n with step prime
// to n.
class ClusterOrder {
 public:
  ClusterOrder(std::int64_t n, std::uint64_t seed) : n_(static_cast<std::uint64_t>(n)) {
    if (seed == 0 || n < 2) return;
    Random random(seed);
    start_ = random.below(n_);
    do {
      step_ = 1 + random.below(n_ - 1);
    } while (std::gcd(step_, n_) != 1);
  }
  std::int64_t operator()(std::int64_t i) const {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(i) * step_ + start_) % n_);
  }

 private:
  std::uint64_t n_, step_ = 1, start_ = 0;
};

}  // namespace bz::sim

// What the compiler needs to know of the machine it compiles for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bz {

struct Target {
  std::string name = "sm_90";  // "sm_75", ..., "sim"
  bool sim = false;            // compile for the host simulator; the limits below still hold
  int sm = 90;                 // compute capability, 10 * major + minor
  int ptx = 0;                 // PTX ISA version, 10 * major + minor; 0: the oldest that serves
  int multiprocessors = 132;
  int max_threads_per_block = 1024;
  int max_shared_bytes = 232448;  // a block may have, with opt-in
  int registers_per_block = 65536;
  // A multiprocessor holds, of all its blocks together.
  int threads_per_multiprocessor = 2048;
  int blocks_per_multiprocessor = 32;
  int shared_per_multiprocessor = 233472;
  int registers_per_multiprocessor = 65536;
  int max_cluster = 16;  // blocks that can run as a cluster; 1: there are none
  std::int64_t l2_bytes = 50ll << 20;
  double dram_bytes_per_second = 4.28e12;  // copy speed, read plus write
};

// "sm_90" -> its limits; the number of multiprocessors and bandwidth are those of a usual card of the kind. nullopt
// for a name that is not known. "sim" is the simulator, with the limits of sm_90.
std::optional<Target> parse_target(std::string_view name);
std::vector<std::string> known_targets();  // "sm_75", "sm_80", ...; without "sim"
// Oldest PTX ISA version (10 * major + minor) that knows compute capability `sm`: 63 for sm_75, 78 for sm_90.
int minimum_ptx(int sm);
// The oldest in which blocks of a cluster can send each other messages.
inline constexpr int kClusterPtx = 81;
// The target where PTX of that version is written: without clusters where it is too old for them.
Target with_ptx(Target target, int ptx);

}  // namespace bz

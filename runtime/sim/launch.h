// One kernel launch of the simulator, as every worker sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/runtime.h"
#include "runtime/sim/shadow.h"

namespace bz::sim {

// A kernel as compiled code: loads the kernel's arguments from `arguments` and runs one thread of it.
using Entry = void (*)(void* const* arguments);

// A place in a module where compiled code calls the simulator: an access to memory, a barrier or a shuffle. An
// asynchronous copy has two, of the load and then of the store.
struct Site {
  std::int64_t bytes = 0;  // of an access, as what follows
  std::int64_t alignment = 1;
  bool store = false;
  int argument =
      -1;        // of the kernel, that the address was computed from; -1: not known; or one of those below
  int line = 0;  // of the kernel IR; 0: the module does not say
};
inline constexpr int kSharedMemory = -2;
inline constexpr int kClusterMemory = -3;  // shared memory of any block of the cluster

// Memory that a kernel may touch.
struct Region {
  std::byte* begin = nullptr;
  std::int64_t bytes = 0;
  bool writable = false;
  std::string name;          // "input 'x'", for messages
  Shadow* shadow = nullptr;  // of memory that somebody has to write before it is read, when that is checked
  bool stored = true;        // whether the kernel may store there

  bool contains(const void* address, std::int64_t size) const {
    const auto* p = static_cast<const std::byte*>(address);
    return p >= begin && p - begin <= bytes - size;
  }
};

struct Launch {
  const PlanKernel* kernel = nullptr;
  std::int64_t blocks = 1;  // that are launched
  Entry entry = nullptr;
  std::vector<void*> arguments;  // one for each kernel argument
  std::vector<Region> regions;   // of the arguments, in the same order; empty when memory is not checked
  std::span<const Site> sites;   // by number
  int shared_granule = 1;        // bytes, for the shadow of shared memory
  bool nan_memory = true;
  bool check_memory = true;
  std::uint64_t seed = 0;  // 0: threads and blocks in ascending order
};

}  // namespace bz::sim

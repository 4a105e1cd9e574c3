// One kernel launch of the simulator, as every worker sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/runtime.h"

namespace bz::sim {

// A kernel as compiled code: loads the kernel's arguments from `arguments` and runs one thread of it.
using Entry = void (*)(void* const* arguments);

// Memory that a kernel may touch.
struct Region {
  std::byte* begin = nullptr;
  std::int64_t bytes = 0;
  bool writable = false;
  std::string name;  // "input 'x'", for messages

  bool contains(const void* address, std::int64_t size) const {
    const auto* p = static_cast<const std::byte*>(address);
    return p >= begin && p - begin <= bytes - size;
  }
};

struct Launch {
  const PlanKernel* kernel = nullptr;
  Entry entry = nullptr;
  std::vector<void*> arguments;  // one for each kernel argument
  std::vector<Region> regions;   // of the arguments, in the same order
  bool nan_memory = true;
  std::uint64_t seed = 0;  // 0: threads and blocks in ascending order
};

}  // namespace bz::sim

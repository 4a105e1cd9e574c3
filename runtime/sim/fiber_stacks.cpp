#include "runtime/sim/fiber_stacks.h"

#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <atomic>

#include "support/error.h"

namespace bz::sim {
namespace {

constexpr std::size_t kPage = 4096;
// The guard page makes the distance of two stacks an odd number of pages, and the tops are staggered within a
// page: else the busy ends of a thousand stacks would fall on the same few sets of the caches.
constexpr std::size_t kStride = FiberStacks::kUsableBytes + kPage;
constexpr std::size_t kStagger = 512;
constexpr int kPerSlab = 32;

// Each guard page costs two of the process's memory mappings, of which Linux allows 65530; past this budget
// stacks go without a guard.
std::atomic<int> guard_budget{16384};

void forget_frames([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(begin, bytes);
#endif
}

}  // namespace

FiberStacks::~FiberStacks() {
  for (std::byte* slab : slabs_) {
    forget_frames(slab, kStride * kPerSlab);  // others may get these addresses
    munmap(slab, kStride * kPerSlab);
  }
}

void FiberStacks::reserve(int count) {
  while (static_cast<int>(slabs_.size()) * kPerSlab < count) {
    slabs_.reserve(slabs_.size() + 1);
    void* p = mmap(nullptr, kStride * kPerSlab, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
      throw DeviceError(fmt::format("the simulator has no memory for the stacks of {} threads", count));
    }
    auto* slab = static_cast<std::byte*>(p);
    slabs_.push_back(slab);
    for (int i = 0; i < kPerSlab && guard_budget.fetch_sub(1) > 0; ++i) {
      mprotect(slab + kStride * static_cast<std::size_t>(i), kPage, PROT_NONE);
    }
  }
}

void* FiberStacks::top(int i) const {
  const auto slab = static_cast<std::size_t>(i / kPerSlab), in_slab = static_cast<std::size_t>(i % kPerSlab);
  return slabs_[slab] + kStride * (in_slab + 1) - kStagger * (in_slab % 8);
}

void FiberStacks::forget(int i) const {
  std::byte* slab = slabs_[static_cast<std::size_t>(i / kPerSlab)];
  forget_frames(slab + kStride * static_cast<std::size_t>(i % kPerSlab) + kPage, kUsableBytes);
}

}  // namespace bz::sim

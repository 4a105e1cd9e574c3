// Stacks for the fibers of one host thread, made when first asked for and kept.
#pragma once

#include <cstddef>
#include <vector>

namespace bz::sim {

class FiberStacks {
 public:
  // What a kernel's thread may use. Kernels keep a few KiB of registers and spills; the rest is room for host
  // calls.
  static constexpr std::size_t kUsableBytes = std::size_t{64} << 10;

  FiberStacks() = default;
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  ~FiberStacks();

  // Throws DeviceError when there is no memory.
  void reserve(int count);
  // The high end of stack `i`, 64-byte aligned; its usable size is at least kUsableBytes minus a few KiB.
  void* top(int i) const;
  // What a fiber that never goes on has on stack `i` is no more. Address sanitizer would take it for living.
  void forget(int i) const;

 private:
  std::vector<std::byte*> slabs_;
};

}  // namespace bz::sim

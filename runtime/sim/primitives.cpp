#include "runtime/sim/primitives.h"

#include <array>
#include <cstdint>

#include "ir/simt.h"
#include "runtime/sim/block_runner.h"

namespace bz::sim {
namespace {

std::int32_t thread() noexcept { return BlockRunner::current().thread(); }
std::int32_t block() noexcept { return BlockRunner::current().block(); }
void barrier() noexcept { BlockRunner::current().barrier(); }
std::uint32_t shuffle_xor(std::uint32_t value, std::uint32_t mask) noexcept {
  return BlockRunner::current().shuffle_xor(value, mask);
}
void* shared() noexcept { return BlockRunner::current().shared(); }
void* check_access(void* address, std::int64_t bytes, std::int64_t alignment, bool store,
                   std::int32_t argument) noexcept {
  return BlockRunner::current().check_access(address, {bytes, alignment, store, argument});
}

// Hosts without F16C convert through these; no x86 rounds f64 to half in one instruction.
float half_to_float(_Float16 x) noexcept { return static_cast<float>(x); }
_Float16 float_to_half(float x) noexcept { return static_cast<_Float16>(x); }
_Float16 double_to_half(double x) noexcept { return static_cast<_Float16>(x); }

template <class Function>
void* address_of(Function* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const HostFunction> host_functions() {
  static const std::array functions = {
      HostFunction{simt::kThread, address_of(&thread)},
      HostFunction{simt::kBlock, address_of(&block)},
      HostFunction{simt::kBarrier, address_of(&barrier)},
      HostFunction{simt::kShuffleXor, address_of(&shuffle_xor)},
      HostFunction{simt::kShared, address_of(&shared)},
      HostFunction{kCheckAccess, address_of(&check_access)},
      HostFunction{"__extendhfsf2", address_of(&half_to_float)},
      HostFunction{"__truncsfhf2", address_of(&float_to_half)},
      HostFunction{"__truncdfhf2", address_of(&double_to_half)},
  };
  return functions;
}

}  // namespace bz::sim

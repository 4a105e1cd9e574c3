#include "runtime/sim/primitives.h"

#include <array>
#include <cstdint>

#include "ir/simt.h"
#include "runtime/sim/cluster_runner.h"

namespace bz::sim {
namespace {

ClusterRunner& runner() { return ClusterRunner::current(); }

std::int32_t thread() noexcept { return runner().thread(); }
std::int32_t block() noexcept { return runner().block_index(); }
void* shared() noexcept { return runner().shared(); }
void* cluster_shared(void* address, std::int32_t rank) noexcept {
  return runner().cluster_shared(address, rank);
}
void barrier(std::int32_t site) noexcept { runner().barrier(site); }
void cluster_barrier(std::int32_t site) noexcept { runner().cluster_barrier(site); }
void cluster_start(std::int32_t site) noexcept { runner().start(site); }
void cluster_started(std::int32_t site) noexcept { runner().await_start(site); }
void box_open(void* box, std::int32_t site) noexcept { runner().open_box(box, site); }
void send(void* to, std::uint64_t bits, std::int32_t bytes, void* box, std::int32_t site) noexcept {
  runner().send(to, bits, bytes, box, site);
}
void box_expect(void* box, std::int32_t bytes, std::int32_t site) noexcept {
  runner().expect(box, bytes, site);
}
void box_receive(void* box, std::int32_t parity, std::int32_t site) noexcept {
  runner().receive(box, parity, site);
}
std::uint32_t shuffle_xor(std::uint32_t value, std::uint32_t mask, std::int32_t site) noexcept {
  return runner().shuffle_xor(value, mask, site);
}
std::int32_t blocks() noexcept { return runner().blocks(); }
void copy(void* to, const void* from, std::int32_t bytes, std::int32_t valid, std::int32_t site) noexcept {
  runner().copy(to, from, bytes, valid, site);
}
std::int32_t ticket(void* queue, std::int32_t site) noexcept { return runner().take_ticket(queue, site); }
void signal(void* counter, std::int32_t site) noexcept { runner().signal(counter, site); }
void wait(void* counter, std::int32_t count, std::int32_t site) noexcept {
  runner().wait(counter, count, site);
}
void post(void* slot, std::uint32_t bits, std::int32_t round, std::int32_t site) noexcept {
  runner().post(slot, bits, round, site);
}
std::uint64_t peek(void* slot, std::int32_t site) noexcept { return runner().peek(slot, site); }
void pause(std::int32_t looked, std::int32_t site) noexcept { runner().pause(looked != 0, site); }
void copy_commit() noexcept { runner().commit_copies(); }
void copy_await(std::int32_t pending) noexcept { runner().await_copies(pending); }
void* access(void* address, std::int32_t site) noexcept { return runner().access(address, site); }

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
      HostFunction{simt::kBlocks, address_of(&blocks)},
      HostFunction{simt::kShared, address_of(&shared)},
      HostFunction{simt::kClusterShared, address_of(&cluster_shared)},
      HostFunction{kSimBarrier, address_of(&barrier)},
      HostFunction{kSimClusterBarrier, address_of(&cluster_barrier)},
      HostFunction{kSimClusterStart, address_of(&cluster_start)},
      HostFunction{kSimClusterStarted, address_of(&cluster_started)},
      HostFunction{kSimBoxOpen, address_of(&box_open)},
      HostFunction{kSimSend, address_of(&send)},
      HostFunction{kSimBoxExpect, address_of(&box_expect)},
      HostFunction{kSimBoxReceive, address_of(&box_receive)},
      HostFunction{kSimShuffleXor, address_of(&shuffle_xor)},
      HostFunction{kSimCopy, address_of(&copy)},
      HostFunction{kSimTicket, address_of(&ticket)},
      HostFunction{kSimSignal, address_of(&signal)},
      HostFunction{kSimWait, address_of(&wait)},
      HostFunction{kSimPost, address_of(&post)},
      HostFunction{kSimPeek, address_of(&peek)},
      HostFunction{kSimPause, address_of(&pause)},
      HostFunction{simt::kCopyCommit, address_of(&copy_commit)},
      HostFunction{simt::kCopyAwait, address_of(&copy_await)},
      HostFunction{kSimAccess, address_of(&access)},
      HostFunction{kSimRead, address_of(&access)},
      HostFunction{"__extendhfsf2", address_of(&half_to_float)},
      HostFunction{"__truncsfhf2", address_of(&float_to_half)},
      HostFunction{"__truncdfhf2", address_of(&double_to_half)},
  };
  return functions;
}

}  // namespace bz::sim

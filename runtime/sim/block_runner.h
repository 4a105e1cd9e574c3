// Runs the threads of one block at a time on one host thread.
//
// Threads of a kernel that synchronizes are fibers: each runs until it waits at a barrier or a shuffle, or
// finishes. When every thread of the block waits at the barrier, or all lanes of a warp at the shuffle, they
// may go on; when nobody may, the block has diverged, which is a fault. Other kernels need no fibers, a loop
// calls one thread after the other.
//
// A fault never unwinds compiled code. The first one of a block is kept as text; after an access out of
// bounds the thread goes on with scratch memory, after divergence the fibers are dropped where they stand.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/sim/fiber_stacks.h"
#include "runtime/sim/launch.h"
#include "runtime/sim/random.h"

namespace bz::sim {

// A load or store of instrumented code. `argument` is the kernel argument the address was computed from, -1
// when it is not known, or kSharedMemory.
struct Access {
  std::int64_t bytes = 0;
  std::int64_t alignment = 1;
  bool store = false;
  int argument = -1;
};
inline constexpr int kSharedMemory = -2;

class BlockRunner {
 public:
  BlockRunner() = default;
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Makes what `launch` needs of stacks and shared memory. Throws DeviceError when there is no memory.
  void prepare(const Launch& launch);
  // Runs a block of a launch that was prepared. Returns the first fault, empty when there is none.
  std::string run(const Launch& launch, std::int64_t block);

  // ---- called by kernels, through primitives.cpp
  // -------------------------------------------------------------
  static BlockRunner& current() noexcept { return *current_; }
  std::int32_t thread() const noexcept { return thread_; }
  std::int32_t block() const noexcept { return static_cast<std::int32_t>(block_); }
  std::byte* shared() const noexcept { return shared_.begin; }
  void barrier() noexcept;
  std::uint32_t shuffle_xor(std::uint32_t value, std::uint32_t mask) noexcept;
  // `address` when the access is allowed, else scratch memory.
  void* check_access(void* address, const Access& access) noexcept;

 private:
  enum class State : std::uint8_t { ready, barrier, shuffle, finished };
  struct Thread {
    boost::context::detail::fcontext_t context = nullptr;  // where to go on; null: no fiber yet
    State state = State::ready;
    std::uint32_t value = 0, mask = 0, result = 0;  // of the shuffle it takes part in
  };

  static void fiber_main(boost::context::detail::transfer_t from) noexcept;
  void run_side_by_side();
  void run_one_by_one();
  void make_ready(int first, int count);
  int take_ready();
  void resume(int thread);
  void suspend(State state) noexcept;
  void complete_shuffle(int warp);
  const Region* region_of(const std::byte* address, const Access& access) const;
  void report_access(const std::byte* address, const Access& access, const Region* meant);
  void report_divergence();
  void drop_fibers();
  void fault(std::string_view what, int thread);

  static constinit thread_local BlockRunner* current_;
  const Launch* launch_ = nullptr;
  std::int64_t block_ = 0;
  std::int32_t thread_ = 0;
  std::string fault_;
  Random random_{0};

  std::vector<Thread> threads_;
  std::vector<int> ready_;    // taken from the back
  std::vector<int> arrived_;  // lanes at the shuffle, by warp
  int at_barrier_ = 0, finished_ = 0;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  FiberStacks stacks_;

  std::vector<std::byte> shared_storage_;
  Region shared_;
  std::vector<std::byte> scratch_storage_;
};

}  // namespace bz::sim

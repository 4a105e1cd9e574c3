#include "runtime/sim/block_runner.h"

#include <algorithm>
#include <cstring>

#include "ir/simt.h"
#include "support/error.h"

namespace bz::sim {
namespace {

constexpr int kWarp = simt::kWarp;
constexpr std::size_t kSharedAlignment = 256;
constexpr std::size_t kScratchBytes = 4096;
constexpr std::size_t kScratchAlignment = 256;

std::byte* align_up(std::byte* p, std::size_t alignment) {
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  return p + (alignment - a % alignment) % alignment;
}

}  // namespace

constinit thread_local BlockRunner* BlockRunner::current_ = nullptr;

void BlockRunner::prepare(const Launch& launch) {
  const PlanKernel& k = *launch.kernel;
  const auto shared = static_cast<std::size_t>(k.shared_bytes) + kSharedAlignment;
  if (shared_storage_.size() < shared) shared_storage_.resize(shared);
  shared_ = {align_up(shared_storage_.data(), kSharedAlignment), k.shared_bytes, true, "shared memory"};
  if (!k.synchronizes) return;
  stacks_.reserve(k.block);
  if (threads_.size() < static_cast<std::size_t>(k.block)) threads_.resize(static_cast<std::size_t>(k.block));
}

std::string BlockRunner::run(const Launch& launch, std::int64_t block) {
  current_ = this;
  launch_ = &launch;
  block_ = block;
  fault_.clear();
  if (launch.seed != 0) random_ = Random(mix(launch.seed, static_cast<std::uint64_t>(block)));
  if (launch.nan_memory) std::memset(shared_.begin, 0xff, static_cast<std::size_t>(shared_.bytes));
  ready_.clear();
  if (launch.kernel->synchronizes) {
    run_side_by_side();
  } else {
    run_one_by_one();
  }
  current_ = nullptr;
  return std::move(fault_);
}

// ---- scheduling
// ------------------------------------------------------------------------------------------------

void BlockRunner::make_ready(int first, int count) {
  for (int t = first + count - 1; t >= first; --t) ready_.push_back(t);
}

int BlockRunner::take_ready() {
  if (launch_->seed != 0) std::swap(ready_[random_.below(ready_.size())], ready_.back());
  const int t = ready_.back();
  ready_.pop_back();
  return t;
}

void BlockRunner::run_one_by_one() {
  make_ready(0, launch_->kernel->block);
  while (!ready_.empty()) {
    thread_ = take_ready();
    launch_->entry(launch_->arguments.data());
  }
}

void BlockRunner::run_side_by_side() {
  const int count = launch_->kernel->block;
  arrived_.assign(static_cast<std::size_t>(count / kWarp), 0);
  at_barrier_ = finished_ = 0;
  make_ready(0, count);
  for (;;) {
    while (!ready_.empty()) resume(take_ready());
    if (finished_ == count) return;
    if (at_barrier_ != count) break;
    at_barrier_ = 0;
    make_ready(0, count);
  }
  report_divergence();
  drop_fibers();
}

void BlockRunner::resume(int thread) {
  Thread& t = threads_[static_cast<std::size_t>(thread)];
  if (t.context == nullptr) {
    t.context =
        boost::context::detail::make_fcontext(stacks_.top(thread), FiberStacks::kUsableBytes, &fiber_main);
  }
  t.state = State::ready;
  thread_ = thread;
  t.context = boost::context::detail::jump_fcontext(t.context, this).fctx;
  switch (t.state) {
    case State::ready: break;
    case State::barrier: ++at_barrier_; break;
    case State::shuffle:
      if (++arrived_[static_cast<std::size_t>(thread / kWarp)] == kWarp) complete_shuffle(thread / kWarp);
      break;
    case State::finished: ++finished_; break;
  }
}

// A fiber outlives the thread it runs: it waits to run the same thread of the next block.
void BlockRunner::fiber_main(boost::context::detail::transfer_t from) noexcept {
  auto& self = *static_cast<BlockRunner*>(from.data);
  self.scheduler_ = from.fctx;
  for (;;) {
    self.launch_->entry(self.launch_->arguments.data());
    self.suspend(State::finished);
  }
}

void BlockRunner::suspend(State state) noexcept {
  threads_[static_cast<std::size_t>(thread_)].state = state;
  scheduler_ = boost::context::detail::jump_fcontext(scheduler_, nullptr).fctx;
}

void BlockRunner::complete_shuffle(int warp) {
  Thread* lanes = &threads_[static_cast<std::size_t>(warp * kWarp)];
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    lanes[lane].result = lanes[(lane ^ lanes[lane].mask) % kWarp].value;
  }
  arrived_[static_cast<std::size_t>(warp)] = 0;
  make_ready(warp * kWarp, kWarp);
}

// ---- primitives
// ------------------------------------------------------------------------------------------------

void BlockRunner::barrier() noexcept {
  if (!launch_->kernel->synchronizes)
    return fault("a barrier in a kernel whose plan says it has none", thread_);
  suspend(State::barrier);
}

std::uint32_t BlockRunner::shuffle_xor(std::uint32_t value, std::uint32_t mask) noexcept {
  if (!launch_->kernel->synchronizes) {
    fault("a shuffle in a kernel whose plan says it has none", thread_);
    return value;
  }
  Thread& t = threads_[static_cast<std::size_t>(thread_)];
  t.value = value;
  t.mask = mask;
  suspend(State::shuffle);
  return t.result;
}

void* BlockRunner::check_access(void* address, const Access& access) noexcept {
  const Region* meant = region_of(static_cast<std::byte*>(address), access);
  if (meant != nullptr && meant->contains(address, access.bytes) && (meant->writable || !access.store) &&
      reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(access.alignment) == 0) {
    return address;
  }
  report_access(static_cast<std::byte*>(address), access, meant);
  if (scratch_storage_.empty()) scratch_storage_.resize(kScratchBytes + kScratchAlignment);
  std::byte* scratch = align_up(scratch_storage_.data(), kScratchAlignment);
  std::memset(scratch, 0xff, kScratchBytes);
  return scratch;
}

// The region an access belongs to, as far as that is known, else null.
const Region* BlockRunner::region_of(const std::byte* address, const Access& access) const {
  if (access.argument == kSharedMemory) return &shared_;
  if (access.argument >= 0) return &launch_->regions[static_cast<std::size_t>(access.argument)];
  const Region* read_only = nullptr;
  for (const Region& r : launch_->regions) {
    if (!r.contains(address, access.bytes)) continue;
    if (r.writable) return &r;
    read_only = &r;
  }
  return read_only;
}

// ---- faults
// ----------------------------------------------------------------------------------------------------

void BlockRunner::fault(std::string_view what, int thread) {
  if (!fault_.empty()) return;
  fault_ = fmt::format("kernel '{}', block {}, thread {}: {}", launch_->kernel->name, block_, thread, what);
}

void BlockRunner::report_access(const std::byte* address, const Access& access, const Region* meant) {
  const std::string what = fmt::format("{} of {} bytes", access.store ? "store" : "load", access.bytes);
  if (meant == nullptr) {
    fault(fmt::format("{} at {}, outside of every buffer", what, fmt::ptr(address)), thread_);
    return;
  }
  const std::string where = fmt::format("{} at byte {} of {}", what, address - meant->begin, meant->name);
  if (!meant->contains(address, access.bytes)) {
    fault(fmt::format("{}, which has {} bytes", where, meant->bytes), thread_);
  } else if (access.store && !meant->writable) {
    fault(fmt::format("{}, which is read-only", where), thread_);
  } else {
    fault(fmt::format("{} is not aligned to {} bytes", where, access.alignment), thread_);
  }
}

// Nobody is ready, some have not finished, and not all wait at the barrier.
void BlockRunner::report_divergence() {
  const auto count = static_cast<std::size_t>(launch_->kernel->block);
  const auto first = [&](auto&& condition, std::size_t from, std::size_t to) {
    for (std::size_t t = from; t < to; ++t) {
      if (condition(threads_[t].state)) return static_cast<int>(t);
    }
    return -1;
  };
  const auto where = [&](int t) {
    switch (threads_[static_cast<std::size_t>(t)].state) {
      case State::barrier: return "waits at a barrier";
      case State::shuffle: return "waits at a shuffle";
      case State::finished: return "has finished";
      case State::ready: break;
    }
    return "has not started";
  };
  const int shuffling = first([](State s) { return s == State::shuffle; }, 0, count);
  if (shuffling >= 0) {
    const auto warp = static_cast<std::size_t>(shuffling / kWarp);
    const int missing = first([](State s) { return s != State::shuffle; }, warp * kWarp, (warp + 1) * kWarp);
    fault(fmt::format("shuffle not reached by thread {} of the same warp, which {}", missing, where(missing)),
          shuffling);
    return;
  }
  const int waiting = first([](State s) { return s == State::barrier; }, 0, count);
  const int missing = first([](State s) { return s != State::barrier; }, 0, count);
  fault(fmt::format("barrier not reached by thread {}, which {}", missing, where(missing)), waiting);
}

void BlockRunner::drop_fibers() {
  for (Thread& t : threads_) {
    if (t.state != State::finished) t.context = nullptr;
  }
}

}  // namespace bz::sim

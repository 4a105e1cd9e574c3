#include "runtime/sim/cluster_runner.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

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

// From the shared memory of one block to that of the next, with room for accesses that miss the end of one.
std::size_t shared_stride(const PlanKernel& k) {
  return (static_cast<std::size_t>(k.shared_bytes) / kSharedAlignment + 2) * kSharedAlignment;
}

}  // namespace

constinit thread_local ClusterRunner* ClusterRunner::current_ = nullptr;

void ClusterRunner::prepare(const Launch& launch) {
  const PlanKernel& k = *launch.kernel;
  const auto blocks = static_cast<std::size_t>(k.cluster);
  shared_storage_.resize(std::max(shared_storage_.size(), blocks * shared_stride(k) + kSharedAlignment));
  std::byte* begin = align_up(shared_storage_.data(), kSharedAlignment);
  shadows_.clear();
  shared_.clear();
  for (std::size_t rank = 0; launch.check_memory && rank < blocks; ++rank) {
    shadows_.emplace_back(k.shared_bytes, launch.shared_granule);
  }
  for (std::size_t rank = 0; rank < blocks; ++rank) {
    shared_.push_back({begin + rank * shared_stride(k), k.shared_bytes, true, "shared memory",
                       launch.check_memory ? &shadows_[rank] : nullptr});
  }
  const int threads = k.block * k.cluster;
  copies_.resize(std::max(copies_.size(), static_cast<std::size_t>(threads)));
  if (!k.synchronizes) return;
  stacks_.reserve(threads);
  if (threads_.size() < static_cast<std::size_t>(threads)) threads_.resize(static_cast<std::size_t>(threads));
}

std::string ClusterRunner::run(const Launch& launch, std::int64_t cluster, Signals& signals) {
  current_ = this;
  launch_ = &launch;
  signals_ = &signals;
  known_.clear();
  heard_.clear();
  released_ = false;
  first_block_ = static_cast<std::int32_t>(cluster * launch.kernel->cluster);
  fault_.clear();
  if (launch.seed != 0) random_ = Random(mix(launch.seed, static_cast<std::uint64_t>(cluster)));
  for (const Region& shared : shared_) {
    if (launch.nan_memory) std::memset(shared.begin, 0xff, static_cast<std::size_t>(shared.bytes));
    if (shared.shadow != nullptr) shared.shadow->forget_all();
  }
  clock_ = cluster_clock_ = 0;
  block_clocks_.assign(shared_.size(), 0);
  cluster_known_.assign(shared_.size(), Clocks(shared_.size(), 0));
  boxes_.clear();
  remote_ = {};
  ready_.clear();
  for (Copies& c : copies_) c.started.clear(), c.batches.clear();
  if (launch.kernel->synchronizes) {
    run_side_by_side();
  } else {
    run_one_by_one();
  }
  report_pending_copies();
  report_pending_messages();
  current_ = nullptr;
  return std::move(fault_);
}

// ---- scheduling ----

void ClusterRunner::make_ready(int first, int count) {
  for (int t = first + count - 1; t >= first; --t) ready_.push_back(t);
}

int ClusterRunner::take_ready() {
  if (launch_->seed != 0) std::swap(ready_[random_.below(ready_.size())], ready_.back());
  const int t = ready_.back();
  ready_.pop_back();
  return t;
}

void ClusterRunner::enter(int thread) {
  thread_ = thread;
  rank_ = thread / block_threads();
}

void ClusterRunner::run_one_by_one() {
  make_ready(0, cluster_threads());
  while (!ready_.empty()) {
    enter(take_ready());
    launch_->entry(launch_->arguments.data());
  }
}

void ClusterRunner::run_side_by_side() {
  arrived_.assign(static_cast<std::size_t>(cluster_threads() / kWarp), 0);
  at_barrier_.assign(shared_.size(), 0);
  at_cluster_barrier_ = started_ = finished_ = 0;
  for (Thread& t : threads_) t.has_waited = false;
  make_ready(0, cluster_threads());
  while (!ready_.empty()) resume(take_ready());
  if (finished_ == cluster_threads()) return report_last_remote();
  report_divergence();
  drop_fibers();
}

void ClusterRunner::resume(int thread) {
  Thread& t = threads_[static_cast<std::size_t>(thread)];
  if (t.context == nullptr) {
    t.context =
        boost::context::detail::make_fcontext(stacks_.top(thread), FiberStacks::kUsableBytes, &fiber_main);
  }
  t.state = State::ready;
  enter(thread);
  t.context = boost::context::detail::jump_fcontext(t.context, this).fctx;
  switch (t.state) {
    case State::ready: break;
    case State::barrier:
      if (++at_barrier_[static_cast<std::size_t>(rank_)] == block_threads()) open_barrier(rank_);
      break;
    case State::cluster_barrier:
      if (++at_cluster_barrier_ == cluster_threads()) open_cluster_barrier();
      break;
    case State::start:
    case State::message:
    case State::slot: break;
    case State::shuffle:
      if (++arrived_[static_cast<std::size_t>(thread / kWarp)] == kWarp) complete_shuffle(thread / kWarp);
      break;
    case State::finished: ++finished_; break;
  }
}

// A fiber outlives the thread it runs: it waits to run the same thread of the next cluster.
void ClusterRunner::fiber_main(boost::context::detail::transfer_t from) noexcept {
  auto& self = *static_cast<ClusterRunner*>(from.data);
  self.scheduler_ = from.fctx;
  for (;;) {
    self.launch_->entry(self.launch_->arguments.data());
    self.suspend(State::finished, 0);
  }
}

void ClusterRunner::suspend(State state, std::int32_t site) noexcept {
  Thread& t = threads_[static_cast<std::size_t>(thread_)];
  t.state = state;
  t.site = site;
  scheduler_ = boost::context::detail::jump_fcontext(scheduler_, nullptr).fctx;
}

void ClusterRunner::open_barrier(int rank) {
  report_places("barrier", rank * block_threads(), block_threads());
  at_barrier_[static_cast<std::size_t>(rank)] = 0;
  block_clocks_[static_cast<std::size_t>(rank)] = ++clock_;
  merge(known_, heard_);
  make_ready(rank * block_threads(), block_threads());
}

void ClusterRunner::open_cluster_barrier() {
  report_places("cluster barrier", 0, cluster_threads());
  at_cluster_barrier_ = 0;
  cluster_clock_ = ++clock_;
  std::fill(block_clocks_.begin(), block_clocks_.end(), clock_);
  make_ready(0, cluster_threads());
}

void ClusterRunner::complete_shuffle(int warp) {
  report_places("shuffle", warp * kWarp, kWarp);
  Thread* lanes = &threads_[static_cast<std::size_t>(warp * kWarp)];
  for (std::uint32_t lane = 0; lane < kWarp; ++lane) {
    lanes[lane].result = lanes[(lane ^ lanes[lane].mask) % kWarp].value;
  }
  arrived_[static_cast<std::size_t>(warp)] = 0;
  make_ready(warp * kWarp, kWarp);
}

void ClusterRunner::drop_fibers() {
  for (int i = 0; i < cluster_threads(); ++i) {
    Thread& t = threads_[static_cast<std::size_t>(i)];
    if (t.state == State::finished) continue;
    t.context = nullptr;
    stacks_.forget(i);
  }
}

// ---- primitives ----

void* ClusterRunner::cluster_shared(void* address, std::int32_t rank) noexcept {
  if (rank < 0 || rank >= launch_->kernel->cluster) {
    fault(thread_,
          fmt::format("shared memory of block {} of a cluster of {}", rank, launch_->kernel->cluster), {});
    return address;
  }
  return shared_[static_cast<std::size_t>(rank)].begin + (static_cast<std::byte*>(address) - shared());
}

bool ClusterRunner::may_wait(std::string_view at, std::int32_t site) noexcept {
  if (!launch_->kernel->synchronizes)
    fault(thread_, fmt::format("a {} in a kernel whose plan says it has none", at), {site});
  return launch_->kernel->synchronizes;
}

void ClusterRunner::barrier(std::int32_t site) noexcept {
  if (may_wait("barrier", site)) suspend(State::barrier, site);
}

void ClusterRunner::cluster_barrier(std::int32_t site) noexcept {
  if (may_wait("cluster barrier", site)) suspend(State::cluster_barrier, site);
}

std::uint32_t ClusterRunner::shuffle_xor(std::uint32_t value, std::uint32_t mask,
                                         std::int32_t site) noexcept {
  if (!may_wait("shuffle", site)) return value;
  Thread& t = threads_[static_cast<std::size_t>(thread_)];
  t.value = value;
  t.mask = mask;
  suspend(State::shuffle, site);
  return t.result;
}

std::byte* ClusterRunner::counter(void* address, std::int32_t number) {
  if (launch_->check_memory) {
    const Site& site = site_of(number);
    const auto* at = static_cast<const std::byte*>(address);
    const Region* meant = region_of(at, site);
    if (meant == nullptr || !meant->contains(at, site.bytes) || !meant->writable) {
      report_access(at, number, meant);
      return nullptr;
    }
  }
  return static_cast<std::byte*>(address);
}

std::int32_t ClusterRunner::take_ticket(void* queue, std::int32_t site) noexcept {
  auto* at = reinterpret_cast<std::int32_t*>(counter(queue, site));
  return at == nullptr ? std::numeric_limits<std::int32_t>::max() : signals_->take(at);
}

void ClusterRunner::signal(void* address, std::int32_t site) noexcept {
  auto* at = reinterpret_cast<std::int32_t*>(counter(address, site));
  if (at == nullptr) return;
  Clocks known = known_;
  const auto own = static_cast<std::size_t>(block());
  if (known.size() <= own) known.resize(own + 1, 0);
  known[own] = block_clocks_[static_cast<std::size_t>(rank_)];
  signals_->signal(at, known);
}

void ClusterRunner::wait(void* address, std::int32_t count, std::int32_t site) noexcept {
  const auto* at = reinterpret_cast<const std::int32_t*>(counter(address, site));
  if (at == nullptr) return;
  switch (signals_->wait(at, count, heard_)) {
    case Signals::Outcome::reached: return;
    case Signals::Outcome::released: released_ = true; return;
    case Signals::Outcome::hopeless:
      fault(thread_,
            fmt::format("waits for {} signals, and there are {}: no block that runs gives the others", count,
                        *at),
            {site});
  }
}

bool ClusterRunner::allowed(const std::byte* at, std::int64_t bytes, std::int32_t number) {
  const Site& site = site_of(number);
  const Region* meant = region_of(at, site);
  if (meant != nullptr && meant->contains(at, bytes) && (meant->writable || !site.store) &&
      reinterpret_cast<std::uintptr_t>(at) % static_cast<std::uintptr_t>(site.alignment) == 0) {
    if (meant->shadow != nullptr) note(*meant, at, bytes, number);
    return true;
  }
  report_access(at, number, meant);
  return false;
}

void* ClusterRunner::access(void* address, std::int32_t number) noexcept {
  const Site& site = site_of(number);
  auto* at = static_cast<std::byte*>(address);
  if (allowed(at, site.bytes, number)) {
    const Region* meant = site.argument == kClusterMemory ? region_of(at, site) : nullptr;
    if (meant != nullptr && meant != &shared_[static_cast<std::size_t>(rank_)])
      remote_ = {thread_, number, meant, at, clock_};
    return address;
  }
  if (scratch_storage_.empty()) scratch_storage_.resize(kScratchBytes + kScratchAlignment);
  std::byte* scratch = align_up(scratch_storage_.data(), kScratchAlignment);
  std::memset(scratch, 0xff, kScratchBytes);
  return scratch;
}

void ClusterRunner::copy(void* to, const void* from, std::int32_t bytes, std::int32_t valid,
                         std::int32_t site) noexcept {
  const Copy c{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, valid, site};
  if (launch_->check_memory) {
    if (valid > 0 && !allowed(c.from, valid, site)) return;
    if (!allowed(c.to, bytes, site + 1)) return;
    const Region& own = shared_[static_cast<std::size_t>(rank_)];
    own.shadow->forget_written(c.to - own.begin, bytes);
  }
  if (launch_->nan_memory) std::memset(to, 0xff, static_cast<std::size_t>(bytes));
  copies_[static_cast<std::size_t>(thread_)].started.push_back(c);
}

void ClusterRunner::commit_copies() noexcept {
  Copies& c = copies_[static_cast<std::size_t>(thread_)];
  c.batches.push_back(c.started.size());
}

void ClusterRunner::await_copies(std::int32_t pending) noexcept {
  Copies& c = copies_[static_cast<std::size_t>(thread_)];
  const auto landed = static_cast<std::ptrdiff_t>(c.batches.size()) - pending;
  if (landed <= 0) return;
  const auto end = static_cast<std::ptrdiff_t>(c.batches[static_cast<std::size_t>(landed) - 1]);
  std::for_each(c.started.begin(), c.started.begin() + end, [&](const Copy& copy) { land(copy); });
  c.started.erase(c.started.begin(), c.started.begin() + end);
  c.batches.erase(c.batches.begin(), c.batches.begin() + landed);
  for (std::size_t& batch : c.batches) batch -= static_cast<std::size_t>(end);
}

void ClusterRunner::land(const Copy& c) {
  if (launch_->check_memory) allowed(c.to, c.bytes, c.site + 1);
  std::memcpy(c.to, c.from, static_cast<std::size_t>(c.valid));
  std::memset(c.to + c.valid, 0, static_cast<std::size_t>(c.bytes - c.valid));
}

// A block's shared memory is another's when it finishes.
void ClusterRunner::report_pending_copies() {
  for (int t = 0; t < cluster_threads(); ++t) {
    const Copies& c = copies_[static_cast<std::size_t>(t)];
    if (c.started.empty()) continue;
    return fault(t, "a copy that its thread never awaits", {c.started.front().site});
  }
}

// The region an access belongs to, as far as that is known, else null.
const Region* ClusterRunner::region_of(const std::byte* address, const Site& site) const {
  if (site.argument == kSharedMemory) return &shared_[static_cast<std::size_t>(rank_)];
  if (site.argument == kClusterMemory) {
    const auto next =
        std::find_if(shared_.begin() + 1, shared_.end(), [&](const Region& r) { return address < r.begin; });
    return &*(next - 1);
  }
  if (site.argument >= 0) return &launch_->regions[static_cast<std::size_t>(site.argument)];
  const Region* read_only = nullptr;
  for (const Region& r : launch_->regions) {
    if (!r.contains(address, site.bytes)) continue;
    if (r.writable) return &r;
    read_only = &r;
  }
  return read_only;
}

void ClusterRunner::note(const Region& region, const std::byte* address, std::int64_t bytes,
                         std::int32_t number) {
  const Site& site = site_of(number);
  Moment now;
  now.event.block = static_cast<std::uint32_t>(block());
  now.event.clock = clock_;
  now.event.thread = static_cast<std::uint32_t>(thread());
  now.event.site = static_cast<std::uint32_t>(number);
  now.block_clock = block_clocks_[static_cast<std::size_t>(rank_)];
  now.cluster_clock = cluster_clock_;
  now.cluster_first = static_cast<std::uint32_t>(first_block_);
  now.cluster_end = static_cast<std::uint32_t>(first_block_ + launch_->kernel->cluster);
  now.known = known_.empty() ? std::span<const std::uint32_t>(cluster_known_[static_cast<std::size_t>(rank_)])
                             : std::span<const std::uint32_t>(known_);
  now.known_first = known_.empty() ? now.cluster_first : 0;
  const std::int64_t offset = address - region.begin;
  try {
    const Finding finding = site.store ? region.shadow->store(offset, bytes, now)
                                       : region.shadow->load(offset, bytes, now, region.stored);
    if (finding.kind != Finding::Kind::nothing) report_finding(finding, region, address, number);
  } catch (const std::bad_alloc&) {  // must not reach compiled code
    fault(thread_, "there is no memory left to remember accesses; SimOptions::check_memory turns that off",
          {number});
  }
}

}  // namespace bz::sim

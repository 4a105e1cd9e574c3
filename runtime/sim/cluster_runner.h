// Runs the threads of one cluster at a time on one host thread. In most kernels a cluster is one block.
//
// Threads of a kernel that synchronizes are fibers: each runs until it waits at a barrier or a shuffle or for messages, or
// finishes. When every thread of the block (cluster) waits at the barrier, or all lanes of a warp at the shuffle, they
// may go on; when nobody may, threads have diverged, which is a fault. Other kernels need no fibers, a loop
// calls one thread after the other.
//
// A fault never unwinds compiled code. The first one of a cluster is kept as text; after an access out of
// bounds the thread goes on with scratch memory, after divergence the fibers are dropped where they stand.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/sim/fiber_stacks.h"
#include "runtime/sim/launch.h"
#include "runtime/sim/random.h"
#include "runtime/sim/shadow.h"
#include "runtime/sim/signals.h"

namespace bz::sim {

class ClusterRunner {
 public:
  ClusterRunner() = default;
  ClusterRunner(const ClusterRunner&) = delete;
  ClusterRunner& operator=(const ClusterRunner&) = delete;

  // Makes what `launch` needs of stacks and shared memory. Throws DeviceError when there is no memory.
  void prepare(const Launch& launch);
  // Runs a cluster of a launch that was prepared. Returns the first fault, empty when there is none.
  std::string run(const Launch& launch, std::int64_t cluster, Signals& signals);

  // ---- called by kernels, through primitives.cpp; `site` is the number of the caller's Site ----
  static ClusterRunner& current() noexcept { return *current_; }
  std::int32_t thread() const noexcept { return thread_ - rank_ * launch_->kernel->block; }
  // As kernels see it: the blocks of a gang do not follow each other. Here, and in messages, those that run together do.
  std::int32_t block_index() const noexcept {
    const PlanKernel& k = *launch_->kernel;
    return k.gang ? rank_ * (blocks() / k.cluster) + first_block_ / k.cluster : block();
  }
  std::int32_t block() const noexcept { return first_block_ + rank_; }
  std::byte* shared() const noexcept { return shared_[static_cast<std::size_t>(rank_)].begin; }
  void* cluster_shared(void* address, std::int32_t rank) noexcept;
  std::int32_t blocks() const noexcept { return static_cast<std::int32_t>(launch_->blocks); }
  // Copies land when they are awaited, as late as they may; what they will overwrite is gone at once.
  void copy(void* to, const void* from, std::int32_t bytes, std::int32_t valid, std::int32_t site) noexcept;
  void commit_copies() noexcept;
  void await_copies(std::int32_t pending) noexcept;
  // Between the blocks of the launch. A wait holds up the whole block: what it is for, others do.
  std::int32_t take_ticket(void* queue, std::int32_t site) noexcept;
  void signal(void* counter, std::int32_t site) noexcept;
  void wait(void* counter, std::int32_t count, std::int32_t site) noexcept;
  // Between the blocks of a gang. A pause ends when somebody posts.
  void post(void* slot, std::uint32_t bits, std::int32_t round, std::int32_t site) noexcept;
  std::uint64_t peek(void* slot, std::int32_t site) noexcept;
  void pause(bool looked, std::int32_t site) noexcept;
  void barrier(std::int32_t site) noexcept;
  void cluster_barrier(std::int32_t site) noexcept;
  // Messages arrive when the round is over for which they are expected, as late as they may.
  void start(std::int32_t site) noexcept;
  void await_start(std::int32_t site) noexcept;
  void open_box(void* box, std::int32_t site) noexcept;
  void send(void* to, std::uint64_t bits, std::int32_t bytes, void* box, std::int32_t site) noexcept;
  void expect(void* box, std::int32_t bytes, std::int32_t site) noexcept;
  void receive(void* box, std::int32_t parity, std::int32_t site) noexcept;
  std::uint32_t shuffle_xor(std::uint32_t value, std::uint32_t mask, std::int32_t site) noexcept;
  // `address` when the access is allowed, else scratch memory.
  void* access(void* address, std::int32_t site) noexcept;

 private:
  enum class State : std::uint8_t {
    ready,
    barrier,
    cluster_barrier,
    start,
    message,
    slot,
    shuffle,
    finished
  };
  struct Thread {
    boost::context::detail::fcontext_t context = nullptr;  // where to go on; null: no fiber yet
    State state = State::ready;
    std::int32_t site = 0;                          // where it waits
    std::uint32_t value = 0, mask = 0, result = 0;  // of the shuffle it takes part in
    const void* box = nullptr;                      // whose messages it waits for
    bool has_waited = false;                        // for the start of the cluster
  };

  struct Message {
    std::byte* to;
    std::uint64_t bits;
    std::int32_t bytes, site;
  };
  struct Mailbox {
    int rank = 0;               // of its block
    std::int64_t rounds = 0;    // that are over
    std::int64_t received = 0;  // of them, up to the last that a thread has waited for
    std::int64_t arrived = 0;   // bytes, in this one
    std::int64_t expected = -1;
    std::vector<Message> pending;
    std::int32_t last = 0;             // site of a message
    std::vector<std::uint32_t> known;  // to those who sent them, of each block
  };

  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::int32_t bytes, valid, site;
  };
  // Of a thread, those that have not landed.
  struct Copies {
    std::vector<Copy> started;
    std::vector<std::size_t> batches;  // the end of each among `started`
  };

  static void fiber_main(boost::context::detail::transfer_t from) noexcept;
  int block_threads() const { return launch_->kernel->block; }
  int cluster_threads() const { return launch_->kernel->block * launch_->kernel->cluster; }
  void run_side_by_side();
  void run_one_by_one();
  void make_ready(int first, int count);
  int take_ready();
  void enter(int thread);
  void resume(int thread);
  void suspend(State state, std::int32_t site) noexcept;
  bool may_wait(std::string_view at, std::int32_t site) noexcept;
  void open_barrier(int rank);
  void open_cluster_barrier();
  void complete_shuffle(int warp);
  void drop_fibers();

  const Region* region_of(const std::byte* address, const Site& site) const;
  // Whether the site may access so many bytes; notes the access or reports it.
  bool allowed(const std::byte* address, std::int64_t bytes, std::int32_t site);
  void note(const Region& region, const std::byte* address, std::int64_t bytes, std::int32_t site);
  void land(const Copy& copy);
  std::byte* counter(void* address, std::int32_t site);  // null, and a fault, where there is none
  void report_pending_copies();

  // ---- messages.cpp ----
  Mailbox* box_at(const void* address, std::int32_t site);
  void end_round(const void* address, Mailbox& box);
  void report_pending_messages();

  // ---- reports.cpp ----
  // Keeps what was found as the cluster's fault, unless it has one: "kernel 'k', block 0, thread 1: " and `what`, then
  // the lines of kernel IR of the sites.
  void fault(int thread, std::string_view what, std::initializer_list<std::int32_t> sites);
  std::string line_text(std::int32_t site) const;
  const Site& site_of(std::int32_t number) const { return launch_->sites[static_cast<std::size_t>(number)]; }
  std::string describe_access(const Region& region, const std::byte* address, const Site& site) const;
  void report_last_remote();
  std::string describe_thread(int thread, int seen_from) const;
  void report_access(const std::byte* address, std::int32_t site, const Region* meant);
  void report_finding(const Finding& finding, const Region& region, const std::byte* address,
                      std::int32_t site);
  void report_places(std::string_view what, int first, int count);
  void report_divergence();

  static constinit thread_local ClusterRunner* current_;
  const Launch* launch_ = nullptr;
  std::int32_t first_block_ = 0;
  std::int32_t thread_ = 0;  // in the cluster
  std::int32_t rank_ = 0;    // of its block
  std::string fault_;
  Random random_{0};
  // The latest access to another block's shared memory.
  struct {
    int thread = 0;
    std::int32_t site = 0;  // 0: there was none
    const Region* region = nullptr;
    const std::byte* address = nullptr;
    std::uint32_t clock = 0;
  } remote_;

  std::vector<Thread> threads_;
  std::vector<Copies> copies_;   // by thread
  std::vector<int> ready_;       // taken from the back
  std::vector<int> arrived_;     // lanes at the shuffle, by warp
  std::vector<int> at_barrier_;  // threads, by block
  int at_cluster_barrier_ = 0, started_ = 0, finished_ = 0;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  FiberStacks stacks_;

  // Ticks when a barrier opens; what came before that of a block (of the cluster) comes before all that follows in it.
  std::uint32_t clock_ = 0, cluster_clock_ = 0;
  std::vector<std::uint32_t> block_clocks_;
  std::vector<Clocks> cluster_known_;     // by block: what it knows of each block of the cluster, see Moment
  std::map<const void*, Mailbox> boxes_;  // by address
  // What the block knows of others, and what it will from its next barrier on.
  Signals* signals_ = nullptr;
  Clocks known_, heard_;
  bool released_ = false;  // it goes on without what it waited for: nothing that it does is a fault

  std::vector<std::byte> shared_storage_;
  std::vector<Region> shared_;  // by block
  std::vector<Shadow> shadows_;
  std::vector<std::byte> scratch_storage_;
};

}  // namespace bz::sim

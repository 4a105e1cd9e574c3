// How the simulator says what is wrong.
#include "ir/simt.h"
#include "runtime/sim/cluster_runner.h"
#include "support/error.h"

namespace bz::sim {
namespace {

constexpr int kWarp = simt::kWarp;

std::string_view kind(const Site& site) { return site.store ? "store" : "load"; }

}  // namespace

// "\n  line 12: v4 = load x[tr]  (%5 = sum)", empty when the line is not known.
std::string ClusterRunner::line_text(std::int32_t site) const {
  const auto number = static_cast<std::size_t>(site_of(site).line);
  const std::vector<PlanLine>& lines = launch_->kernel->lines;
  if (number == 0 || number > lines.size()) return "";
  const PlanLine& line = lines[number - 1];
  return fmt::format("\n  line {}: {}{}", number, line.text,
                     line.node.empty() ? "" : fmt::format("  ({})", line.node));
}

void ClusterRunner::fault(int thread, std::string_view what, std::initializer_list<std::int32_t> sites) {
  if (!fault_.empty() || released_) return;
  fault_ = fmt::format("kernel '{}', block {}, thread {}: {}", launch_->kernel->name,
                       first_block_ + thread / block_threads(), thread % block_threads(), what);
  std::string last;
  for (const std::int32_t s : sites) {
    const std::string text = line_text(s);
    if (text != last) fault_ += text;
    last = text;
  }
}

// "thread 7", with its block when that is another one.
std::string ClusterRunner::describe_thread(int thread, int seen_from) const {
  const int rank = thread / block_threads();
  const std::string text = fmt::format("thread {}", thread % block_threads());
  return rank == seen_from / block_threads() ? text : text + fmt::format(" of block {}", first_block_ + rank);
}

// ---- memory ----

// "load of 4 bytes at byte 8 of shared memory"
std::string ClusterRunner::describe_access(const Region& region, const std::byte* address,
                                           const Site& site) const {
  const std::string text = fmt::format("{} of {} bytes at byte {} of {}", kind(site), site.bytes,
                                       address - region.begin, region.name);
  const auto rank = static_cast<std::int32_t>(&region - shared_.data());
  const bool others = site.argument == kClusterMemory && rank != rank_;
  return others ? text + fmt::format(" of block {}", first_block_ + rank) : text;
}

void ClusterRunner::report_access(const std::byte* address, std::int32_t number, const Region* meant) {
  if (!fault_.empty()) return;
  const Site& site = site_of(number);
  if (meant == nullptr) {
    fault(thread_,
          fmt::format("{} of {} bytes at {}, outside of every buffer", kind(site), site.bytes,
                      fmt::ptr(address)),
          {number});
    return;
  }
  const std::string access = describe_access(*meant, address, site);
  if (!meant->contains(address, site.bytes)) {
    fault(thread_, fmt::format("{}, which has {} bytes", access, meant->bytes), {number});
  } else if (site.store && !meant->writable) {
    fault(thread_, fmt::format("{}, which is read-only", access), {number});
  } else {
    fault(thread_, fmt::format("{} is not aligned to {} bytes", access, site.alignment), {number});
  }
}

void ClusterRunner::report_finding(const Finding& finding, const Region& region, const std::byte* address,
                                   std::int32_t number) {
  if (!fault_.empty()) return;
  const std::string access = describe_access(region, address, site_of(number));
  if (finding.kind == Finding::Kind::unwritten) {
    fault(thread_, fmt::format("{}, where nobody has written byte {}", access, finding.at), {number});
    return;
  }
  const Event& other = finding.other;
  const auto other_site = static_cast<std::int32_t>(other.site);
  const auto own_block = static_cast<std::uint32_t>(block());
  const auto clustermate = static_cast<std::int64_t>(other.block) - first_block_;
  std::string_view order = known_.empty() ? "nothing orders blocks" : "no signal orders them";
  std::string by = fmt::format("thread {}", +other.thread);
  if (other.block == own_block) {
    order = "no barrier orders them";
  } else {
    by += fmt::format(" of block {}", other.block);
    if (clustermate >= 0 && clustermate < launch_->kernel->cluster) order = "no cluster barrier orders them";
  }
  fault(thread_, fmt::format("{} races with a {} by {}: {}", access, kind(site_of(other_site)), by, order),
        {number, other_site});
}

// A block's shared memory is gone when it finishes: accesses of other blocks come before a last cluster barrier.
void ClusterRunner::report_last_remote() {
  if (remote_.site == 0 || remote_.clock < cluster_clock_) return;
  enter(remote_.thread);
  fault(thread_,
        fmt::format("{}, which may have finished: no cluster barrier follows",
                    describe_access(*remote_.region, remote_.address, site_of(remote_.site))),
        {remote_.site});
}

// ---- threads that do not meet ----

// The threads have met: all at one place?
void ClusterRunner::report_places(std::string_view what, int first, int count) {
  const std::int32_t site = threads_[static_cast<std::size_t>(first)].site;
  for (int t = first + 1; t < first + count; ++t) {
    const std::int32_t other = threads_[static_cast<std::size_t>(t)].site;
    if (other == site) continue;
    fault(first, fmt::format("{} met by {} at another {}", what, describe_thread(t, first), what),
          {site, other});
    return;
  }
}

// Nobody is ready, and some have not finished.
void ClusterRunner::report_divergence() {
  const auto state = [&](int t) { return threads_[static_cast<std::size_t>(t)].state; };
  const auto first = [&](int from, int count, auto&& condition) {
    for (int t = from; t < from + count; ++t) {
      if (condition(state(t))) return t;
    }
    return -1;
  };
  const auto where = [&](int t) {
    switch (state(t)) {
      case State::barrier: return "waits at a barrier";
      case State::cluster_barrier: return "waits at a cluster barrier";
      case State::start: return "waits for the start of the cluster";
      case State::message: return "waits for messages";
      case State::slot: return "waits for what another block posts";
      case State::shuffle: return "waits at a shuffle";
      case State::finished: return "has finished";
      case State::ready: break;
    }
    return "has not started";
  };
  // The group of threads that a waiting one has to meet, from the smallest.
  const auto report = [&](State at, std::string_view what, int group) {
    const int waiting = first(0, cluster_threads(), [&](State s) { return s == at; });
    if (waiting < 0) return false;
    const int missing = first(waiting / group * group, group, [&](State s) { return s != at; });
    fault(
        waiting,
        fmt::format("{} not reached by {}{}, which {}", what, describe_thread(missing, waiting),
                    at == State::shuffle ? " of the same warp" : "", where(missing)),
        {threads_[static_cast<std::size_t>(waiting)].site, threads_[static_cast<std::size_t>(missing)].site});
    return true;
  };
  if (report(State::shuffle, "shuffle", kWarp)) return;
  if (report(State::barrier, "barrier", block_threads())) return;
  if (report(State::cluster_barrier, "cluster barrier", cluster_threads())) return;
  const int early = first(0, cluster_threads(), [&](State s) { return s == State::start; });
  if (early >= 0) {
    return fault(early,
                 fmt::format("waits for the start of the cluster, where {} of {} threads are", started_,
                             cluster_threads()),
                 {threads_[static_cast<std::size_t>(early)].site});
  }
  const int collects = first(0, cluster_threads(), [&](State s) { return s == State::slot; });
  if (collects >= 0) {
    return fault(collects, "waits for what nobody posts",
                 {threads_[static_cast<std::size_t>(collects)].site});
  }
  const int waiting = first(0, cluster_threads(), [&](State s) { return s == State::message; });
  if (waiting < 0) return;
  const Thread& t = threads_[static_cast<std::size_t>(waiting)];
  const Mailbox& box = boxes_.at(t.box);
  fault(waiting,
        box.expected < 0
            ? fmt::format("waits for messages, and nobody says how many: {} bytes came", box.arrived)
            : fmt::format("waits for messages of {} bytes, and {} came", box.expected, box.arrived),
        {t.site});
}

}  // namespace bz::sim

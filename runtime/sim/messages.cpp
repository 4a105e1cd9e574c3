// Messages between the blocks of a cluster.
#include <algorithm>
#include <cstring>

#include "runtime/sim/cluster_runner.h"
#include "support/error.h"

namespace bz::sim {

void ClusterRunner::start(std::int32_t site) noexcept {
  if (!may_wait("start", site) || ++started_ != cluster_threads()) return;
  for (int t = cluster_threads() - 1; t >= 0; --t) {
    if (threads_[static_cast<std::size_t>(t)].state == State::start) make_ready(t, 1);
  }
}

void ClusterRunner::await_start(std::int32_t site) noexcept {
  if (!may_wait("start", site)) return;
  if (started_ < cluster_threads()) suspend(State::start, site);
  threads_[static_cast<std::size_t>(thread_)].has_waited = true;
}

void ClusterRunner::open_box(void* box, std::int32_t) noexcept {
  boxes_[box] = {.rank = rank_, .pending = {}, .known = std::vector<std::uint32_t>(shared_.size(), 0)};
}

// Null, and a fault, when there is no mailbox that this block may use.
ClusterRunner::Mailbox* ClusterRunner::box_at(const void* address, std::int32_t site) {
  const auto at = boxes_.find(address);
  if (at == boxes_.end()) {
    fault(thread_, "a mailbox that was not opened", {site});
    return nullptr;
  }
  return &at->second;
}

void ClusterRunner::send(void* to, std::uint64_t bits, std::int32_t bytes, void* address,
                         std::int32_t site) noexcept {
  if (!may_wait("message", site)) return;
  if (!threads_[static_cast<std::size_t>(thread_)].has_waited)
    return fault(thread_, "a message to a block that may not have started", {site});
  Mailbox* box = box_at(address, site);
  if (box == nullptr) return;
  const Message m{static_cast<std::byte*>(to), bits, bytes, site};
  const Region& region = shared_[static_cast<std::size_t>(box->rank)];
  if (!region.contains(to, bytes)) {
    return fault(thread_,
                 fmt::format("a message to another block than block {}, which has the mailbox",
                             first_block_ + box->rank),
                 {site});
  }
  if (launch_->check_memory) {
    if (!allowed(m.to, bytes, site)) return;
    region.shadow->forget_written(m.to - region.begin, bytes);
  }
  if (launch_->nan_memory) std::memset(to, 0xff, static_cast<std::size_t>(bytes));
  // Who receives it knows what the sender's block did before its last barrier, and what that knows.
  const auto own = static_cast<std::size_t>(rank_);
  for (std::size_t b = 0; b < box->known.size(); ++b)
    box->known[b] = std::max(box->known[b], b == own ? block_clocks_[own] : cluster_known_[own][b]);
  box->pending.push_back(m);
  box->last = site;
  box->arrived += bytes;
  end_round(address, *box);
}

void ClusterRunner::expect(void* address, std::int32_t bytes, std::int32_t site) noexcept {
  Mailbox* box = box_at(address, site);
  if (box == nullptr) return;
  if (box->expected >= 0) return fault(thread_, "messages are expected twice in a round", {site});
  box->expected = bytes;
  end_round(address, *box);
}

void ClusterRunner::receive(void* address, std::int32_t parity, std::int32_t site) noexcept {
  Mailbox* box = may_wait("receive", site) ? box_at(address, site) : nullptr;
  if (box == nullptr) return;
  if (box->rounds % 2 != parity) {
    box->received = box->rounds;
    return;
  }
  threads_[static_cast<std::size_t>(thread_)].box = address;
  suspend(State::message, site);
}

void ClusterRunner::end_round(const void* address, Mailbox& box) {
  if (box.expected < 0 || box.arrived < box.expected) return;
  if (box.arrived > box.expected) {
    return fault(thread_, fmt::format("messages of {} bytes in a round of {}", box.arrived, box.expected),
                 {box.pending.back().site});
  }
  const auto rank = static_cast<std::size_t>(box.rank);
  const Region& region = shared_[rank];
  for (const Message& m : box.pending) {
    std::memcpy(m.to, &m.bits, static_cast<std::size_t>(m.bytes));
    if (region.shadow != nullptr) region.shadow->settle(m.to - region.begin, m.bytes);
  }
  for (std::size_t b = 0; b < box.known.size(); ++b)
    cluster_known_[rank][b] = std::max(cluster_known_[rank][b], box.known[b]);
  box.pending.clear();
  box.arrived = 0;
  box.expected = -1;
  ++box.rounds;
  for (int t = (box.rank + 1) * block_threads() - 1; t >= box.rank * block_threads(); --t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state != State::message || thread.box != address) continue;
    thread.state = State::ready;
    box.received = box.rounds;
    make_ready(t, 1);
  }
}

// Before a block finishes it has received what is sent to it.
void ClusterRunner::report_pending_messages() {
  for (const auto& [address, box] : boxes_) {
    if (box.pending.empty() && box.received == box.rounds) continue;
    return fault(box.rank * block_threads(), "a message that its block never receives", {box.last});
  }
}

}  // namespace bz::sim

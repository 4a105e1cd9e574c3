// What the blocks of a gang post for each other: a word each, of which the upper half is the round.
#include <fmt/format.h>

#include <cstring>

#include "runtime/sim/cluster_runner.h"

namespace bz::sim {
namespace {

std::uint64_t word_at(const void* slot) {
  std::uint64_t word = 0;
  std::memcpy(&word, slot, sizeof word);
  return word;
}

std::int32_t round_of(std::uint64_t word) { return static_cast<std::int32_t>(word >> 32); }

}  // namespace

void ClusterRunner::post(void* address, std::uint32_t bits, std::int32_t round, std::int32_t site) noexcept {
  if (!may_wait("post", site)) return;
  std::byte* slot = counter(address, site);
  if (slot == nullptr) return;
  if (round <= round_of(word_at(slot)))
    return fault(thread_, "a slot that has what is posted of this round, or of a later one", {site});
  const std::uint64_t word = static_cast<std::uint64_t>(static_cast<std::uint32_t>(round)) << 32 | bits;
  std::memcpy(slot, &word, sizeof word);
  for (int t = cluster_threads() - 1; t >= 0; --t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state != State::slot) continue;
    thread.state = State::ready;
    make_ready(t, 1);
  }
}

std::uint64_t ClusterRunner::peek(void* address, std::int32_t site) noexcept {
  const std::byte* slot = counter(address, site);
  return slot == nullptr ? 0 : word_at(slot);
}

// What a thread looks at it looks at without a pause in between: nobody posts meanwhile.
void ClusterRunner::pause(bool looked, std::int32_t site) noexcept {
  if (may_wait("pause", site) && looked) suspend(State::slot, site);
}

}  // namespace bz::sim

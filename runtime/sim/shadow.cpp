#include "runtime/sim/shadow.h"

#include <algorithm>

namespace bz::sim {
namespace {

constexpr std::int64_t kWord = 64;

// Held for a few nanoseconds, on pages that mostly one thread is at.
class SpinLock {
 public:
  explicit SpinLock(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;
  ~SpinLock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

// How far the other block is from that of `now`.
int distance(const Event& other, const Moment& now) {
  if (other.block == now.event.block) return 0;
  return now.in_cluster(other.block) ? 1 : 2;
}

}  // namespace

Shadow::Shadow(std::int64_t bytes, int granule)
    : granules_((bytes + granule - 1) / granule),
      granule_(granule),
      pages_(static_cast<std::size_t>((granules_ + kPageGranules - 1) / kPageGranules)) {}

std::int64_t Shadow::size_of(std::size_t page) const {
  return std::min(kPageGranules, granules_ - static_cast<std::int64_t>(page) * kPageGranules);
}

template <class F>
Finding Shadow::each_granule(std::int64_t offset, std::int64_t bytes, F&& visit) {
  const std::int64_t end = (offset + bytes - 1) / granule_ + 1;
  for (std::int64_t g = offset / granule_; g < end;) {
    const auto number = static_cast<std::size_t>(g / kPageGranules);
    const std::int64_t first = static_cast<std::int64_t>(number) * kPageGranules;
    Page& page = pages_[number];
    const SpinLock lock(page.busy);
    for (; g < std::min(end, first + kPageGranules); ++g) {
      Finding f = visit(page, number, static_cast<std::size_t>(g - first));
      if (f.kind == Finding::Kind::nothing) continue;
      f.at = g * granule_;
      return f;
    }
  }
  return {};
}

const Event* Shadow::conflict(const Page& page, std::size_t i, const Moment& now, bool store) {
  const auto concurrent = [&](const Event& e) { return e.site != 0 && !now.follows(e); };
  if (page.stores != nullptr && concurrent(page.stores[i])) return &page.stores[i];
  if (!store || page.loads == nullptr) return nullptr;
  const Loads& loads = page.loads[i];
  return concurrent(loads.a) ? &loads.a : concurrent(loads.b) ? &loads.b : nullptr;
}

// Keeps two loads that are concurrent, and as far from each other as there are: a store that comes after both comes
// after all others too.
void Shadow::remember(Loads& loads, const Moment& now) {
  const auto over = [&](const Event& e) { return e.site == 0 || now.follows(e); };
  if (over(loads.a)) {
    loads.a = now.event;
    if (over(loads.b)) loads.b = {};
  } else if (over(loads.b) || (distance(loads.a, now) > 0 && loads.a.block == loads.b.block)) {
    loads.b = now.event;
  } else if (distance(loads.a, now) == 2 && distance(loads.b, now) == 2) {
    loads.b = now.event;
  }
}

Finding Shadow::load(std::int64_t offset, std::int64_t bytes, const Moment& now, bool remember) {
  return each_granule(offset, bytes, [&](Page& page, std::size_t number, std::size_t i) -> Finding {
    const bool written = page.written != nullptr && (page.written[i / kWord] >> (i % kWord) & 1) != 0;
    if (!written) return {.kind = Finding::Kind::unwritten};
    if (const Event* other = conflict(page, i, now, false)) {
      return {.kind = Finding::Kind::race, .other = *other};
    }
    if (remember) {
      if (page.loads == nullptr)
        page.loads = std::make_unique<Loads[]>(static_cast<std::size_t>(size_of(number)));
      Shadow::remember(page.loads[i], now);
    }
    return {};
  });
}

Finding Shadow::store(std::int64_t offset, std::int64_t bytes, const Moment& now) {
  return each_granule(offset, bytes, [&](Page& page, std::size_t number, std::size_t i) -> Finding {
    const auto size = static_cast<std::size_t>(size_of(number));
    if (page.written == nullptr) page.written = std::make_unique<std::uint64_t[]>((size + kWord - 1) / kWord);
    page.written[i / kWord] |= std::uint64_t{1} << (i % kWord);
    if (const Event* other = conflict(page, i, now, true)) {
      return {.kind = Finding::Kind::race, .other = *other};
    }
    if (page.stores == nullptr) page.stores = std::make_unique<Event[]>(size);
    page.stores[i] = now.event;
    if (page.loads != nullptr) page.loads[i] = {};
    return {};
  });
}

void Shadow::settle(std::int64_t offset, std::int64_t bytes) {
  each_granule(offset, bytes, [&](Page& page, std::size_t, std::size_t i) -> Finding {
    if (page.written != nullptr) page.written[i / kWord] |= std::uint64_t{1} << (i % kWord);
    if (page.stores != nullptr) page.stores[i] = {};
    return {};
  });
}

void Shadow::forget_written(std::int64_t offset, std::int64_t bytes) {
  each_granule(offset, bytes, [&](Page& page, std::size_t, std::size_t i) -> Finding {
    if (page.written != nullptr) page.written[i / kWord] &= ~(std::uint64_t{1} << (i % kWord));
    return {};
  });
}

void Shadow::forget_accesses() {
  for (Page& p : pages_) {
    p.stores.reset();
    p.loads.reset();
  }
}

void Shadow::forget_all() {
  forget_accesses();
  for (Page& p : pages_) p.written.reset();
}

std::int64_t Shadow::first_unwritten() const {
  for (std::size_t number = 0; number < pages_.size(); ++number) {
    const Page& page = pages_[number];
    for (std::int64_t i = 0; i < size_of(number); ++i) {
      const auto word = static_cast<std::size_t>(i / kWord);
      if (page.written == nullptr || (page.written[word] >> (i % kWord) & 1) == 0) {
        return (static_cast<std::int64_t>(number) * kPageGranules + i) * granule_;
      }
    }
  }
  return -1;
}

}  // namespace bz::sim

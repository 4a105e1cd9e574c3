// What the simulator knows of the bytes of a buffer: whether they were written, and who accessed them during the
// launch, to find reads of what nobody wrote and data races.
//
// Memory is divided into granules, of the size of the smallest access. An access is known by its thread and the clock
// of its cluster, which ticks when a barrier opens. Of an access and a later one by another thread, the first comes
// before the second if their block (cluster) has passed one of its barriers since, or if the second's block knows of it
// by a signal. A granule remembers its last store and two loads that nothing has come after: if any load is concurrent
// with a store to come, one of those two is. This is the reasoning of FastTrack (Flanagan and Freund 2009).
//
//   Shadow s(4096, 4);
//   Finding f = s.store(16, 4, now);      // f.kind == Finding::Kind::race: with f.other
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bz::sim {

// An access by a thread of the launch.
struct Event {
  static constexpr int kThreadBits = 10, kSiteBits = 22;
  std::uint32_t block = 0;
  std::uint32_t clock = 0;
  std::uint32_t thread : kThreadBits = 0;
  std::uint32_t site : kSiteBits = 0;  // number of the Site; 0: there was no access
};

// An access that happens now, and what is known to come before it.
struct Moment {
  Event event;
  std::uint32_t block_clock = 0;    // what its block did before this came before it
  std::uint32_t cluster_clock = 0;  // the same of its cluster
  std::uint32_t cluster_first = 0;  // blocks of the cluster
  std::uint32_t cluster_end = 1;
  // What the block knows of others, beginning with block `known_first`, from waiting for what they signalled: all that
  // block known_first + i did while its clock was below known[i] came before this.
  std::span<const std::uint32_t> known = {};
  std::uint32_t known_first = 0;

  bool in_cluster(std::uint32_t block) const { return block >= cluster_first && block < cluster_end; }
  bool follows(const Event& e) const {
    if (e.block == event.block) return e.thread == event.thread || e.clock < block_clock;
    if (in_cluster(e.block) && e.clock < cluster_clock) return true;
    const std::size_t i = e.block - known_first;
    return e.block >= known_first && i < known.size() && e.clock < known[i];
  }
};

struct Finding {
  enum class Kind : std::uint8_t { nothing, unwritten, race };
  Kind kind = Kind::nothing;
  std::int64_t at = 0;  // first byte of the granule
  Event other;          // of a race
};

// Safe to use from several threads, but for the constructor and what forgets.
class Shadow {
 public:
  Shadow(std::int64_t bytes, int granule);

  // Accesses to `bytes` bytes at `offset`, all inside. A load that no store of the launch can meet need not be
  // remembered. The first problem is returned.
  Finding load(std::int64_t offset, std::int64_t bytes, const Moment& now, bool remember);
  Finding store(std::int64_t offset, std::int64_t bytes, const Moment& now);

  // Written, by what comes before all that follows.
  void settle(std::int64_t offset, std::int64_t bytes);
  // As if nobody had written there.
  void forget_written(std::int64_t offset, std::int64_t bytes);
  void forget_accesses();  // what follows comes after all that was
  void forget_all();       // accesses, and that anything was written
  // The first byte that was not written, -1 when there is none.
  std::int64_t first_unwritten() const;

 private:
  static constexpr std::int64_t kPageGranules = 1024;
  struct Loads {
    Event a, b;
  };
  struct Page {
    std::atomic_flag busy;
    std::unique_ptr<std::uint64_t[]> written;  // a bit a granule
    std::unique_ptr<Event[]> stores;           // null: none since accesses were forgotten
    std::unique_ptr<Loads[]> loads;
  };

  std::int64_t size_of(std::size_t page) const;  // in granules
  static void remember(Loads& loads, const Moment& now);
  static const Event* conflict(const Page& page, std::size_t i, const Moment& now, bool store);
  template <class F>
  Finding each_granule(std::int64_t offset, std::int64_t bytes, F&& visit);

  std::int64_t granules_;
  int granule_;
  std::vector<Page> pages_;
};

}  // namespace bz::sim

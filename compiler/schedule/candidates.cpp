#include "compiler/schedule/candidates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <span>

#include "compiler/fuse/cost.h"
#include "compiler/schedule/tile.h"

namespace bz::compiler {
namespace {

void add_with_keeps(std::vector<Schedule>& out, Schedule s, const Region& region) {
  if (region.phases() > 1) {
    for (const Keep keep : {Keep::registers, Keep::shared}) {
      s.keep = keep;
      out.push_back(s);
    }
  }
  s.keep = Keep::nothing;
  out.push_back(s);
}

// Whether sectors that are moved for a few of their elements take half as long again as all elements would, and a tile
// would move them whole.
bool wants_tile(const Region& region, const std::vector<Access>& all, const Tile& tile) {
  double useful = 0, wasted = 0;
  for (const Access& a : all) {
    const auto bytes = static_cast<double>(a.bytes());
    useful += bytes;
    if (contiguous_along(a.offset, tile.along.var) || contiguous_along(a.offset, tile.across.var))
      wasted += bytes * (sectors_per_element(a, region.kept) - 1);
  }
  return wasted > useful / 2;
}

// Whether rows of columns lie one behind the other, so that a domain and its neighbours are one stretch of memory.
bool is_stretch(const Region& region, const IndexVar& row, const IndexVar& column) {
  return std::all_of(region.exprs.begin(), region.exprs.end(), [&](const Expr& e) {
    if (e.kind != Expr::Kind::load) return true;
    const Index zero(0);
    const Index rest =
        e.index.substitute([&](std::int32_t v) -> const Index* { return v == row.id ? &zero : nullptr; });
    return contiguous_along(e.index, column) && e.index - rest == Index::var(row) * column.extent;
  });
}

// A block reads such a stretch from its beginning to its end: sums over the middle axis of 4096 x 4096 x 64 took 0.915 ms so, and
// 0.948 by threads that have a column each. Where states take longer to combine it is too many of them: logsumexp 1.07 and 1.00
// (H200, 2026-11). Where there are few such stretches blocks are smaller, and several share one: maxima over the middle axis of 64 x 32768 x 64 bf16
// took 0.074 ms by 64 blocks of 1024 threads and 0.066 so, sums over axis 0 of 2097152 x 64 0.069 and 0.066 (2026-12).
std::optional<Schedule> stretch_candidate(const Region& region, const Target& target, int full, bool staged) {
  constexpr int kCombine = 4, kThreads = 512, kFewThreads = 128, kMostThreadsKept = 32, kFewRounds = 8;
  if (region.phases() > 1 || region.kept.size() < 2 || region.reduced.size() != 1) return std::nullopt;
  const bool light = std::all_of(region.reductions.begin(), region.reductions.end(), [&](const Reduction& r) {
    return instructions_to_combine(region, r) <= kCombine;
  });
  const IndexVar &row = region.reduced[0], &column = region.kept.back();
  if (!light || column.extent % full != 0 || !is_stretch(region, row, column)) return std::nullopt;
  const std::int64_t threads = column.extent / full;
  if (threads > kMostThreadsKept || !std::has_single_bit(static_cast<std::uint64_t>(threads)))
    return std::nullopt;
  Schedule s;
  s.vector = full;
  s.threads_kept = static_cast<int>(threads);
  const std::int64_t blocks = region.domains() * region.teams() / column.extent;
  // Some for each multiprocessor are enough, if each has more on its way.
  const std::int64_t least = 2 * target.multiprocessors;
  if (blocks < 2 * least) s.unroll = 8;
  if (blocks < least && staged) return std::nullopt;
  while (s.cluster < std::min(8, target.max_cluster) && blocks * s.cluster < least) s.cluster *= 2;
  s.threads_reduced = (s.cluster > 1 ? kFewThreads : kThreads) / s.threads_kept;
  if (row.extent < std::int64_t{kFewRounds} * s.threads_reduced * s.cluster || blocks * s.cluster < least)
    return std::nullopt;
  return s;
}

// Columns in registers of clusters, by blocks of so few threads that several share a multiprocessor. Shares of the copy speed by one block, and
// so: softmax over 512 rows of f32 96 and 98 %, over 1024 68 and 98, over 2048 57 and 92, 4096 58 and 87, 8192 61 and 82, 16384 61 and 71; of bf16
// over 256 82 and 93, over 512 70 and 94, over 1024 48 and 86, over 2048 51 and 81, over 4096 54 and 73; over 1024 of 4095 f32 each 57 and 74; layer_norm over 1024 of
// f32 71 and 97 (H200, 2026-12).
std::optional<Schedule> columns_of_cluster(const Region& region, const Target& target, int full) {
  struct Form {
    int vector, threads_kept, threads_reduced, elements;  // elements of a thread, at most
    int most;                                             // blocks of a cluster
  };
  static constexpr std::array kNarrow = {Form{2, 16, 8, 64, 16}, Form{2, 16, 16, 64, 16}};
  static constexpr std::array kWide = {Form{2, 32, 8, 32, 8}, Form{2, 16, 16, 32, 16},
                                       Form{2, 16, 16, 64, 16}, Form{2, 8, 32, 64, 16}};
  // Columns that do not begin alike in memory share lines with their neighbours: more of them are of one block.
  static constexpr std::array kShifted = {Form{1, 128, 4, 32, 16}, Form{1, 128, 4, 64, 16}};
  if (region.phases() == 1 || region.kept.empty() || full < 4) return std::nullopt;
  const std::int64_t size = region.domain_size();
  const bool even = region.kept.back().extent % 2 == 0;
  const std::span<const Form> forms = !even      ? std::span<const Form>(kShifted)
                                      : full > 4 ? std::span<const Form>(kNarrow)
                                                 : std::span<const Form>(kWide);
  for (const Form& f : forms) {
    const int blocks = power_at_least(ceil_div(size * f.vector, f.threads_reduced * f.elements));
    if (blocks > std::min(f.most, target.max_cluster)) continue;
    // Few elements are kept without.
    if (blocks == 1 && (full <= 4 || 2 * size * f.vector <= f.threads_reduced * f.elements))
      return std::nullopt;
    Schedule s;
    s.vector = f.vector;
    s.threads_kept = f.threads_kept;
    s.threads_reduced = f.threads_reduced;
    s.unroll = 8;
    s.cluster = blocks;
    s.keep = Keep::registers;
    return s;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Schedule> column_candidates(const Region& region, const Target& target, int full, bool staged,
                                        bool queued) {
  std::vector<Schedule> out;
  if (!staged) {
    if (const std::optional<Schedule> s = columns_of_cluster(region, target, full)) out.push_back(*s);
  }
  if (const std::optional<Schedule> s = stretch_candidate(region, target, full, staged)) out.push_back(*s);
  const std::int64_t size = region.domain_size(), columns = region.domains() * region.teams();
  const std::int64_t inner = region.kept.empty() ? 1 : region.kept.back().extent;
  const std::int64_t wanted_threads = static_cast<std::int64_t>(target.multiprocessors) * 1024;
  double bytes = 0;
  for (const Access& a : accesses(region)) bytes += static_cast<double>(a.bytes());
  // By how much more arithmetic takes than moving the data.
  constexpr double kComputes = 1.5;
  const bool computes = !queued && region.phases() == 1 &&
                        arithmetic_seconds(region, target) > kComputes * bytes / target.dram_bytes_per_second;
  for (const int widest : {full, std::max(1, full / 4)}) {
    Schedule s;
    s.vector = widest;
    // Every lane has partial results of its own, so narrow vectors leave more registers for loads in flight: 8 bytes took
    // 444 us where 16 took 473, in the logsumexp kernel of gn_tail. Where arithmetic takes longer than loading, as there, a lane
    // each with twice as many elements between two combinations is 2 % faster still, but in a queue, beside others that load, 3 %
    // slower (H200, 2026-11).
    if (!region.reduced.empty()) s.vector = std::max(1, widest / (region.phases() > 1 || computes ? 4 : 2));
    if (region.kept.size() > 1) {
      while (inner % s.vector != 0) s.vector /= 2;
    }
    // Fewer elements a thread when that would leave multiprocessors idle.
    while (s.vector > 1 && columns / s.vector * std::min<std::int64_t>(size, 32) < wanted_threads / 4)
      s.vector /= 2;
    const std::int64_t vectors = std::max<std::int64_t>(1, columns / s.vector);
    if (region.reduced.empty()) {
      // Where 16-bit elements leave little time to compute, smaller blocks: silu(a) * b of bf16 took 0.131 ms so and 0.134 by 256, exp 0.134 and 0.135
      // (H200, 2026-12).
      s.threads_kept = std::clamp(power_at_least(vectors), 32, full > 4 ? 128 : 256);
      out.push_back(s);
      continue;
    }
    // Threads that it takes to keep a domain in registers.
    const int least = region.phases() == 1 || size <= 32 ? 1 : power_at_least(ceil_div(size * s.vector, 64));
    // A thread has its first elements in flight together; to combine with other threads takes longer than to add them.
    const int together = computes ? 16 : 8;
    s.threads_reduced =
        std::min(32, vectors * least >= wanted_threads
                         ? least
                         : power_at_most(std::min(ceil_div(size, together), wanted_threads / vectors)));
    s.threads_reduced = std::max(s.threads_reduced, region.phases() > 1 ? std::min(32, least) : 1);
    // Rows of columns that are not aligned are read in whole lines by blocks that have several of them under way: sums over
    // the middle axis of 128 x 4096 x 4095 took 2.05 ms so, and 2.45 with one (H200, 2026-11).
    const bool in_lines =
        region.phases() == 1 && s.vector == 1 && full > 1 && size >= 8 * together && vectors >= 1024;
    // Where there would be few blocks they are smaller: sums over axis 0 of 4096 x 4096 x 64 took 0.951 ms by 2048 blocks of 64 threads
    // and 0.957 by 1024 of 128; those over axis 0 of 128 x 4096 x 4095 1.966 by 131040 and 1.961 by 65520 (H200, 2026-11).
    constexpr std::int64_t kFewBlocks = 16;  // of a multiprocessor
    const bool few = region.phases() == 1 && !queued && s.threads_reduced == 1 && !in_lines &&
                     vectors < kFewBlocks * 128 * target.multiprocessors;
    s.threads_kept = std::clamp(
        power_at_least(std::min<std::int64_t>(vectors, (few ? 64 : 128) / s.threads_reduced)), 32, 128);
    const auto add = [&] {
      s.unroll = std::min(power_at_most(ceil_div(size, s.threads_reduced)), together);
      add_with_keeps(out, s, region);
    };
    if (region.phases() > 1 && 2 * s.threads_reduced <= 32 && size >= 4 * together * s.threads_reduced) {
      s.threads_reduced *= 2;  // 32 elements a thread leave registers for more blocks
      add();
      s.threads_reduced /= 2;
    }
    if (in_lines) s.threads_reduced = std::max(s.threads_reduced, 8);
    add();
  }
  return out;
}

// Long rows by gangs, of which each block has about as much as it moves while what it has found goes to the others and back. Shares of the
// copy speed, by clusters and so: of 2^20 f32 layer_norm 64 and 97 %, rms_norm 76 and 97, log_softmax 85 and 98, softmax 81 and 92; of
// 262144 layer_norm 85 and 97, rms_norm 92 and 97; of 393216 layer_norm 82 and 95; of 65535 layer_norm 80 and 92. Of bf16: layer_norm of
// 65536 88 and 92, of 262144 89 and 92, of 393216 78 and 93, of 2^20 69 and 93, of 65535 70 and 90, of 30522 84 and 89; log_softmax of 262144 93 and 95, of
// 393216 91 and 95, of 2^20 82 and 96; rms_norm of 262144 93 and 95, of 2^20 84 and 98. But softmax of bf16, whose exponentials would be
// taken twice, 73 and 74 of 2^20 and 85 and 74 of 262144 (H200, 2026-11).
class GangCandidate {
 public:
  GangCandidate(const Region& region, const Target& target, int full)
      : region_(region),
        target_(target),
        narrow_(full > 4),
        aligned_(region.domain_size() % full == 0),
        bytes_(region.domain_size() * (narrow_ ? 2 : 4)) {
    s_.lanes_reduced = true;
    s_.vector = full;
    s_.keep = Keep::shared;
    s_.threads_reduced = 128;
    s_.prefetch = 2;
    s_.lag = 3;
  }

  std::optional<Schedule> schedule() {
    if (s_.vector == 1 || region_.phases() != 2) return std::nullopt;
    // Of several variables vectors are of the innermost one.
    if (region_.reduced.size() > 1 && region_.reduced.back().extent % s_.vector != 0) return std::nullopt;
    const bool pays = has(Monoid::moments) ? moments() : has(Monoid::max_sumexp) ? exponentials() : sums();
    if (!pays || s_.gang > kMostGang) return std::nullopt;
    if (s_.unroll == 1) {
      s_.unroll = kMostUnroll;
      while (s_.unroll > 1 && extent_of(region_, s_).vectors <= s_.unroll / 2) s_.unroll /= 2;
    }
    if (!parameter_loads(region_, s_).empty())
      s_.parameters = narrow_ ? Parameters::shared : Parameters::registers;
    while (shared_bytes(region_, s_) > target_.max_shared_bytes) {
      if (s_.prefetch > 2) {
        s_.prefetch /= 2;
      } else if (s_.lag > 2) {
        --s_.lag;
      } else {
        return std::nullopt;
      }
    }
    if (s_.parameters != Parameters::memory) {
      // Even where registers leave room for one block.
      while (s_.align > kVectorBytes && gangs_apart(region_, s_) * s_.gang > target_.multiprocessors)
        s_.align /= 2;
    }
    return s_;
  }

 private:
  static constexpr std::int64_t kKiB = 1 << 10;

  bool has(Monoid m) const {
    return std::any_of(region_.reductions.begin(), region_.reductions.end(),
                       [&](const Reduction& r) { return r.monoid == m; });
  }
  // Blocks that have at most so many bytes of a row each, or twice as many of a row that is too long for it. Whether they have just that.
  bool divide(std::int64_t of_block) {
    const auto blocks = [&] { return power_at_least(ceil_div(bytes_, of_block)); };
    if (blocks() > kMostGang) of_block *= 2;
    s_.gang = blocks();
    return bytes_ == s_.gang * of_block;
  }

  bool is_power() const { return std::has_single_bit(static_cast<std::uint64_t>(bytes_)); }
  bool leaves_one_over() const { return extent_of(region_, s_).vectors % 4 == 1; }

  // What is best where these are reduced; false where gangs do not pay.
  bool sums() {
    if (!aligned_ || bytes_ < (narrow_ ? 512 : 1024) * kKiB) return false;
    const bool even = divide((narrow_ ? 16 : 32) * kKiB);
    if (narrow_) return true;
    s_.lag = 4;
    if (!even) s_.prefetch = 4;
    return true;
  }

  bool moments() {
    const bool scaled = !parameter_loads(region_, s_).empty();
    if (!narrow_ && aligned_) {
      // Where blocks of clusters have parts that are not full: of 200000 f32 71 and 92 %, of 100000 88 and 92, of 81920 89 and 93 (H200, 2026-12).
      if (!scaled || bytes_ <= 256 * kKiB || bytes_ >= 1024 * kKiB || is_power()) return sums();
      divide(16 * kKiB);
      s_.lag = 4;
      return true;
    }
    if (!narrow_) {
      divide(32 * kKiB);
      s_.threads_reduced = 256;
      return bytes_ >= 192 * kKiB;
    }
    // Batch statistics, whose domains lie in pieces: of 256 x 128 x 32 x 32 bf16 68 % of the copy speed by clusters and 86 so, of 128 x 256 x 56 x 56
    // 62 and 87; of f32 89 and 90, 73 and 90 (H200, 2026-12).
    if (region_.reduced.size() > 1) {
      divide(16 * kKiB);
      s_.unroll = 8;
      return bytes_ >= 128 * kKiB;
    }
    if (bytes_ >= 128 * kKiB && divide(32 * kKiB)) {
      s_.unroll = 8;
      s_.lag = 2;  // beside two parameters there is no room for more
      return true;
    }
    s_.unroll = 4;
    // Vectors of a thread that are handled together are the last ones too: one that is left over takes as long as four. Of 200000 bf16 by clusters 64 % and
    // so 84, of 100000 72 and 81, of 49152 79 and 83, of 40000 79 and 86, of 300000 73 by four vectors and 85 by eight (H200, 2026-12).
    const bool long_row = bytes_ >= 512 * kKiB;
    if (bytes_ >= 96 * kKiB && (!aligned_ || (scaled && !long_row && !is_power()))) {
      divide(32 * kKiB);
      s_.threads_reduced = 256;
      s_.lag = 2;
      return !aligned_ || !leaves_one_over();
    }
    divide(16 * kKiB);
    if (aligned_ && scaled && leaves_one_over() && (long_row || (bytes_ > 64 * kKiB && bytes_ < 96 * kKiB))) {
      s_.unroll = 8;
      return true;
    }
    if (bytes_ < 512 * kKiB) {
      s_.lag = 2;
      return bytes_ >= 56 * kKiB && bytes_ <= 64 * kKiB;
    }
    s_.prefetch = 4;
    return true;
  }

  bool exponentials() {
    const bool again = std::any_of(region_.exprs.begin(), region_.exprs.end(), [](const Expr& e) {
      return e.varies && e.phase > 0 && e.kind == Expr::Kind::map && e.op == ScalarOp::exp;
    });
    if (!aligned_ || (narrow_ && again) || bytes_ < (narrow_ ? 512 : 4096) * kKiB) return false;
    divide((narrow_ ? 16 : 32) * kKiB);
    if (!narrow_) s_.threads_reduced = again ? 512 : 256;
    // Little code, which all warps go through again and again; but parameters stay in registers where all vectors are handled together.
    if (again && parameter_loads(region_, s_).empty()) s_.unroll = 2;
    return true;
  }

  const Region& region_;
  const Target& target_;
  bool narrow_, aligned_;
  std::int64_t bytes_;  // of a row
  Schedule s_;
};

std::optional<Schedule> gang_candidate(const Region& region, const Target& target, int full) {
  if (target.sim) return std::nullopt;
  return GangCandidate(region, target, full).schedule();
}

// Tiles: rows of 256 bytes, and 4 to 8 vectors of a thread on their way; less where there are few tiles, or much to have
// in registers or in shared memory.
std::vector<Schedule> tile_candidates(const Region& region, const std::vector<Access>& all,
                                      const Target& target) {
  constexpr std::int64_t kSharedBytes = 64 << 10, kRegisters = 64;  // for what is on its way
  constexpr int kRowBytes = 256, kLeastRowBytes = 64;
  int widest = 1;
  std::int64_t loads = 0;
  for (const Access& a : all) {
    widest = std::max(widest, size_of(a.dtype));
    loads += a.load >= 0 ? 1 : 0;
  }
  Schedule s;
  s.vector = 16;
  s.tile = std::min(128, kRowBytes / widest);
  std::optional<Tile> t = tile_of(region, s);
  if (!t || !wants_tile(region, all, *t)) return {};
  while (s.tile * widest > kLeastRowBytes &&
         (tile_bytes(region, *t) > kSharedBytes || tile_blocks(region, *t) < target.multiprocessors)) {
    s.tile /= 2;
    t = tile_of(region, s);
  }
  s.vector = std::max(t->along.vector, t->across.vector);
  const std::int64_t elements = t->along.size * t->across.size;
  s.threads_kept = std::clamp(power_at_most(elements / (4 * s.vector)), 32, 256);
  const int narrow = std::min(t->along.vector, t->across.vector);
  s.unroll = std::min(16, power_at_most(elements / (s.threads_kept * narrow)));
  while (s.unroll > 1 && loads * s.unroll * narrow * std::max(1, widest / 4) > kRegisters) s.unroll /= 2;
  return {s};
}

}  // namespace bz::compiler

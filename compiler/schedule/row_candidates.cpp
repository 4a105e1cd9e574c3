#include <utility>

#include "compiler/fuse/access.h"
#include "compiler/fuse/cost.h"
#include "compiler/schedule/candidates.h"

namespace bz::compiler {
namespace {

// Whether there is more to compute than goes on while elements are loaded and stored.
bool is_heavy(const Region& region) {
  constexpr double kInstructions = 10;  // for each element that is moved
  double moved = 0;
  for (const Expr& e : region.exprs)
    moved += e.kind == Expr::Kind::load && e.varies && moves_with_domain(region, e) ? 1 : 0;
  for (const Root& r : region.roots) moved += r.varies ? 1 : 0;
  const auto elements = static_cast<double>(region.teams() * region.domains() * region.domain_size());
  return instructions_of(region) > kInstructions * moved * elements;
}

// Whether exponentials are needed after the first phase too, as for softmax and not for log_softmax.
bool takes_exponentials_again(const Region& region) {
  return std::any_of(region.exprs.begin(), region.exprs.end(), [](const Expr& e) {
    return e.kind == Expr::Kind::map && e.op == ScalarOp::exp && e.varies && e.phase > 0;
  });
}

// Rows: threads along the reduced variable. Threads for 8 to 128 elements each, blocks of at least 128 (64 where a row is kept); the
// model tells them apart. First those with few elements a thread, kept in registers, without clusters.
class RowCandidates {
 public:
  // When the domain stays in registers, threads exchange what they have found so often.
  RowCandidates(const Region& region, const Target& target, int full, int team, int exchanges)
      : region_(region),
        target_(target),
        full_(full),
        size_(region.domain_size()),
        exchanges_(exchanges),
        heavy_(is_heavy(region)),
        exponentials_again_(takes_exponentials_again(region)) {
    const std::int64_t inner = region.reduced.back().extent;
    first_.lanes_reduced = true;
    first_.vector = full;
    if (region.reduced.size() > 1) {
      while (inner % first_.vector != 0) first_.vector /= 2;
    }
    first_.vector = std::min(first_.vector, power_at_least(size_));
    // A team with fewer domains than blocks shares each among all of them.
    if (team > 1 && region.domains() < team &&
        size_ >= static_cast<std::int64_t>(team) * kWarp * first_.vector) {
      first_.cluster = team;
    }
    most_cluster_ = team > 1 ? first_.cluster : target.max_cluster;
  }

  std::vector<Schedule> list() {
    if (is_short()) {
      add_short();
      return std::move(out_);
    }
    if (region_.phases() > 1) {
      for (const int prefetch : {0, 1}) add_kept(Keep::registers, prefetch);
      if (!extent_of(region_, first_).shifted && !parameter_loads(region_, first_).empty())
        add_kept(Keep::registers, 1, Parameters::shared);
      add_copied_in_place();
      if (size_ >= kOfCluster) prefer_small_blocks();
      add_exponentials_of_long_rows();
      add_mostly_spilled();
      // Shared memory holds more, and takes the forms of few phases with it.
      if (out_.empty()) add_kept(Keep::shared);
    }
    add_streaming();
    return std::move(out_);
  }

 private:
  static constexpr int kWarp = 32, kLeastThreads = 128, kMostThreads = 1024;
  static constexpr std::int64_t kLeast = 8, kPreferred = 64, kMostPreferred = 80;  // elements of a thread
  // Of a row for clusters: rows of 16384 took 0.63 ms in one block, 0.55 in two (bf16 softmax, H200, 2026-11).
  static constexpr std::int64_t kOfCluster = 16384, kVeryLong = 1 << 18;
  static constexpr std::int64_t kMostSpilled = 128;  // elements of a thread
  static constexpr std::int64_t kShort = 256;        // of a row

  bool narrow() const { return first_.vector > 4; }  // elements of 16 bits

  std::int64_t each(int threads, int cluster) const {
    return ceil_div(size_, static_cast<std::int64_t>(threads) * cluster);
  }

  // Two vectors of a thread keep enough bytes on their way, and more blocks that are small follow each other in the order of
  // memory: rms_norm of 1024 f32 took 0.509 ms so and 0.516 with eight, layer_norm of 256 bf16 0.509 and 0.526. With exponentials
  // four (attention_softmax of 1024 f32 0.26 ms, 0.38 with two). Elements of 16 bits leave less time to exchange twice: layer_norm
  // of 4096 took 0.521 ms by 128 threads and 0.532 by 256; with exponentials none: softmax of 1024 0.518 ms with eight vectors,
  // 0.545 with four (H200, 2026-11). Of 256 it took 0.500 ms with four and 0.503 with eight, log_softmax 0.508 and 0.504 (2026-12).
  int kept_threads(int cluster) const {
    if (narrow() && heavy_) {
      const bool few = exponentials_again_ && size_ > kShort / 2 && size_ <= kShort;
      return power_at_least(ceil_div(size_, (few ? kPreferred / 2 : kMostPreferred) * cluster));
    }
    const int vectors = heavy_ ? 4 : 2;
    const int most = narrow() && exchanges_ > 1 ? kLeastThreads : 512;
    return std::min(most, power_at_least(size_ / (vectors * first_.vector * cluster)));
  }

  // Rows that are less than what a few warps load at once: what counts is that neighbouring threads load whole sectors, that they begin
  // where rows do, and that a block has work for 128 threads. Of 16 bits that goes on for longer rows where these are even and vectors of
  // eight would need masks.
  bool is_short() const {
    constexpr std::int64_t kMostKept = 2304, kMostReduced = 1024;
    if (size_ <= kShort / 2) return true;
    if (full_ <= 4 || size_ % full_ == 0) return false;
    const bool even = size_ % 2 == 0, kept = region_.phases() > 1;
    return size_ < kShort || (even && kept && size_ < kMostKept) ||
           (even && size_ < kMostReduced && has_running_form(kMostUnroll));
  }

  // Each thread has up to so many bytes, or 16-bit elements of exponentials. Shares of the copy speed, before and so (H200, 2026-12): softmax of 64
  // bf16 46 and 102 %, of 37 bf16 27 and 65, of 100 bf16 66 and 89, of 37 f32 54 and 91, of 12 f32 90 and 101; layer_norm of 100 bf16 63 and 97, of 37
  // bf16 27 and 72, of 37 f32 81 and 98. Of the read speed: sums of 16 f32 82 and 99 %, of 16 bf16 42 and 98, of 77 bf16 42 and 109, of 150 bf16 39 and
  // 117; logsumexp of 16 bf16 52 and 76, of 37 bf16 56 and 78, of 100 bf16 35 and 93, of 100 f32 73 and 108.
  void add_short() {
    const int bytes = kVectorBytes / full_;
    const bool of_16_bits = full_ > 4, aligned = size_ % full_ == 0, even = size_ % 2 == 0;
    Schedule s = first_;
    int threads = 1;
    if (region_.phases() == 1) {
      const bool exponentials = has_running_form(kMostUnroll);
      if (exponentials && of_16_bits && !aligned)
        s.vector = std::min(s.vector, even ? aligned_vector() : full_ / 2);
      const int of_16 = size_ < kShort ? 80 : 100;
      const int of_thread = exponentials ? (of_16_bits ? of_16 : 112 / bytes) : 48 / bytes;
      threads = power_at_least(ceil_div(size_, of_thread));
      // As a whole, so that no masked vector is left over: of 37 f32 94 and 99 %.
      if (exponentials && !of_16_bits && !aligned) {
        s.keep = Keep::registers;
        return add(s, threads, 16, kLeastThreads);
      }
      return add(s, threads, kMostUnroll * kMostVector, kLeastThreads);
    }
    s.keep = Keep::registers;
    s.vector = aligned_vector();
    if (!of_16_bits) {
      threads = power_at_least(ceil_div(size_, kSectorBytes / bytes));
      // As many vectors for each of them.
      if (s.vector > 1 && size_ % (s.vector * threads) != 0 && size_ % (s.vector / 2 * threads) == 0)
        s.vector /= 2;
    } else if (size_ * bytes > kSectorBytes) {
      const bool shortest = size_ < kShort;
      const int most = heavy_ ? (shortest ? 32 : 48) : (shortest ? 16 : 36),
                least = heavy_ && s.vector > 1 ? 16 : 8;              // elements of a thread
      const std::int64_t sector = kSectorBytes / (s.vector * bytes);  // threads that load one
      threads = power_at_least(std::max(ceil_div(size_, most), std::min(sector, ceil_div(size_, least))));
      // Vectors of two pay for their masks, where rows are not as short as a few of them.
      if (s.vector == 1 && size_ > 48 && region_.reduced.size() == 1) {
        s.vector = 2;
        threads = 8;
      }
    }
    add(s, threads, 16, kLeastThreads);
  }

  int aligned_vector() const {
    int vector = first_.vector;
    while (size_ % vector != 0) vector /= 2;
    return vector;
  }

  bool has_running_form(int elements) const {
    return std::any_of(region_.reductions.begin(), region_.reductions.end(), [&](const Reduction& r) {
      return r.monoid == Monoid::max_sumexp && r.running(elements) != nullptr;
    });
  }

  // Blocks of 128 threads where 16-bit rows with exponentials have few of them, but for the shortest (softmax of 256 bf16 took
  // 0.510 ms so and 0.506 by 64, of 5000 0.548 and 0.536).
  void add(const Schedule& s, int threads, int chunk) {
    const bool several = narrow() && heavy_ && threads >= 8 && threads < 2 * kWarp;
    add(s, threads, chunk, s.keep == Keep::registers && !several ? 2 * kWarp : kLeastThreads);
  }

  // Small domains share a block of at least so many threads, as long as all multiprocessors have work. `chunk`: elements between two
  // combinations.
  void add(Schedule s, int threads, int chunk, int least) {
    const std::int64_t rows = region_.domains() * region_.teams();
    s.threads_reduced = threads;
    s.threads_kept = 1;
    while (s.threads_kept * threads < least && rows / (2 * s.threads_kept) >= 2 * target_.multiprocessors)
      s.threads_kept *= 2;
    while (s.threads_kept * threads < kWarp) s.threads_kept *= 2;
    const std::int64_t vectors = ceil_div(each(threads, s.cluster), s.vector);
    s.unroll = std::clamp(chunk / s.vector, 1, std::min(kMostUnroll, power_at_least(vectors)));
    out_.push_back(s);
  }

  void add_kept(Keep keep, int prefetch = 0, Parameters parameters = Parameters::memory) {
    constexpr std::int64_t kChunk = 16, kOfBlock = 4096;  // elements
    Schedule s = first_;
    s.keep = keep;
    s.prefetch = prefetch;
    s.parameters = parameters;
    for (int cluster = first_.cluster; cluster <= most_cluster_; cluster *= 2) {
      s.cluster = cluster;
      if (cluster > first_.cluster && size_ < std::max(kOfCluster, cluster * kOfBlock)) break;
      if (keep == Keep::shared) {
        add(s, std::min(kMostThreads, std::max(64, power_at_least(each(32, cluster)))), kChunk);
        continue;
      }
      const int preferred = std::clamp(kept_threads(cluster), 1, kMostThreads);
      for (const auto& [times, by] : {std::pair{1, 1}, {2, 1}, {1, 2}, {4, 1}, {8, 1}, {1, 4}}) {
        const int threads = preferred * times / by;
        const Range range = kept_range(s, threads);
        if (threads < range.threads || threads > range.most_threads) continue;
        if (each(threads, cluster) >= std::min(range.least, size_) && each(threads, cluster) <= range.most)
          add(s, threads, kChunk);
        if (prefetch == 0 && threads >= kLeastThreads) add_spilled(s, threads, kChunk);
      }
    }
  }

  // Of long rows several small blocks hide each other's waiting better than a large one: log_softmax of 65536
  // bf16 took 0.57 ms by 4 x 128 threads, 0.66 by 2 x 256; softmax of 65536 f32 0.52 by 4 x 256, 0.54 by 2 x
  // 512 (H200, 2026-11). Rows of 16 bits that are not aligned are best spilled, so that a loop has the masks:
  // layer_norm of 30522 took 0.73 ms so, 0.79 otherwise. With little to compute of each element they are not:
  // rms_norm of 262144 took 0.61 and 0.71. Where parameters stay in shared memory there is one block a
  // multiprocessor, and rms_norm of 262144 bf16 took 0.57; with at least 64 elements a thread (layer_norm of
  // 393216 bf16 0.65 ms by 256 threads that have 96 each, 0.67 by 512). Where exponentials are taken in the
  // one pass that sums them, registers are short: log_softmax of 393216 f32 took 0.53 ms by blocks of 512
  // threads, 0.55 of 256 (softmax 0.77 and 0.54); of 16384 bf16 0.515 by a block that spills, 0.53 by two
  // (softmax 0.59 and 0.53). Of f32 with sums alone four blocks share even the shortest: rms_norm of 16384 0.500 ms so, 0.504
  // by one block (H200, 2026-12).
  void prefer_small_blocks() {
    const bool aligned = size_ % first_.vector == 0;
    const bool one_pass = heavy_ && !exponentials_again_;
    const int preferred = (narrow() ? 1 : one_pass ? 4 : 2) * kLeastThreads;
    const bool sums = std::all_of(region_.reductions.begin(), region_.reductions.end(),
                                  [](const Reduction& r) { return r.component_dtypes().size() == 1; });
    const bool by_four = aligned && !narrow() && !heavy_ && sums && size_ < 2 * kOfCluster;
    const auto rank = [&](const Schedule& s) {
      if (s.prefetch > 0 && s.spill > 0) return std::pair(-2, 0);
      if (s.parameters != Parameters::memory) {
        const bool few = each(s.threads_reduced, s.cluster) < kPreferred;
        return std::pair(narrow() && size_ >= kVeryLong ? -1 : 8,
                         (few ? kMostThreads : 0) - s.threads_reduced);
      }
      const int distance = std::max(s.threads_reduced, preferred) / std::min(s.threads_reduced, preferred);
      const int spills = s.spill > 0 ? 1 : 0;
      if (by_four) return std::pair(distance, std::max(4, s.cluster) / std::min(4, s.cluster) + spills);
      if (narrow() && !aligned) return std::pair(1 - spills, distance);
      if (narrow() && one_pass) return std::pair(distance, 1 - spills);
      return narrow() && !heavy_ ? std::pair(spills, distance) : std::pair(distance, spills);
    };
    std::stable_sort(out_.begin(), out_.end(),
                     [&](const Schedule& a, const Schedule& b) { return rank(a) < rank(b); });
  }

  // With so many vectors in shared memory that registers hold at most 64 to 80 elements, with room for what is being computed.
  void add_spilled(Schedule s, int threads, int chunk) {
    const std::int64_t registers = narrow() || heavy_ ? 64 : 80;
    const std::int64_t most = narrow() ? 192 : 128;
    const std::int64_t vectors = ceil_div(each(threads, s.cluster), s.vector);
    // A block that fills a multiprocessor is slower than reading again when there is little to compute: layer_norm of 2^20 f32 took
    // 0.89 ms so, 0.84 otherwise; softmax 0.74 and 0.79.
    constexpr std::int64_t kHalf = 48 << 10;  // elements of a block
    if (!heavy_ && vectors * s.vector * threads > kHalf) return;
    if (vectors * s.vector <= registers || vectors * s.vector > most) return;
    spill_all_but(s, registers, threads, chunk);
  }

  // Keeps at most so many elements of a thread in registers. Exponentials of 16-bit elements are spilled in
  // 32 bits: then a vector more stays in registers where rows are not aligned (softmax of 65535 took 0.73 ms
  // so, 0.80 otherwise; log_softmax 0.65 and 0.59).
  void spill_all_but(Schedule s, std::int64_t elements, int threads, int chunk) {
    const bool widens = narrow() && exponentials_again_;
    const std::int64_t vectors = widens ? ceil_div(each(threads, s.cluster), s.vector)
                                        : extent_of(region_, with_threads(s, threads)).vectors;
    const std::int64_t together = std::max(1, chunk / s.vector);
    s.spill = static_cast<int>(ceil_div(vectors - elements / s.vector, together) * together);
    if (s.spill < vectors && s.spill <= kMostSpill) add(s, threads, chunk);
  }

  // Of 16 bits: blocks as small as a cluster of 16 allows with 128 elements a thread, and no more of them than leave it 64. In registers
  // stay 32 of more than 64 elements, 48 of so many where many blocks share a row; the rest in shared memory, where it takes half the
  // room. Exponentials that are needed again take registers to interleave, so that a thread has up to 256 elements where it cannot be
  // as few as 64, and 80 of them there (of 256 threads 192 and 48, of 512 128 and 32, for longer rows: 2^20 80 % by 256 and 81 by 512). Shares of the copy speed, before and so: softmax
  // of 16384 bf16 91 and 101 %, of 65536 83 and 98, of 393216 75 and 87, of 2^20 52 and 73; log_softmax 98 and 101, 95 and 98 of the
  // first two, of 262144 87 and 90, of 2^20 68 and 83. Rows that are not aligned have masks beside their elements, so that fewer
  // blocks share one: softmax of 30522 70 and 90 %, log_softmax by one block 90 and 95 (H200, 2026-11).
  void add_exponentials_of_long_rows() {
    if (!narrow() || !heavy_ || size_ < kOfCluster || most_cluster_ == 1) return;
    const std::size_t before = out_.size();
    if (add_exponentials_in_place()) return prefer_added(before);
    const bool aligned = size_ % first_.vector == 0;
    const auto by = [&](int threads) {
      if (!exponentials_again_ || (aligned && threads == 512)) return kMostSpilled;
      return aligned && threads == 256 ? kMostSpilled / 2 * 3 : 2 * kMostSpilled;
    };
    std::int64_t most = aligned ? 64 : kMostSpilled;
    Schedule s = first_;
    s.keep = Keep::registers;
    int threads = kLeastThreads;
    while (threads < 512 && each(threads, most_cluster_) > by(threads)) threads *= 2;
    if (each(threads, most_cluster_) > most) most = by(threads);
    while (s.cluster < most_cluster_ && each(threads, s.cluster) > most) s.cluster *= 2;
    if (!aligned && !exponentials_again_ && each(2 * threads, 1) <= kMostSpilled) {
      threads *= 2;
      s.cluster = first_.cluster;
    }
    std::int64_t registers = 64;
    if (!aligned) {
      if (exponentials_again_) registers = 80;
    } else if (each(threads, s.cluster) > 64) {
      registers = !exponentials_again_ || threads == 512 ? 32 : threads == kLeastThreads ? 80 : 48;
    } else if (s.cluster > 2) {
      // A third of 48 elements in shared memory leaves room for one block more: of 49152 bf16 89 and 98 %, of 24576 93 and 99 (H200, 2026-12).
      registers = each(threads, s.cluster) > 48 ? 48 : 32;
    }
    if (each(threads, s.cluster) <= registers) {
      add(s, threads, 16);
    } else {
      spill_all_but(s, registers, threads, 16);
    }
    prefer_added(before);
  }

  // Of 16 bits, aligned, and as many as are needed again: half of a row's exponentials stay in registers, half take the place of their
  // elements in shared memory. A thread has up to 128, as few blocks share a row as that allows, and one vector is handled at a time: of
  // 131072 bf16 93 and 97 % of the copy speed, before and so, of 196608 96 and 97, of 262144 86 and 94; of 393216, by 256 threads with 96 each, 87 and
  // 92. Where that leaves room for two blocks, and not three, it is slower than taking them again (of 524288 86 and 88; H200, 2026-12).
  bool add_exponentials_in_place() {
    if (!exponentials_again_ || size_ % first_.vector != 0 || size_ <= 4 * kOfCluster) return false;
    const int threads =
        each(kLeastThreads, most_cluster_) <= kMostSpilled ? kLeastThreads : 2 * kLeastThreads;
    const std::int64_t most = threads == kLeastThreads ? kMostSpilled : 96;
    if (each(threads, most_cluster_) > most) return false;
    Schedule s = first_;
    s.keep = Keep::registers;
    while (each(threads, s.cluster) > most) s.cluster *= 2;
    const std::int64_t vectors = ceil_div(each(threads, s.cluster), s.vector);
    // The masks of a last vector that not all threads have take registers: of 100000 bf16 85 and 91 %, of 200000 79 and 87 (H200, 2026-12).
    const bool masked = size_ % (std::int64_t{s.vector} * threads * s.cluster) != 0;
    spill_all_but(s, (masked ? vectors / 2 - 1 : ceil_div(vectors, 2)) * s.vector, threads, s.vector);
    return true;
  }

  // What has been added since there were `before` comes first.
  void prefer_added(std::size_t before) {
    std::rotate(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(before), out_.end());
  }

  // With little to compute blocks that have most of a row in shared memory, and as few of them as hold it: of the copy speed, before and
  // so, rms_norm of 30522 bf16 85 and 97 %, of 65535 83 and 94, of 65536 94 and 97, of 262144 89 and 91; layer_norm of 30522 bf16 75
  // and 84; rms_norm of 262144 f32 91 and 93. layer_norm of f32, which exchanges once, by blocks of 128 threads that have up to 128 elements
  // each: of 65536 91 and 96, of 30522 88 and 93 (H200, 2026-11).
  void add_mostly_spilled() {
    if (heavy_ || size_ <= kOfCluster || size_ >= 4 * kVeryLong) return;
    const bool once = exchanges_ == 1, long_row = size_ >= kVeryLong, aligned = size_ % first_.vector == 0;
    int threads = 512;
    std::int64_t registers = 80;
    if (narrow() && once) {
      registers = aligned ? 32 : 24;
    } else if (narrow()) {
      threads = 256;
      registers = 48;
      if (aligned || each(threads, 1) > kMostSpilled) return;
    } else {
      if (once) threads = 256;
      // f32 that fills a cluster of 8; otherwise registers hold all.
      if (once != long_row || (once && size_ % (kMostSpilled * threads) != 0)) return;
      if (!once) {
        threads = kLeastThreads;
        registers = 0;
      }
    }
    Schedule s = first_;
    s.keep = Keep::registers;
    while (s.cluster < std::min(8, most_cluster_) && each(threads, s.cluster) > kMostSpilled) s.cluster *= 2;
    if (each(threads, s.cluster) > kMostSpilled || each(threads, s.cluster) <= registers) return;
    const std::size_t before = out_.size();
    if (registers == 0) {
      add(s, threads, 16);
    } else {
      spill_all_but(s, registers, threads, 16);
    }
    prefer_added(before);
  }

  static Schedule with_threads(Schedule s, int threads) {
    s.threads_reduced = threads;
    return s;
  }

  // Blocks that stay, and copy the next row to where this one was spilled. Of rows of 2^20, which leave a
  // multiprocessor one or two blocks, rms_norm of f32 took 0.68 ms so and 0.80 otherwise, log_softmax 0.61
  // and 0.71, rms_norm of bf16 0.60 and 0.71; of shorter ones layer_norm of 393216 f32, whose parameters do
  // not fit in shared memory, 0.62 and 0.70. Without parameters blocks that come and go are faster
  // (instance_norm of 512 x 512 f32 3.66 ms and 3.82 so, softmax of 393216 f32 0.54 and 0.58), and for
  // exponentials of 16 bits always (H200, 2026-11).
  void add_copied_in_place() {
    const bool longest = size_ >= 4 * kVeryLong;
    if (size_ < kVeryLong || most_cluster_ == 1 || (heavy_ && (narrow() || !longest))) return;
    if (!longest && (narrow() || parameter_loads(region_, first_).empty())) return;
    Schedule s = first_;
    s.keep = Keep::registers;
    s.prefetch = 1;
    s.cluster = most_cluster_;
    const std::int64_t share = each(1, s.cluster);
    const int threads = narrow() || share <= 16384 ? 256 : 512;
    // Scales are loaded beside what registers hold: layer_norm of 2^20 f32 took 0.796 ms with 48 elements there, 0.813 with 64.
    const std::int64_t most = !narrow() && !heavy_ && exchanges_ > 1 ? 48 : 64;
    spill_all_but(s, std::min<std::int64_t>(most, power_at_most(share / threads / 2)), threads,
                  narrow() ? 32 : 16);
  }

  // Threads, and elements of each, that are worth a prediction. Reading ahead gains where the elements in registers leave room
  // and rows have 16 bits: layer_norm of 2048 x 262144 took 0.69 ms so and 0.72 otherwise, rms_norm 0.58 and 0.61; rows of
  // f32 were up to 20 % slower. With the parameters in shared memory longer rows gain more, and f32 that has two of them:
  // layer_norm of 2048 x 262144 bf16 took 0.61 ms, of 1024 x 262144 f32 0.61 instead of 0.65, but of 65536 f32 0.58 instead of
  // 0.55 (H200, 2026-11).
  struct Range {
    int threads, most_threads;
    std::int64_t least, most;
  };
  Range kept_range(const Schedule& s, int threads) const {
    if (s.parameters != Parameters::memory) {
      const bool gains = size_ >= (narrow() ? kVeryLong / 4 : kVeryLong);
      return {kLeastThreads, gains ? (narrow() ? 512 : 256) : 0, 16, 96};
    }
    if (s.prefetch > 0) return {256, narrow() && s.cluster > 1 ? 512 : 0, 16, 64};
    // Exponentials that are taken beside 128 elements find no registers: log_softmax of 16384 bf16 took 0.61 ms so, 0.52 with
    // half of them in shared memory; layer_norm 0.52 and 0.54. Nor do scales beside as many f32: rms_norm of 30522 took 0.56 ms, 0.52
    // with fewer.
    if (s.cluster == 1) return {1, kMostThreads, 8, narrow() == heavy_ ? 96 : 128};
    if (narrow()) return {kLeastThreads, kMostThreads, 16, !heavy_ && threads == kLeastThreads ? 128 : 96};
    // Scales that are loaded beside 96 elements find no registers: layer_norm of 393216 f32 took 0.78 ms so, 0.71 with a few of
    // them in shared memory; softmax 0.54 and 0.56.
    return {kLeastThreads, kMostThreads, 16, heavy_ ? 96 : 80};
  }

  void add_streaming() {
    constexpr int kChunk = 32;
    Schedule s = first_;
    if (region_.phases() > 1) {
      for (const int threads : {512, 1024})
        add(s, std::min(threads, std::max(kWarp, power_at_least(each(kLeast, 1)))), kChunk / 2);
      // Few rows at a time, which L2 has when they are read again; with one exchange, which the blocks of a cluster wait for: rms_norm
      // of 512 x 2^20 bf16 took 0.72 ms so and 0.80 by single blocks, log_softmax 0.76 and 0.84, layer_norm 0.97 and 0.83 (H200,
      // 2026-11).
      if (narrow() && exchanges_ == 1 && size_ >= 4 * kVeryLong && most_cluster_ > 1) {
        s.cluster = most_cluster_;
        const std::size_t before = out_.size();
        add(s, heavy_ ? 512 : 1024, kChunk / 2);
        prefer_added(before);
      }
      return;
    }
    // Long rows are read in whole lines, by several warps; of short ones large chunks would be partly empty.
    constexpr std::int64_t kFewChunks = 16;
    if (has_running_form(kChunk)) return add_running(s);
    const int few = size_ <= kShort ? 4 : 8;
    const int most = narrow() ? 256 : 512;
    const int preferred = std::clamp(power_at_least(ceil_div(size_, 4 * kPreferred)), few, most);
    for (const auto& [times, by] : {std::pair{1, 1}, {1, 4}, {1, 2}, {2, 1}, {4, 1}}) {
      const int threads = preferred * times / by;
      if (threads < few || threads > kMostThreads) continue;
      if (threads != preferred && each(threads, s.cluster) < kLeast) continue;
      const bool partly = size_ % (static_cast<std::int64_t>(threads) * kChunk) != 0;
      if (partly && !narrow() && each(threads, s.cluster) < kFewChunks * kChunk) add(s, threads, kChunk / 2);
      add(s, threads, kChunk);
    }
    add_elements(s);
  }

  // Of short rows that are not aligned all vectors would be masked.
  void add_elements(Schedule s) {
    if (s.vector == 1 || size_ % s.vector == 0 || size_ >= kShort) return;
    s.vector = 1;
    for (const int threads : {1, 2, 4, 8}) add(s, threads, kMostUnroll);
  }

  // Exponentials in one pass, with little to do at the end of a thread's part. Elements of 16 bits leave no time for more threads than
  // keep enough bytes on their way: shares of the copy speed by 512 elements a thread and by 256, logsumexp of 4096 bf16 95 and 95 %, of
  // 16384 96 and 92; of 65536 99 by 128 threads and 93 by 32; of 262144 96 by 256; of 30522 90 by 32 and 83 by 64. Of f32 16 elements a
  // thread as long as there are threads: of 256 108 and 105 %, of 4096 108 by 256 threads and 105 by 16 (H200, 2026-11).
  void add_running(Schedule s) {
    constexpr int kOfThread = 512;
    const int few = size_ <= kShort ? 2 : 4;
    const int most = narrow() && size_ < 4 * kVeryLong ? 256 : 512;
    const int each_of = narrow() ? kOfThread : 16;
    int preferred = std::clamp(power_at_most(size_ / each_of), few, most);
    int chunk = narrow() ? (size_ <= kShort ? 128 : 32) : (size_ > each_of * most ? 32 : 16);
    // Rows that do not end with a group: in one, and of long ones a block for each. Of 1000 bf16 94 % of the copy speed, f16 95, by 8 threads with 128
    // elements at once, 93 and 92 by 4 with 64; of 30522 96 and 89 by a block of 128 threads and four rows by 32 each (H200, 2026-12).
    if (narrow() && size_ > kShort && size_ < 2 * kOfThread && size_ % kOfThread != 0) {
      chunk = 128;
      preferred = 8;
    }
    if (narrow() && size_ >= kOfCluster && size_ < 2 * kOfCluster && size_ % s.vector != 0)
      preferred = kLeastThreads;
    // A short row that is not aligned is kept as a whole: no masked vector is left over.
    if (size_ < kShort && size_ % s.vector != 0) {
      Schedule whole = s;
      whole.keep = Keep::registers;
      add(whole, std::max(1, power_at_most(size_ / kLeast / 2)), 16);
    }
    // Of few long rows the last wave of single blocks is badly filled.
    if (narrow() && size_ >= kVeryLong && size_ < 4 * kVeryLong && most_cluster_ > 1) {
      Schedule shared = s;
      shared.cluster = std::max(2, s.cluster);
      add(shared, preferred / 2, chunk);
    }
    for (const auto& [times, by] : {std::pair{1, 1}, {1, 2}, {2, 1}, {4, 1}}) {
      const int threads = preferred * times / by;
      if (threads < few || threads > kMostThreads) continue;
      if (threads == preferred || each(threads, s.cluster) >= kLeast) add(s, threads, chunk);
    }
    add_elements(s);
  }

  const Region& region_;
  const Target& target_;
  int full_;  // elements of the widest vectors
  std::int64_t size_;
  int exchanges_;
  bool heavy_;  // there is more to compute than goes on while elements are moved
  bool exponentials_again_;
  Schedule first_;
  int most_cluster_ = 1;
  std::vector<Schedule> out_;
};

}  // namespace

std::vector<Schedule> row_candidates(const Region& region, const Target& target, int full, int team,
                                     int exchanges) {
  return RowCandidates(region, target, full, team, exchanges).list();
}

}  // namespace bz::compiler

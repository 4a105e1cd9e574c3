#include "compiler/schedule/predict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "compiler/fuse/access.h"
#include "compiler/fuse/cost.h"
#include "compiler/schedule/gang.h"

namespace bz::compiler {
namespace {

// All on an H200, 2026-11. Threads of a block exchange what they have reduced; blocks of a cluster do.
constexpr double kExchangeSeconds = 0.15e-6, kClusterExchangeSeconds = 0.05e-6;
// Blocks of a cluster start together and wait for the last of them, times the share of them that wait. These, masks, parameters
// and spilling are fitted to 794 kernels of rows from 16384 to 2^20.
constexpr double kClusterSeconds = 0.1e-6;
// Of a turn of a gang's blocks: what they find goes to the others and back in `lag` of them.
constexpr double kGangTurnSeconds = 1e-6;
// Where blocks stay and take turns, all that they move takes so much longer: they all load, then all store.
constexpr double kStaying = 1.12;
// Warps of a scheduler that leave half of its time unused.
constexpr double kIdleWarps = 0.5;
// Instructions that a masked element takes more, in each phase, and those of a barrier.
constexpr double kMaskInstructions = 8, kBarrierInstructions = 20;
// Rows that are read in parts: each part takes as long as so many bytes more.
constexpr double kSegmentBytes = 9;
// What all domains load alike, such as a scale, comes from L2 or L1: so many times as fast as from memory.
constexpr double kParameterSpeed = 4.2;
// A spilled element is loaded from shared memory by each phase, in a loop.
constexpr double kSpillInstructions = 1;
// What a phase reads again from L2 it waits for a little longer than for its share of the loads: layer_norm of 512 x 1024 f32 took 5.6 us so, 5.1 from
// registers (H200, 2026-12).
constexpr double kAgainSeconds = 0.3e-6;
// A domain in pieces, as all samples of a channel, needs addresses of its own for each vector that registers keep: batch statistics of 128 x 256 x 56 x 56
// f32 took 0.263 ms by clusters, of 256 x 128 x 32 x 32 0.075 (H200, 2026-12).
constexpr double kInPieces = 1.15;
// How sharply the largest of the three times decides: the more so, the more blocks of a multiprocessor hide each other's.
constexpr double kSharpness = 6, kSharpnessOfBlock = 0.45;

// What all blocks together do in a phase.
struct Work {
  double from_memory = 0, from_cache = 0, written = 0;  // bytes
  double parameters = 0;                                // bytes that all domains load
  double instructions = 0, exchanging = 0;
  bool exchanges = false;
  bool loads_again = false;  // what an earlier phase has loaded
};

// The share of what threads handle that is there: the rest of the last vectors and of the last block is masked.
double used(const Region& region, const Schedule& s, const Extent& e) {
  const std::int64_t vectors =
      s.keep == Keep::registers || s.prefetch > 0 ? e.vectors : (e.groups - 1) * e.together + e.rest;
  const double all = static_cast<double>(vectors * (e.per_group / s.unroll)) *
                     static_cast<double>(e.blocks * e.rows_per_block);
  const double there = static_cast<double>(region.domain_size() * region.domains());
  return std::min(1.0, std::max(1.0, there) / std::max(1.0, all));  // a few of a gang are beside those
}

// The share of vectors of a thread in which the domain may begin or end.
double masked(const Region& region, const Schedule& s, const Extent& e) {
  if (s.keep != Keep::registers && (e.groups > 1 || s.tile > 1)) {
    const std::int64_t full = std::max<std::int64_t>(0, e.end_full - e.first_full) * s.unroll;
    return 1 - std::min(1.0, static_cast<double>(full) /
                                 static_cast<double>(std::max<std::int64_t>(1, e.vectors)));
  }
  const std::int64_t inside = region.domain_size() / (e.per_group / s.unroll) - (e.shifted ? 1 : 0);
  return 1 - static_cast<double>(std::max<std::int64_t>(0, inside)) / static_cast<double>(e.vectors);
}

// Of all threads together that exchange what one reduction found: shuffles, then a barrier and shared memory.
double exchange_instructions(const Region& region, const Schedule& s, const Extent& e, const Reduction& r) {
  if (s.gang > 1) return 0;  // by warps beside those that go on
  const Warps warps = warps_of(s);
  const auto components = static_cast<double>(r.component_dtypes().size());
  // Beside components that are folded one by one.
  const int together = puts_together(r, s) ? instructions_together(region, r) : 0;
  const double each = components + (together > 0 ? components : instructions_to_combine(region, r));
  double count = std::log2(warps.in_warp) * each + together;
  const double lanes = s.lanes_reduced ? 1 : s.vector;
  count *= lanes;
  // Those that put columns together have some parts each, and as many columns at a time as there are threads for.
  for (const int parts : {warps.count, s.cluster}) {
    if (parts == 1) continue;
    const double sharing =
        shares_columns(s) ? std::min<double>(parts, std::max(1.0, s.threads_reduced / lanes)) : parts;
    const double times = shares_columns(s) ? std::max(1.0, lanes / s.threads_reduced) : lanes;
    count += kBarrierInstructions + times * ((std::log2(sharing) + parts / sharing - 1) * each + together);
  }
  return count * static_cast<double>(region.teams() * e.blocks * s.cluster) * threads_of(s);
}

// Of the bytes that neighbouring threads read together, what goes beyond them for each row that they read of.
double segments(const Region& region, const Schedule& s) {
  int size = 1;
  for (const Expr& e : region.exprs) {
    if (e.kind == Expr::Kind::load && e.varies) size = std::max(size, size_of(e.stored));
  }
  // The rest of a short row is found in L1.
  constexpr std::int64_t kShortRow = 1024;
  if (!s.lanes_reduced || region.domain_size() * size < kShortRow) return 1;
  return 1 + kSegmentBytes / (static_cast<double>(warps_of(s).in_warp) * s.vector * size);
}

std::vector<Work> work_of(const Region& region, const Schedule& s, const Extent& e, const Bounds& bounds) {
  const double elements =
      static_cast<double>(region.teams() * region.domains()) * static_cast<double>(region.domain_size());
  const double part = masked(region, s, e);
  // Elements that a thread folds before it combines with what it has.
  const double folded = s.unroll * (s.lanes_reduced ? s.vector : 1);
  std::vector<Work> all(static_cast<std::size_t>(region.phases()));
  const std::vector<std::vector<ExprId>> computed = computed_by_phase(region, s);
  std::set<ExprId> before;
  for (std::size_t phase = 0; phase < all.size(); ++phase) {
    Work& work = all[phase];
    Touched memory, cache;
    const auto load = [&](const Expr& x, bool again) {
      if (x.table < 0)
        (again || bounds.cached.contains(x.source) ? cache : memory).add(x.source, x.index, x.stored);
    };
    for (const ExprId id : computed[phase]) {
      const Expr& x = region.exprs[static_cast<std::size_t>(id)];
      const bool loaded = x.kind == Expr::Kind::load;
      // Vectors that are aligned to one access are not to others that do not move with it, but for those that stay in the block.
      const bool alone =
          loaded && e.shifted && !moves_with_domain(region, x) && s.parameters == Parameters::memory;
      work.instructions += elements * (alone ? 2 : element_instructions(region, x));
      if (loaded) load(x, phase > 0);
      work.loads_again = work.loads_again || (loaded && before.contains(id));
      if (loaded && x.table < 0 && !moves_with_domain(region, x) && s.parameters == Parameters::memory)
        work.parameters += elements * size_of(x.stored);
    }
    before.insert(computed[phase].begin(), computed[phase].end());
    if (phase == 0) {
      for (const Expr& x : region.exprs) {  // once a domain
        if (x.varies) continue;
        work.instructions += instructions_of(region, x);
        if (x.kind == Expr::Kind::load) load(x, false);
      }
    }
    for (const Reduction& r : region.reductions) {
      if (r.phase != static_cast<int>(phase)) continue;
      if (r.over != Over::threads)
        work.instructions +=
            elements * (element_instructions(region, r) +
                        instructions_to_take_in(region, r, static_cast<int>(folded)) / folded +
                        part * kMaskInstructions);
      if (!r.exchanges()) continue;
      work.exchanging += exchange_instructions(region, s, e, r);
      work.exchanges = true;
    }
    Touched stored;
    for (const Root& r : region.roots) {
      const int last = std::min(region.phase_of(r), region.phases() - 1);
      if (r.table < 0 && last == static_cast<int>(phase)) stored.add(r.node, r.offset, r.stored);
    }
    work.from_memory = memory.bytes() * segments(region, s);
    work.from_cache = cache.bytes();
    work.written = stored.bytes();
    if (s.spill > 0)
      work.instructions += elements * kSpillInstructions * s.spill / static_cast<double>(e.vectors);
    work.instructions = work.instructions / used(region, s, e) + work.exchanging;
  }
  return all;
}

// Blocks that a multiprocessor has room for, however many registers they take.
std::int64_t blocks_by_room(const Region& region, const Schedule& s, const Target& target) {
  const std::int64_t shared = shared_bytes(region, s) + kSystemShared;
  const std::int64_t blocks =
      std::min({std::int64_t{target.threads_per_multiprocessor} / threads_of_block(region, s),
                target.shared_per_multiprocessor / shared, std::int64_t{target.blocks_per_multiprocessor}});
  return std::max<std::int64_t>(1, blocks);
}

}  // namespace

int resident_blocks(const Region& region, const Schedule& s, const Target& target) {
  const std::int64_t blocks =
      std::min(blocks_by_room(region, s, target), blocks_by_registers(region, s, target));
  return static_cast<int>(std::max<std::int64_t>(1, blocks));
}

std::int64_t room_for_gangs(const Region& region, const Schedule& s, const Target& target) {
  return std::int64_t{target.multiprocessors} * blocks_by_room(region, s, target) / s.gang;
}

std::int64_t gangs_at_once(const Region& region, const Schedule& s, const Target& target) {
  const std::int64_t room = room_for_gangs(region, s, target);
  const std::int64_t apart = s.parameters == Parameters::memory ? 1 : gangs_apart(region, s);
  return std::max<std::int64_t>(1, room / apart) * apart;
}

double predict(const Region& region, const Schedule& s, const Target& target, const Bounds& bounds) {
  const Extent e = extent_of(region, s);
  // A unit is a block, a cluster or a gang; a stage has one for each team, that iterates over the team's domains.
  const bool owned = bounds.staged && bounds.queue == 0;
  const int cluster = owned ? bounds.team : sharing(s);
  const std::int64_t units = owned ? region.teams() : region.teams() * e.blocks;
  const std::int64_t iterations = owned ? (s.cluster == 1 ? ceil_div(e.blocks, bounds.team) : e.blocks) : 1;
  // What other stages take of registers and shared memory is not known.
  const int resident = bounds.staged ? std::max(1, target.threads_per_multiprocessor / threads_of(s))
                                     : resident_blocks(region, s, target);
  const auto clusters = static_cast<std::int64_t>(target.multiprocessors * reach(s.cluster) / cluster);
  const std::int64_t at_once =
      s.gang > 1 ? gangs_at_once(region, s, target) : std::max<std::int64_t>(1, clusters) * resident;
  const double share = target.dram_bytes_per_second / target.multiprocessors;

  // Of each of four schedulers.
  const double there =
      std::min<double>(resident, std::ceil(static_cast<double>(units) * cluster / target.multiprocessors));
  const double warps = std::max(1.0, there * threads_of(s) / 32.0) / 4;
  const double issued = kLanes * kHertz * warps / (warps + kIdleWarps);  // by a multiprocessor, each second
  const double parts = static_cast<double>(region.teams() * e.blocks) * s.cluster;
  const double load_rounds = s.keep == Keep::registers ? 1 : static_cast<double>(e.groups);

  std::vector<Work> work = work_of(region, s, e, bounds);
  // Whether what is read again is still in L2: all that is being worked on would have to be.
  const bool cached =
      work[0].from_memory / static_cast<double>(units) * static_cast<double>(std::min(units, at_once)) <=
      kCacheShare * static_cast<double>(target.l2_bytes);
  // A domain that stays in registers is loaded as a whole before anything is computed from it, and where several warps share
  // it, they wait for each other.
  const bool loaded_first = s.keep == Keep::registers && s.threads_reduced > 32;
  // What is spilled is copied where it stays, while the domain before is stored: several blocks then fill each other's gaps.
  const bool ahead = s.prefetch > 0, in_place = ahead && s.spill > 0;
  const double staying = ahead && !(in_place && resident > 1) ? kStaying : 1;
  double memory = 0, arithmetic = 0;
  double chain = kClusterSeconds * (1 - 1.0 / s.cluster);
  for (const Work& w : work) {
    const double again = w.from_cache / (cached ? kCacheSpeed : 1);
    const double parameters = w.parameters / kParameterSpeed;
    memory += staying * (w.from_memory + again + parameters + w.written) / target.dram_bytes_per_second;
    arithmetic += w.instructions / issued / (target.multiprocessors * (s.gang > 1 ? 1 : reach(cluster)));
    const double read = (w.from_memory + again + parameters) / parts / (share * kBurst);
    const double computed = w.instructions / parts / issued;
    const double stored = w.written / parts / (share * kBurst);
    // Loads of one round are on their way together. What is read ahead comes while the domain before is computed and stored; of a
    // domain that is spilled that is what goes to shared memory.
    const double waited = read > 0 && (!ahead || in_place) ? kLoadSeconds * load_rounds : 0;
    if (w.loads_again && !ahead) chain += kAgainSeconds;
    // A block that stays does not wait for what it stores.
    chain += ahead ? 0 : stored;
    if (ahead && &w == &work.front()) {
      const double loaded = in_place ? 1 - static_cast<double>(s.spill) / static_cast<double>(e.vectors) : 0;
      chain += std::max(computed, loaded * read + waited);
    } else if (ahead) {
      chain += std::max({read, computed, stored}) + waited;
    } else if (loaded_first) {
      chain += read + computed + waited;
    } else {
      chain +=
          s.keep == Keep::registers ? std::max(read, computed) + waited : std::max({read, computed, waited});
    }
    if (!w.exchanges) continue;
    if (s.threads_reduced > 1) chain += kExchangeSeconds;
    if (s.cluster > 1) chain += kClusterExchangeSeconds;
  }
  chain *= static_cast<double>(ceil_div(units, at_once) * iterations);
  if (s.gang > 1)
    chain = kGangTurnSeconds * static_cast<double>(ceil_div(units, at_once) + gang_of(region, s).turns);
  const double most = std::max({memory, arithmetic, chain, 1e-12});
  const double sharpness = kSharpness + kSharpnessOfBlock * resident;
  double sum = 0;
  for (const double t : {memory, arithmetic, chain}) sum += std::pow(t / most, sharpness);
  const bool in_pieces = region.reduced.size() > 1 && s.keep == Keep::registers && s.lanes_reduced;
  return (in_pieces ? kInPieces : 1) * most * std::pow(sum, 1 / sharpness);
}

}  // namespace bz::compiler

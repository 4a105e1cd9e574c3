#include "compiler/lower/stage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "compiler/schedule/spill.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

using kernel::kNone;
using Handle = ScalarBuilder::Handle;

class StageLowering {
 public:
  StageLowering(KernelContext& kernel, const Region& region, const Schedule& schedule,
                const StagePlace& place)
      : kernel_(kernel),
        b_(kernel.builder),
        region_(region),
        s_(schedule),
        place_(place),
        extent_(extent_of(region, schedule)) {
    if (s_.vector > 1) lane_ = Index::var({kernel::kLaneVar, s_.vector});
    if (s_.cluster > 1) share_ = place.rank;
  }

  void run() {
    b_.set_lanes(s_.vector, s_.lanes_reduced);
    if (s_.prefetch > 0) return run_in_turns();
    if (place_.ticket_blocks > 0) return run_ticket();
    // The blocks of a team that do not share domains take turns.
    const int apart = place_.cluster / s_.cluster;
    const std::int64_t turns = (extent_.blocks + apart - 1) / apart;
    if (!place_.staged || turns == 1) {
      place_kept(place_.staged ? rank_apart() : Index::var(place_.team));
      return body();
    }
    const IndexVar turn = b_.var("turn", turns);
    round_ = Index::var(turn);
    b_.loop(turn, kernel::Level::serial, [&] {
      place_kept(Index::var(turn) * apart + rank_apart());
      body();
      end_turn();
    });
  }

 private:
  // The blocks of a ticket, one after the other.
  void run_ticket() {
    constexpr int kTogether = 4;  // blocks without an exchange load together
    const std::int64_t blocks = place_.ticket_blocks;
    if (blocks == 1) {
      place_kept(place_.first_block);
      return body();
    }
    const IndexVar turn = b_.var("turn", blocks);
    round_ = Index::var(turn);
    const int unroll = region_.reductions.empty() && extent_.blocks % blocks == 0 ? kTogether : 1;
    const auto one = [&] {
      const Index block = place_.first_block + Index::var(turn);
      b_.when(b_.inside({{block, 0, extent_.blocks}}), [&] {
        place_kept(block);
        // Of blocks that are there, each has all of its domains.
        if (region_.domains() % extent_.rows_per_block == 0) row_bounds_.clear();
        body();
        end_turn();
      });
    };
    b_.loop(turn, kernel::Level::serial, one, unroll);
  }

  // The block stays and takes turns; what the next one needs is on its way to shared memory.
  void run_in_turns() {
    b_.comment("the first of what is read ahead");
    for (const ExprId id : loads_ahead(region_, s_)) {
      ahead_[id] = b_.array(array_name("ahead", id), kept_dtype(region_, id),
                            vectors_ahead(region_, s_) * s_.vector * threads_of(s_), kernel::Space::shared);
    }
    for (int g = 0; g < s_.prefetch; ++g) {
      start_copies(Index::var(place_.team), Index(g));
      b_.commit();
    }
    const IndexVar turn = b_.var("turn", extent_.blocks), round = b_.var("round", extent_.blocks);
    next_ = b_.var("next", 2 * extent_.blocks);
    round_ = Index::var(round);
    wait_for_cluster();
    b_.turns(turn, place_.team, next_, round, [&] {
      place_kept(Index::var(turn));
      body();
      end_turn();
    });
  }

  // The next turn writes where others still read, unless that is another place, or another exchange is in between.
  void end_turn() {
    const bool exchanges = warps_of(s_).count > 1 || s_.cluster > 1;
    if (exchanges && exchanges_of(region_) == 1 && !alternates(region_, s_))
      b_.barrier(s_.cluster > 1 ? kernel::Scope::cluster : kernel::Scope::block);
  }

  Index rank_apart() const { return s_.cluster > 1 ? Index(0) : place_.rank; }

  using Memo = std::map<ExprId, Handle>;
  // One step of a thread through its domain: where the reduced variables are, and what is known there.
  struct Step {
    std::vector<std::pair<std::int32_t, Index>> reduced;  // region variable -> kernel index
    Index slot;                                           // of the step's vector among those kept
    Index ahead;                                          // and among those read ahead
    std::vector<IndexBound> bounds;                       // of the domain, where they may fail
    Memo memo;
    std::map<std::vector<IndexBound>, Handle> masks;
  };

  const Expr& expr(ExprId id) const { return region_.exprs[static_cast<std::size_t>(id)]; }

  // ---- where a thread is ------------------------------------------------------------------------------------------

  static void spread(const std::vector<IndexVar>& vars, Index flat,
                     std::vector<std::pair<std::int32_t, Index>>& out) {
    for (std::size_t i = vars.size(); i-- > 0;) {
      out.emplace_back(vars[i].id, i == 0 ? flat : mod(flat, vars[i].extent));
      flat = floordiv(flat, vars[i].extent);
    }
  }

  void place_kept(const Index& block) {
    block_ = block;
    const std::int64_t apart = extent_.blocks / extent_.interleaved;
    const Index at = extent_.interleaved == 1
                         ? block
                         : mod(block, extent_.interleaved) * apart + floordiv(block, extent_.interleaved);
    Index flat = at * s_.threads_kept + place_.thread_kept;
    Index bound = flat;
    if (!s_.lanes_reduced) {
      flat = flat * s_.vector + lane_;
      bound = region_.domains() % s_.vector == 0 ? flat - lane_ : flat;
    }
    kept_.clear();
    spread(region_.outer, place_.outer, kept_);
    spread(region_.kept, flat, kept_);
    // At the tail, threads without a domain of their own still take part in shuffles and barriers.
    row_bounds_ = {{bound, 0, region_.domains()}};
    if (row_bounds_[0].always()) row_bounds_.clear();
  }

  Index at(const Index& e, const Step* step) const {
    return e.substitute([&](std::int32_t id) -> const Index* {
      for (const auto& [var, index] : kept_) {
        if (var == id) return &index;
      }
      if (step != nullptr) {
        for (const auto& [var, index] : step->reduced) {
          if (var == id) return &index;
        }
      }
      throw InternalError(fmt::format("region {}: variable {} has no place", region_.name, id));
    });
  }

  // Step `u` of group `group`. `masked`: the domain may end inside.
  Step step(const Index& group, int u, bool masked) { return step_of(group * s_.unroll + Index(u), masked); }

  // That of a vector of the thread.
  Step step_of(const Index& vectors, bool masked) {
    Step s;
    Index flat = (vectors * s_.cluster + share_) * s_.threads_reduced + place_.thread_reduced;
    // One question for a vector that is inside as a whole or not at all, else one for each lane.
    Index bound = flat;
    if (s_.lanes_reduced) {
      flat = flat * s_.vector + lane_;
      if (extent_.shifted) flat = flat - at(aligned_start(region_, s_), nullptr);
      bound = !extent_.shifted && region_.domain_size() % s_.vector == 0 ? flat - lane_ : flat;
    }
    if (masked) s.bounds = {{bound, 0, region_.domain_size()}};
    spread(region_.reduced, flat, s.reduced);
    s.slot = slot(vectors, extent_.groups * s_.unroll);
    if (s_.prefetch > 0) {
      const std::int64_t room = vectors_ahead(region_, s_);
      s.ahead = slot(mod(vectors, room), room);
    }
    return s;
  }

  // In shared memory, of the thread's vector of that number out of `count`: neighbouring threads have neighbouring ones.
  Index slot(const Index& number, std::int64_t count) const {
    const Index chunk = number * s_.threads_reduced + place_.thread_reduced;
    const Index vector = s_.lanes_reduced ? place_.thread_kept * (count * s_.threads_reduced) + chunk
                                          : chunk * s_.threads_kept + place_.thread_kept;
    return vector * s_.vector + lane_;
  }

  // All steps of the thread where the domain stays in registers, of one group otherwise. Only steps in which the domain may
  // end are masked.
  std::vector<Step> steps_of(const Index& group, bool masked) {
    std::vector<Step> steps;
    if (s_.keep != Keep::registers) {
      for (int u = 0; u < s_.unroll; ++u) steps.push_back(step(group, u, masked));
      return steps;
    }
    for (std::int64_t i = 0; i < vectors_in_registers(region_, s_); ++i)
      steps.push_back(step(Index(i / s_.unroll), static_cast<int>(i % s_.unroll), !is_inside(i)));
    return steps;
  }

  // Whether vector `i` of every thread lies inside the domain.
  bool is_inside(std::int64_t i) const {
    const std::int64_t elements = extent_.per_group / s_.unroll;
    return (i > 0 || !extent_.shifted) && (i + 1) * elements <= region_.domain_size();
  }

  // ---- vectors in shared memory, where registers do not hold all --------------------------------------------------

  int spilled_together() const { return std::min(s_.unroll, s_.spill); }

  // Group `group` of those vectors.
  std::vector<Step> spilled_steps(const Index& group, bool masked) {
    std::vector<Step> steps;
    const Index number = group * spilled_together();
    for (int u = 0; u < spilled_together(); ++u) {
      steps.push_back(step_of(number + Index(u) + Index(vectors_in_registers(region_, s_)), masked));
      steps.back().slot = slot(number + Index(u), s_.spill);
    }
    return steps;
  }

  // Runs `body(steps)` for all of them, in a loop.
  template <class F>
  void for_each_spilled_group(F&& body) {
    const std::int64_t registers = vectors_in_registers(region_, s_), groups = s_.spill / spilled_together();
    std::int64_t full = 0;
    while (full < groups && is_inside(registers + (full + 1) * spilled_together() - 1)) ++full;
    const auto loop = [&](std::int64_t first, std::int64_t end, bool masked) {
      if (first == end) return;
      const IndexVar j = b_.var("j", end - first);
      b_.loop(j, kernel::Level::serial, [&] {
        std::vector<Step> steps = spilled_steps(Index::var(j) + Index(first), masked);
        body(steps);
      });
    };
    loop(0, full, false);
    loop(full, groups, true);
  }

  // Starts to bring what the first phase loads of them.
  void start_spilling() {
    const std::int64_t elements = static_cast<std::int64_t>(s_.spill) * s_.vector * threads_of(s_);
    spill_ = spill_of(region_, s_);
    if (spill_arrays_.empty()) {
      for (std::size_t i = 0; i < spill_.arrays.size(); ++i)
        spill_arrays_.push_back(
            b_.array(array_name("spill", i), spill_.arrays[i], elements, kernel::Space::shared));
    }
    for_each_spilled_group([&](std::vector<Step>& steps) {
      for (Step& s : steps) {
        const Handle begins = begins_inside(s);
        for (const auto& [id, array] : spill_.held[0]) {
          b_.at(expr(id).node);
          b_.copy(spill_arrays_[static_cast<std::size_t>(array)], s.slot, kernel_.sources.at(expr(id).source),
                  at(expr(id).index, &s), begins);
        }
      }
    });
    b_.commit();
  }

  // A phase over them: reduces into `partial`, by reduction, and stores.
  void spilled_phase(int p, const std::vector<ExprId>& targets, const std::vector<int>& reductions,
                     const std::vector<int>& stores,
                     const std::map<int, std::vector<kernel::ArrayId>>& partial) {
    if (p == 0) b_.await(0);
    for (const auto& [id, array] : spill_.held[static_cast<std::size_t>(p)])
      keep_[id] = spill_arrays_[static_cast<std::size_t>(array)];
    std::vector<Step> resident = std::exchange(resident_, {});
    std::vector<ExprId> wanted = targets;
    std::vector<std::pair<ExprId, int>> held;  // from now on
    if (p + 1 < region_.phases()) {
      for (const auto& [id, array] : spill_.held[static_cast<std::size_t>(p) + 1]) {
        if (keep_.contains(id)) continue;
        held.emplace_back(id, array);
        wanted.push_back(id);
      }
    }
    const Needs n = needs(wanted);
    compute_rows(n);
    for_each_spilled_group([&](std::vector<Step>& steps) {
      compute(n, steps);
      for (const int s : stores) store(s, steps);
      for (const int r : reductions)
        set_state(partial.at(r), combine(r, get_state(r, partial.at(r), Index(0)), lift_in_chunks(r, steps)),
                  Index(0));
      for (Step& s : steps) {
        for (const auto& [id, array] : held) {
          b_.at(expr(id).node);
          b_.set(spill_arrays_[static_cast<std::size_t>(array)], s.slot, b_.widen(s.memo.at(id), s_.vector));
        }
      }
    });
    resident_ = std::move(resident);
    keep_.clear();
  }

  // Runs `body(steps, group)` for all of the thread's steps: all at once where the domain stays in registers, with all that
  // earlier phases know, else `unroll` at a time in a loop.
  template <class F>
  void for_each_group(F&& body) {
    if (s_.keep == Keep::registers) {
      if (resident_.empty()) resident_ = steps_of(Index(0), true);
      return body(resident_, Index(0));
    }
    const auto group = [&](const Index& g, bool masked) {
      std::vector<Step> steps = steps_of(g, masked);
      body(steps, g);
    };
    const auto loop = [&](std::int64_t first, std::int64_t end, bool masked) {
      if (first >= end) return;
      if (first + 1 == end) return group(Index(first), masked);
      const IndexVar j = b_.var("j", end - first);
      b_.loop(j, kernel::Level::serial, [&] { group(Index::var(j) + Index(first), masked); });
    };
    // What the last groups read ahead is of the next domain.
    const std::int64_t last = extent_.groups - s_.prefetch;
    const auto loops = [&](std::int64_t first, std::int64_t end, bool masked) {
      const std::int64_t middle = std::clamp(last, first, std::max(first, end));
      loop(first, middle, masked);
      loop(middle, end, masked);
    };
    loops(0, std::min(extent_.first_full, extent_.groups), true);
    loops(extent_.first_full, extent_.end_full, false);
    loops(extent_.end_full, extent_.groups, true);
  }

  // ---- copies ahead -----------------------------------------------------------------------------------------------

  // Starts those of a group of the block's domains.
  void start_copies(const Index& block, const Index& group) {
    const Index own = block_;
    place_kept(block);
    for (Step& s : steps_of(group, true)) {
      const Handle begins = begins_inside(s);
      for (const auto& [id, array] : ahead_) {
        b_.at(expr(id).node);
        b_.copy(array, s.ahead, kernel_.sources.at(expr(id).source), at(expr(id).index, &s), begins);
      }
    }
    place_kept(own);
  }

  // A vector that begins in the domain is copied whole. All threads of a block that is full have a domain.
  Handle begins_inside(Step& s) {
    std::vector<IndexBound> bounds = s.bounds;
    if (region_.domains() % extent_.rows_per_block != 0)
      bounds.insert(bounds.end(), row_bounds_.begin(), row_bounds_.end());
    const Index zero(0);
    for (IndexBound& b : bounds) {
      b.e = b.e.substitute(
          [&](std::int32_t id) -> const Index* { return id == kernel::kLaneVar ? &zero : nullptr; });
      b.lo = 1 - s_.vector;
    }
    return mask(std::move(bounds), &s);
  }

  // What is read ahead when `group` has been taken from shared memory.
  void start_next_copies(const Index& group) {
    const std::int64_t groups = s_.keep == Keep::registers ? 1 : extent_.groups;
    const Index ahead = group + Index(s_.prefetch);
    if (ahead.hi() < groups) {
      start_copies(block_, ahead);
    } else {
      b_.when(b_.inside({{Index::var(next_), 0, extent_.blocks}}),
              [&] { start_copies(Index::var(next_), ahead - Index(groups)); });
    }
    b_.commit();
  }

  // ---- expressions ------------------------------------------------------------------------------------------------

  Handle mask(std::vector<IndexBound> bounds, Step* step) {
    if (step == nullptr) return b_.inside(std::move(bounds));
    std::erase_if(bounds, [](const IndexBound& b) { return b.always(); });
    std::sort(bounds.begin(), bounds.end());
    const auto [at, fresh] = step->masks.try_emplace(bounds, kNone);
    if (fresh) at->second = b_.inside(bounds);
    return at->second;
  }

  std::vector<IndexBound> placed(const std::vector<IndexBound>& bounds, const Step* step) const {
    std::vector<IndexBound> out;
    for (const IndexBound& b : bounds) out.push_back({at(b.e, step), b.lo, b.hi});
    return out;
  }

  Handle evaluate(const Expr& e, Step* step) {
    b_.at(e.node);
    const auto operand = [&](ExprId id) { return expr(id).varies ? step->memo.at(id) : row_memo_.at(id); };
    switch (e.kind) {
      case Expr::Kind::constant: return b_.constant(e.value);
      case Expr::Kind::index: {
        const Handle i = b_.index(at(e.index, step));
        if (e.cast == DType::i64) return i;
        // Of 16 bits it is what they hold.
        const Handle own = b_.apply(ScalarOp::cast, std::array{i}, e.cast);
        return e.cast == e.dtype ? own : b_.apply(ScalarOp::cast, std::array{own}, e.dtype);
      }
      case Expr::Kind::load: {
        const Index offset = at(e.index, step);
        std::vector<IndexBound> bounds = placed(e.where, step);
        // What others write is loaded under a branch, which is not for bounds that the address does not depend on.
        const auto moves_with = [&](const std::vector<IndexVar>& vars) {
          return !is_shared(e) ||
                 std::any_of(vars.begin(), vars.end(), [&](const IndexVar& v) { return e.index.uses(v.id); });
        };
        if (moves_with(region_.kept)) bounds.insert(bounds.end(), row_bounds_.begin(), row_bounds_.end());
        if (step != nullptr && moves_with(region_.reduced))
          bounds.insert(bounds.end(), step->bounds.begin(), step->bounds.end());
        // A bound that the address does not depend on need not guard it. One that is the same in all of a step may
        // still lie outside.
        if (e.index.is_constant() && e.where.empty()) bounds.clear();
        if (e.table >= 0) {
          const kernel::ArrayId table = kernel_.tables[static_cast<std::size_t>(e.table)];
          if (in_table(table, offset).always()) bounds.clear();
          return b_.get(table, offset, e.dtype, guarded(table, offset, mask(std::move(bounds), step)));
        }
        return b_.load(kernel_.sources.at(e.source), offset, mask(std::move(bounds), step), e.dtype);
      }
      case Expr::Kind::map: {
        std::vector<Handle> args;
        for (const ExprId o : e.operands) args.push_back(operand(o));
        if (e.op == ScalarOp::exp && is_below_maximum(e.operands[0]))
          return b_.exp_nonpositive(args[0], e.dtype);
        const bool rounds = e.op == ScalarOp::cast && e.cast != e.dtype;
        const Handle r = b_.apply(e.op, args, e.op == ScalarOp::cast ? e.cast : e.dtype);
        return rounds ? b_.apply(ScalarOp::cast, std::array{r}, e.dtype) : r;
      }
      case Expr::Kind::pad: {
        const Handle inside = mask(placed(e.where, step), step);
        if (inside == kNone) return operand(e.operands[0]);
        return b_.apply(ScalarOp::select, std::array{inside, operand(e.operands[0]), b_.constant(e.value)},
                        e.dtype);
      }
      case Expr::Kind::reduce: return results_.at(e.reduction)[static_cast<std::size_t>(e.component)];
    }
    throw InternalError("an expression of no kind");
  }

  bool is_shared(const Expr& load) const {
    if (load.table >= 0) return false;
    const kernel::BufferId b = kernel_.sources.at(load.source);
    return kernel_.out.kernel.buffers[static_cast<std::size_t>(b)].shared;
  }

  IndexBound in_table(kernel::ArrayId table, const Index& offset) const {
    return {offset, 0, kernel_.out.kernel.arrays[static_cast<std::size_t>(table)].elements};
  }
  // A place in a table is guarded where its index cannot be seen to lie inside, though what it is made of does.
  Handle guarded(kernel::ArrayId table, const Index& offset, Handle mask) {
    const IndexBound inside = in_table(table, offset);
    return mask != kNone || inside.always() ? mask : b_.inside({inside});
  }

  // x - max x: never above 0.
  bool is_below_maximum(ExprId id) const {
    const Expr& e = expr(id);
    if (e.kind != Expr::Kind::map || e.op != ScalarOp::sub) return false;
    const Expr& m = expr(e.operands[1]);
    if (m.kind != Expr::Kind::reduce || m.component != 0) return false;
    const Reduction& r = reduction(m.reduction);
    const bool largest = r.monoid == Monoid::max || r.monoid == Monoid::max_sumexp;
    return largest && !r.merge && r.where.empty() && r.operands[0] == e.operands[0];
  }

  // What has to be computed for `targets`: inside the domain, and once for it. Kept values end the search.
  struct Needs {
    std::vector<ExprId> varying, row;
  };
  Needs needs(const std::vector<ExprId>& targets) const {
    std::vector<bool> wanted(region_.exprs.size(), false);
    for (const ExprId t : targets) wanted[static_cast<std::size_t>(t)] = true;
    Needs n;
    for (ExprId id = static_cast<ExprId>(region_.exprs.size()); id-- > 0;) {
      if (!wanted[static_cast<std::size_t>(id)] || (!expr(id).varies && row_memo_.contains(id))) continue;
      if (expr(id).varies && !resident_.empty() && resident_[0].memo.contains(id)) continue;
      (expr(id).varies ? n.varying : n.row).push_back(id);
      if (keep_.contains(id)) continue;
      for (const ExprId o : expr(id).operands) wanted[static_cast<std::size_t>(o)] = true;
    }
    std::reverse(n.varying.begin(), n.varying.end());
    std::reverse(n.row.begin(), n.row.end());
    return n;
  }

  void compute_rows(const Needs& n) {
    for (const ExprId id : n.row) row_memo_[id] = evaluate(expr(id), nullptr);
  }

  // The value in shared memory, where the step has it there.
  std::optional<Handle> stored_value(ExprId id, const Step& s) {
    b_.at(expr(id).node);
    if (const auto kept = keep_.find(id); kept != keep_.end())
      return b_.get(kept->second, s.slot, expr(id).dtype);
    if (const auto ahead = ahead_.find(id); ahead != ahead_.end())
      return b_.get(ahead->second, s.ahead, expr(id).dtype);
    return std::nullopt;
  }

  // Loads of all steps first: as many as possible in flight before the first use. `loaded` runs after them.
  template <class F>
  void compute(const Needs& n, std::span<Step> steps, F&& loaded) {
    const auto is_load = [&](ExprId id) { return expr(id).kind == Expr::Kind::load || keep_.contains(id); };
    for (Step& s : steps) {
      for (const ExprId id : n.varying) {
        if (!is_load(id)) continue;
        const std::optional<Handle> stored = stored_value(id, s);
        s.memo[id] = stored ? *stored : evaluate(expr(id), &s);
      }
    }
    loaded();
    // Then `unroll` steps side by side, so that what takes a branch takes it once for all of them.
    const auto together = static_cast<std::size_t>(s_.unroll);
    for (std::size_t i = 0; i < steps.size(); i += together) {
      const std::span<Step> part = steps.subspan(i, std::min(together, steps.size() - i));
      for (const ExprId id : n.varying) {
        if (is_load(id)) continue;
        for (Step& s : part) s.memo[id] = evaluate(expr(id), &s);
      }
    }
  }
  void compute(const Needs& n, std::span<Step> steps) {
    compute(n, steps, [] {});
  }

  // ---- phases --------------------------------------------------------------------------------------------------------

  void body() {
    if (s_.keep == Keep::shared) fill();
    if (s_.spill > 0) start_spilling();
    for (int phase = 0; phase < region_.phases(); ++phase) this->phase(phase);
    store_rows();
  }

  // Brings the domain to shared memory.
  void fill() {
    b_.comment("keep the domain");
    const std::vector<ExprId> values = kept_values(region_);
    const Needs n = needs(values);
    compute_rows(n);
    const std::int64_t slots = extent_.groups * s_.unroll * s_.vector * threads_of(s_);
    std::map<ExprId, kernel::ArrayId> arrays;
    for (const ExprId id : values) {
      arrays[id] = b_.array(array_name("keep", id), kept_dtype(region_, id), slots, kernel::Space::shared);
    }
    for_each_group([&](std::vector<Step>& steps, const Index&) {
      compute(n, steps);
      for (Step& s : steps) {
        for (const ExprId id : values) {
          b_.at(expr(id).node);
          b_.set(arrays[id], s.slot, b_.widen(s.memo.at(id), s_.vector));
        }
      }
    });
    keep_ = std::move(arrays);
  }

  void phase(int p) {
    std::vector<int> reductions, stores;
    std::vector<ExprId> targets;
    for (std::size_t i = 0; i < region_.reductions.size(); ++i) {
      if (region_.reductions[i].phase != p) continue;
      reductions.push_back(static_cast<int>(i));
      targets.insert(targets.end(), region_.reductions[i].operands.begin(),
                     region_.reductions[i].operands.end());
    }
    for (std::size_t i = 0; i < region_.roots.size(); ++i) {
      if (!region_.roots[i].varies || region_.phase_of(region_.roots[i]) != p) continue;
      stores.push_back(static_cast<int>(i));
      targets.push_back(region_.stored(region_.roots[i]));
    }
    if (targets.empty()) return;
    std::string title = fmt::format("phase {}:", p);
    for (const int r : reductions) title += fmt::format(" {}", info(reduction(r).monoid).text);
    for (const int s : stores) title += " store " + place_name(region_.roots[static_cast<std::size_t>(s)]);
    b_.comment(std::move(title));

    const Needs n = needs(targets);
    compute_rows(n);
    const bool once = extent_.groups == 1 || s_.keep == Keep::registers;
    std::map<int, std::vector<kernel::ArrayId>> partial;
    if (!once || s_.spill > 0) {
      for (const int r : reductions) partial[r] = accumulators(r, "acc");
    }
    for_each_group([&](std::vector<Step>& steps, const Index& group) {
      const bool ahead = p == 0 && s_.prefetch > 0;
      if (ahead) b_.await(s_.prefetch - 1);
      // The first phase brings the domain in, with all its loads in flight. What later ones load beside it is used at once
      // and must not fill the registers.
      const std::span<Step> all(steps);
      const std::size_t chunk = p == 0 ? all.size() : static_cast<std::size_t>(s_.unroll);
      for (std::size_t i = 0; i < all.size(); i += chunk) {
        const std::span<Step> part = all.subspan(i, std::min(chunk, all.size() - i));
        compute(n, part, [&] {
          if (ahead) start_next_copies(group);
        });
        for (const int s : stores) store(s, part);
      }
      for (const int r : reductions) {
        const Handles state = lift_in_chunks(r, steps);
        if (once) {
          results_[r] = state;
        } else {
          set_state(partial[r], combine(r, get_state(r, partial[r], Index(0)), state), Index(0));
        }
      }
    });
    if (s_.spill > 0) spilled_phase(p, targets, reductions, stores, partial);
    for (const int r : reductions) {
      if (!once) results_[r] = get_state(r, partial[r], Index(0));
      if (s_.spill > 0) results_[r] = combine(r, results_[r], get_state(r, partial[r], Index(0)));
    }
    across_threads(reductions);
  }

  const Reduction& reduction(int r) const { return region_.reductions[static_cast<std::size_t>(r)]; }
  // The first of the nodes that are components of the reduction.
  NodeId node_of(int r) const {
    const auto e = std::find_if(region_.exprs.begin(), region_.exprs.end(), [&](const Expr& e) {
      return e.kind == Expr::Kind::reduce && e.reduction == r;
    });
    return e == region_.exprs.end() ? kNoNode : e->node;
  }

  void store(int i, std::span<Step> steps) {
    const Root& root = region_.roots[static_cast<std::size_t>(i)];
    const ExprId value = region_.stored(root);
    for (Step& s : steps) {
      std::vector<IndexBound> bounds = placed(root.where, &s);
      bounds.insert(bounds.end(), row_bounds_.begin(), row_bounds_.end());
      bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
      put(root, at(root.offset, &s), expr(value).varies ? s.memo.at(value) : row_memo_.at(value),
          mask(std::move(bounds), &s));
    }
  }

  // To memory, or to the table in every block of the team.
  void put(const Root& root, const Index& offset, Handle value, Handle mask) {
    b_.at(root.node);
    if (root.table < 0) return b_.store(kernel_.roots.at({root.node, root.temporary}), offset, value, mask);
    const kernel::ArrayId table = kernel_.tables[static_cast<std::size_t>(root.table)];
    mask = guarded(table, offset, mask);
    if (place_.cluster == 1) return b_.set(table, offset, value, mask);
    const IndexVar rank = b_.var("to", place_.cluster);
    b_.loop(rank, kernel::Level::serial, [&] { b_.set(table, offset, value, mask, Index::var(rank)); });
  }

  std::string place_name(const Root& root) const {
    const kernel::Kernel& k = kernel_.out.kernel;
    if (root.table >= 0)
      return k.arrays[static_cast<std::size_t>(kernel_.tables[static_cast<std::size_t>(root.table)])].name;
    return k.buffers[static_cast<std::size_t>(kernel_.roots.at({root.node, root.temporary}))].name;
  }

  // What has one value a domain is stored by one of its threads.
  void store_rows() {
    std::vector<ExprId> targets;
    for (const Root& r : region_.roots) {
      if (!r.varies) targets.push_back(region_.stored(r));
    }
    if (targets.empty()) return;
    compute_rows(needs(targets));
    b_.when(b_.inside({{place_.thread_reduced, 0, 1}, {share_, 0, 1}}), [&] {
      const Handle valid = b_.inside(row_bounds_);
      for (const Root& r : region_.roots) {
        if (!r.varies) put(r, at(r.offset, nullptr), row_memo_.at(region_.stored(r)), valid);
      }
    });
  }

  // ---- reductions ----------------------------------------------------------------------------------------------------

  int state_width() const { return s_.lanes_reduced ? 1 : s_.vector; }
  std::vector<DType> state_dtypes(int r) const { return reduction(r).component_dtypes(); }

  Handles combine(int r, const Handles& a, const Handles& b) {
    return info(reduction(r).monoid).combine(b_, reduction(r).dtype, a, b);
  }

  Handles lift(const Reduction& r, std::span<Step> steps) {
    std::vector<Handles> chunk;
    Handles valid;
    for (Step& s : steps) {
      Handles entry;
      for (const ExprId o : r.operands)
        entry.push_back(b_.widen(expr(o).varies ? s.memo.at(o) : row_memo_.at(o), s_.vector));
      chunk.push_back(std::move(entry));
      std::vector<IndexBound> bounds = placed(r.where, &s);
      bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
      valid.push_back(mask(std::move(bounds), &s));
    }
    Handles state = r.merge ? merge(r, chunk, valid) : info(r.monoid).lift(b_, r.dtype, chunk, valid);
    for (Handle& h : state) h = b_.widen(h, state_width());
    return state;
  }

  // All steps at once, or `unroll` at a time where lifting holds values of its own for every element.
  Handles lift_in_chunks(int r, std::span<Step> all) {
    b_.at(node_of(r));
    // What stays in registers beside a chunk leaves none for two ways to take exponentials: log_softmax of f32 rows spilled
    // hundreds of bytes (sm_90, 2026-11).
    b_.take_apart(s_.keep == Keep::registers);
    const std::size_t chunk =
        info(reduction(r).monoid).lift_holds_elements ? static_cast<std::size_t>(s_.unroll) : all.size();
    Handles state;
    for (std::size_t i = 0; i < all.size(); i += chunk) {
      const Handles part = lift(reduction(r), all.subspan(i, std::min(chunk, all.size() - i)));
      state = i == 0 ? part : combine(r, state, part);
    }
    b_.take_apart(false);
    return state;
  }

  // Elements that are states themselves.
  Handles merge(const Reduction& r, const std::vector<Handles>& chunk, const Handles& valid) {
    const MonoidInfo& m = info(r.monoid);
    const std::vector<Scalar> none = r.identity();
    std::vector<Handles> states;
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      std::vector<Handles> lanes;  // by component
      for (std::size_t c = 0; c < chunk[i].size(); ++c) {
        Handle h = chunk[i][c];
        if (valid[i] != kNone)
          h = b_.apply(ScalarOp::select, std::array{valid[i], h, b_.constant(none[c])}, b_.dtype(h));
        lanes.push_back(b_.elements(h));
      }
      for (std::size_t l = 0; l < lanes[0].size(); ++l) {
        Handles state;
        for (const Handles& component : lanes) state.push_back(component[l]);
        states.push_back(std::move(state));
      }
    }
    Handles all = states[0];
    for (std::size_t i = 1; i < states.size(); ++i) all = m.combine(b_, r.dtype, all, states[i]);
    return all;
  }

  std::vector<kernel::ArrayId> accumulators(int r, std::string_view name) {
    b_.at(node_of(r));
    const std::vector<Scalar> none = reduction(r).identity();
    const std::vector<DType> types = state_dtypes(r);
    std::vector<kernel::ArrayId> arrays;
    Handles start;
    for (std::size_t c = 0; c < types.size(); ++c) {
      arrays.push_back(b_.array(array_name(name, r, c), types[c], state_width(), kernel::Space::registers));
      start.push_back(b_.widen(b_.constant(none[c]), state_width()));
    }
    set_state(arrays, start, Index(0));
    return arrays;
  }

  Index state_lane() const { return s_.lanes_reduced ? Index(0) : lane_; }
  Handles get_state(int r, const std::vector<kernel::ArrayId>& arrays, const Index& at) {
    const std::vector<DType> types = state_dtypes(r);
    Handles state;
    for (std::size_t c = 0; c < arrays.size(); ++c) {
      const DType stored = kernel_.out.kernel.arrays[static_cast<std::size_t>(arrays[c])].dtype;
      const Handle h = b_.get(arrays[c], at * state_width() + state_lane(), stored);
      state.push_back(stored == types[c] ? h : b_.apply(ScalarOp::cast, std::array{h}, types[c]));
    }
    return state;
  }
  void set_state(const std::vector<kernel::ArrayId>& arrays, const Handles& state, const Index& at) {
    for (std::size_t c = 0; c < arrays.size(); ++c)
      b_.set(arrays[c], at * state_width() + state_lane(), state[c]);
  }

  // Combines with the state of the lane `mask` threads away; `distance` is that in threads of the domain.
  Handles exchange(int r, const Handles& state, int mask, int distance) {
    Handles other;
    for (const Handle h : state) other.push_back(b_.shuffle(h, mask));
    if (info(reduction(r).monoid).commutative) return combine(r, state, other);
    // Lower thread first in both lanes, so that both get the same bits.
    const Handle upper = b_.inside({{mod(floordiv(place_.thread_reduced, distance), 2), 1, 2}});
    Handles first, second;
    for (std::size_t c = 0; c < state.size(); ++c) {
      const DType t = b_.dtype(state[c]);
      first.push_back(b_.apply(ScalarOp::select, std::array{upper, other[c], state[c]}, t));
      second.push_back(b_.apply(ScalarOp::select, std::array{upper, state[c], other[c]}, t));
    }
    return combine(r, first, second);
  }

  // The results of a phase, over the lanes of a warp by shuffles, over the warps of the block and the blocks of the cluster
  // through shared memory, with one barrier for all. Every thread of the domain ends with the whole.
  void across_threads(const std::vector<int>& reductions) {
    const auto [stride, in_warp, warps] = warps_of(s_);
    for (const int r : reductions) {
      b_.at(node_of(r));
      for (int d = 1; d < in_warp; d *= 2) results_[r] = exchange(r, results_[r], d * stride, d);
    }
    if (reductions.empty()) return;
    if (warps > 1) {
      const Parts parts = parts_of(reductions, "part", warps);
      const Index warp = floordiv(place_.thread_reduced, in_warp);
      b_.when(b_.inside({{mod(place_.thread_reduced, in_warp), 0, 1}}), [&] {
        for (const int r : reductions) {
          b_.at(node_of(r));
          set_state(parts.arrays.at(r), results_[r], slot_of(parts, warp));
        }
      });
      b_.barrier(kernel::Scope::block);
      combine_parts(reductions, parts);
    }
    if (s_.cluster > 1) exchange_messages(reductions);
  }

  // As late as possible, when loads are on their way.
  void wait_for_cluster() {
    if (place_.cluster > 1 && !place_.staged && !started_) b_.started();
    started_ = true;
  }

  // The states of the blocks of a cluster: thread i of a domain sends that of its block to block i.
  void exchange_messages(const std::vector<int>& reductions) {
    const Parts parts = parts_of(reductions, "block", s_.cluster);
    const Index box = Index(kernel_.boxes_used) + mod(round_, parts.places);
    kernel_.boxes_used += parts.places;
    // A block that has our message may send the next one where this block's threads still read, unless they all have read.
    if (warps_of(s_).count == 1) b_.barrier(kernel::Scope::block);
    wait_for_cluster();
    std::int64_t bytes = 0;
    b_.when(b_.inside({{place_.thread_reduced, 0, s_.cluster}}), [&] {
      const Index to = mod(place_.thread_reduced, s_.cluster);
      for (const int r : reductions) {
        b_.at(node_of(r));
        for (std::size_t c = 0; c < results_[r].size(); ++c) {
          const kernel::ArrayId array = parts.arrays.at(r)[c];
          const kernel::Array& a = kernel_.out.kernel.arrays[static_cast<std::size_t>(array)];
          Handle h = results_[r][c];
          if (b_.dtype(h) != a.dtype) h = b_.apply(ScalarOp::cast, std::array{h}, a.dtype);
          b_.send(array, slot_of(parts, share_) * state_width() + state_lane(), h, to, kernel_.boxes, box);
          bytes += a.elements / parts.places * size_of(a.dtype);
        }
      }
    });
    b_.receive(kernel_.boxes, box, floordiv(round_, parts.places), bytes);
    combine_parts(reductions, parts);
  }

  // Shared memory for the states of some warps or blocks.
  struct Parts {
    std::string_view name;
    int count;
    int places;  // in which they lie in turn
    std::map<int, std::vector<kernel::ArrayId>> arrays;
  };
  Parts parts_of(const std::vector<int>& reductions, std::string_view name, int count) {
    Parts parts{name, count, alternates(region_, s_) ? 2 : 1, {}};
    for (const int r : reductions) {
      const std::vector<DType> types = state_dtypes(r);
      for (std::size_t c = 0; c < types.size(); ++c) {
        parts.arrays[r].push_back(b_.array(
            array_name(name, r, c), name == "block" ? message_dtype(types[c]) : types[c],
            std::int64_t{parts.places} * count * s_.threads_kept * state_width(), kernel::Space::shared));
      }
    }
    return parts;
  }
  Index slot_of(const Parts& parts, const Index& part) const {
    const Index here = s_.lanes_reduced ? place_.thread_kept * parts.count + part
                                        : part * s_.threads_kept + place_.thread_kept;
    return mod(round_, parts.places) * (std::int64_t{parts.count} * s_.threads_kept) + here;
  }

  void combine_parts(const std::vector<int>& reductions, const Parts& parts) {
    for (const int r : reductions) {
      b_.at(node_of(r));
      results_[r] = whole(r, parts);
    }
  }

  Handles whole(int r, const Parts& all) {
    const auto [stride, in_warp, warps] = warps_of(s_);
    const int parts = all.count;
    const std::vector<kernel::ArrayId>& arrays = all.arrays.at(r);
    if (in_warp >= parts) {  // one partial result a lane
      Handles state = get_state(r, arrays, slot_of(all, mod(place_.thread_reduced, parts)));
      for (int d = 1; d < parts; d *= 2) state = exchange(r, state, d * stride, d);
      return state;
    }
    const std::vector<kernel::ArrayId> sum = accumulators(r, fmt::format("{}_whole", all.name));
    const IndexVar p = b_.var("p", parts);
    b_.loop(p, kernel::Level::serial, [&] {
      set_state(sum,
                combine(r, get_state(r, sum, Index(0)), get_state(r, arrays, slot_of(all, Index::var(p)))),
                Index(0));
    });
    return get_state(r, sum, Index(0));
  }

  // "part0_1"; in a kernel of several stages "s1_part0_1".
  template <class... Numbers>
  std::string array_name(std::string_view name, Numbers... numbers) const {
    return fmt::format(
        "{}{}{}", place_.prefix, name,
        fmt::join(std::array<std::size_t, sizeof...(numbers)>{static_cast<std::size_t>(numbers)...}, "_"));
  }

  KernelContext& kernel_;
  KernelBuilder& b_;
  const Region& region_;
  const Schedule& s_;
  const StagePlace& place_;
  Extent extent_;
  Index lane_;
  Index share_;  // of a domain that a cluster shares: the block's rank
  std::vector<std::pair<std::int32_t, Index>> kept_;
  std::vector<IndexBound> row_bounds_;
  Memo row_memo_;
  std::map<int, Handles> results_;
  std::map<ExprId, kernel::ArrayId> keep_;   // in shared memory
  std::map<ExprId, kernel::ArrayId> ahead_;  // likewise, of what is read ahead
  Index block_;                              // whose domains kept_ says
  IndexVar next_;                            // the block of the next turn
  Index round_;                              // turns before this one
  bool started_ = false;                     // has waited for the cluster
  Spill spill_;
  std::vector<kernel::ArrayId> spill_arrays_;
  std::vector<Step> resident_;  // all steps of the thread, where the domain stays in registers
};

}  // namespace

void lower_stage(KernelContext& kernel, const Region& region, const Schedule& schedule,
                 const StagePlace& place) {
  StageLowering(kernel, region, schedule, place).run();
}

}  // namespace bz::compiler

#include "compiler/lower/phases.h"

#include <algorithm>
#include <optional>

#include "compiler/lower/lift.h"
#include "compiler/lower/spill.h"

namespace bz::compiler {
namespace {

// What ends in a phase, by number in the region.
struct Phase {
  int number;
  std::vector<int> reductions, stores;
  std::vector<int> of_threads;  // reductions over the threads' own states
  bool goes_over_domain() const { return !reductions.empty() || !stores.empty(); }
};

class PhaseLowering {
 public:
  PhaseLowering(const StageContext& stage, const Position& position, Exchange* exchange, ReadAhead* ahead)
      : stage_(stage),
        region_(stage.region),
        s_(stage.schedule),
        b_(stage.builder),
        position_(position),
        exchange_(exchange),
        ahead_(ahead),
        values_(stage, position),
        states_(stage),
        stays_(s_.keep == Keep::registers || (s_.gang > 1 && stage.extent.groups == 1)) {
    if (ahead == nullptr) return;
    held_ = ahead->held();
    values_.know(ahead->once());
  }

  std::map<int, Handles> run(const Leg& leg, Memo known, const std::map<int, Handles>& results) {
    values_.know(std::move(known));
    for (const auto& [r, state] : results) values_.set_result(r, state);
    std::map<int, Handles> found;
    for (int p = leg.first; p < leg.end; ++p) {
      held_ = leg.held[static_cast<std::size_t>(p)];
      added_ = leg.added[static_cast<std::size_t>(p)];
      for (auto& [r, state] : reduced(p)) {
        if (!stage_.reduction(r).exchanges()) values_.set_result(r, state);
        found[r] = std::move(state);
      }
    }
    // By those who have the domain's first vectors.
    if (leg.end == region_.phases() && stage_.first_vector == 0) store_once();
    return found;
  }

  void run() {
    if (s_.keep == Keep::shared) fill();
    if (s_.spill > 0) spill();
    for (int p = 0; p < region_.phases(); ++p) phase(p);
    store_once();
  }

 private:
  // Brings the domain to shared memory.
  void fill() {
    b_.comment("keep the domain");
    const std::vector<ExprId> kept = kept_values(region_);
    const Values::Needs n = values_.needs(kept, {}, nullptr);
    values_.compute_once(n);
    const std::int64_t slots = stage_.extent.groups * s_.unroll * s_.vector * threads_of(s_);
    Held held;
    for (const ExprId id : kept) {
      held[id].array =
          b_.array(stage_.array_name("keep", id), kept_dtype(region_, id), slots, kernel::Space::shared);
    }
    for_each_group([&](std::span<Step> steps, const Index&) {
      values_.load(n, {}, steps);
      values_.compute(n, steps);
      hold(stage_, position_, held, steps);
    });
    held_ = std::move(held);
  }

  void spill() {
    if (ahead_ == nullptr) arrays_.emplace(stage_);
    spilled_.emplace(stage_, position_, ahead_ == nullptr ? *arrays_ : *ahead_->spilled());
    if (ahead_ == nullptr && !loads_first()) spilled_->start();
  }

  // The last phase in which there is something to do.
  int last_phase() const {
    int last = region_.phases() - 1;
    while (last > 0 && targets_of(region_, last).empty()) --last;
    return last;
  }

  // Runs `body(steps, group)` for all of the thread's steps: all at once where the domain stays in registers, with all that
  // earlier phases know, else `unroll` at a time in a loop.
  template <class F>
  void for_each_group(F&& body) {
    if (stays_) {
      if (resident_.empty()) resident_ = position_.steps_of(Index(0), true, stage_.extent.together);
      return body(std::span<Step>(resident_), Index(0));
    }
    const Extent& e = stage_.extent;
    const auto group = [&](const Index& g, bool masked, std::int64_t vectors) {
      std::vector<Step> steps = position_.steps_of(g, masked, vectors);
      const std::span<Step> all(steps);
      const Handle any = may_skip(g) ? b_.inside(position_.begin_bounds(steps[0])) : kernel::kNone;
      b_.when(any, [&] { body(all, g); });
    };
    const auto loop = [&](std::int64_t first, std::int64_t end, bool masked) {
      if (first >= end) return;
      if (first + 1 == end)
        return group(Index(first), masked, end == e.groups && ahead_ == nullptr ? e.rest : e.together);
      const IndexVar j = b_.var("j", end - first);
      b_.loop(j, kernel::Level::serial, [&] { group(Index::var(j) + Index(first), masked, e.together); });
    };
    // What the last groups read ahead is of the next domain; without that, the last may have fewer vectors.
    const std::int64_t last = ahead_ != nullptr     ? e.groups - s_.prefetch
                              : e.rest < e.together ? e.groups - 1
                                                    : e.groups;
    const auto loops = [&](std::int64_t first, std::int64_t end, bool masked) {
      const std::int64_t middle = std::clamp(last, first, std::max(first, end));
      loop(first, middle, masked);
      loop(middle, end, masked);
    };
    loops(0, std::min(e.first_full, e.groups), true);
    loops(e.first_full, e.end_full, false);
    loops(e.end_full, e.groups, true);
  }

  // Threads of which the domain has nothing in the last group do without it, warps of them at no cost. Not where
  // what is read ahead is waited for; nor where most have something, whose loads come later for the question: logsumexp of 30522 bf16
  // took 0.30 ms so, 0.28 otherwise; of 65535 f32 0.245 and 0.254 (H200, 2026-11).
  bool may_skip(const Index& group) const {
    const Extent& e = stage_.extent;
    return e.groups > 1 && ahead_ == nullptr && group == Index(e.groups - 1) &&
           position_.few_have((e.groups - 1) * s_.unroll, e.rest);
  }

  // A step with what all steps in registers know.
  const Step* known() const { return resident_.empty() ? nullptr : &resident_[0]; }

  Phase phase_of(int p) const {
    Phase phase{p, {}, {}, {}};
    for (std::size_t i = 0; i < region_.reductions.size(); ++i) {
      const Reduction& r = region_.reductions[i];
      if (r.phase == p)
        (r.over == Over::threads ? phase.of_threads : phase.reductions).push_back(static_cast<int>(i));
    }
    for (std::size_t i = 0; i < region_.roots.size(); ++i) {
      const Root& r = region_.roots[i];
      if (r.varies && region_.phase_of(r) == p) phase.stores.push_back(static_cast<int>(i));
    }
    return phase;
  }

  const Root& root(int i) const { return region_.roots[static_cast<std::size_t>(i)]; }

  std::string title(const Phase& phase) const {
    std::string text = fmt::format("phase {}:", phase.number);
    for (const int r : phase.reductions) text += fmt::format(" {}", info(stage_.reduction(r).monoid).text);
    for (const int r : phase.of_threads)
      text += fmt::format(" {} of threads", info(stage_.reduction(r).monoid).text);
    for (const int i : phase.stores) text += " store " + place_name(stage_, root(i));
    return text;
  }

  // What the thread reduces in the phase.
  std::map<int, Handles> reduced(int p) {
    std::vector<ExprId> targets = targets_of(region_, p);
    if (targets.empty()) return {};
    for (const auto& [id, in] : added_) targets.push_back(id);
    const Phase phase = phase_of(p);
    b_.comment(title(phase));
    Values::Needs n = values_.needs(targets, held_, known());
    values_.compute_once(n);
    std::map<int, Handles> results;
    if (phase.goes_over_domain()) results = over_domain(phase, targets, std::move(n));
    for (const int r : phase.of_threads) {
      for (const ExprId o : stage_.reduction(r).operands)
        results[r].push_back(b_.widen(values_.of(o, nullptr), states_.width()));
    }
    return results;
  }

  void phase(int p) {
    std::map<int, Handles> shared;
    for (auto& [r, state] : reduced(p)) {
      if (stage_.reduction(r).exchanges())
        shared[r] = std::move(state);
      else
        values_.set_result(r, std::move(state));
    }
    if (!shared.empty()) exchange_->across_threads(shared);
    for (auto& [r, state] : shared) values_.set_result(r, std::move(state));
  }

  // What the thread reduces of its elements.
  std::map<int, Handles> over_domain(const Phase& phase, const std::vector<ExprId>& targets,
                                     Values::Needs n) {
    const bool once = stage_.extent.groups == 1 || stays_;
    Partial partial;
    if (!once || spilled_) {
      for (const int r : phase.reductions) partial.emplace(r, Accumulator(stage_, r, "acc"));
    }
    const bool spilled_first = begins_with_spilled(phase);
    if (spilled_first) {
      for_each_group([&](std::span<Step> steps, const Index&) { values_.load(n, held_, steps); });
      if (loads_first()) spilled_->start();
      spilled_part(phase, targets, partial);
      n = values_.needs(targets, held_, known());
    }
    std::map<int, Handles> results;
    for_each_group([&](std::span<Step> steps, const Index& group) {
      pass(phase, n, steps, group);
      for (const int r : phase.reductions) {
        if (once) {
          results[r] = lift(stage_, position_, values_, r, steps);
        } else {
          partial.at(r).add(position_, values_, steps);
        }
      }
    });
    if (spilled_ && !spilled_first) spilled_part(phase, targets, partial);
    for (const int r : phase.reductions) {
      if (!once) results[r] = partial.at(r).state();
      if (spilled_) results[r] = states_.combine(r, results[r], partial.at(r).state());
    }
    return results;
  }

  // Copies were started before the loads, so that what they bring is there first. It pays to begin with that where blocks stay, and where
  // states take long to merge (log_softmax of 30522 bf16: 88 instead of 83 % of the copy speed, rms_norm 76 instead of 85; H200, 2026-11).
  bool begins_with_spilled(const Phase& phase) const {
    if (!spilled_ || phase.number > 0) return false;
    return ahead_ != nullptr || std::any_of(phase.reductions.begin(), phase.reductions.end(), [&](int r) {
             return stage_.reduction(r).component_dtypes().size() > 1;
           });
  }

  // Whether vectors that stay in registers are loaded before the copies of the others start. If they follow, some of the loads may end
  // up behind the wait for the copies: softmax of 262144 bf16 84 and 93 % of the copy speed. Masks take registers that loads in flight
  // would then need: softmax of 30522 bf16 99 % with the copies first, 89 with the loads (H200, 2026-12).
  bool loads_first() const {
    return spilled_ && ahead_ == nullptr && !stage_.extent.shifted && vectors_in_registers(region_, s_) > 0;
  }

  // Loads, computes and stores.
  void pass(const Phase& phase, const Values::Needs& n, std::span<Step> all, const Index& group) {
    const bool ahead = phase.number == 0 && ahead_ != nullptr;
    if (ahead) ahead_->wait();
    // The first phase brings the domain in, with all its loads in flight. What later ones load beside it is used at once
    // and must not fill the registers.
    const std::size_t chunk =
        phase.number == 0 || values_.together(n) ? all.size() : static_cast<std::size_t>(s_.unroll);
    for (std::size_t i = 0; i < all.size(); i += chunk) {
      const std::span<Step> steps = all.subspan(i, std::min(chunk, all.size() - i));
      values_.load(n, held_, steps);
      if (phase.number == 0 && loads_first() && !begins_with_spilled(phase)) spilled_->start();
      if (ahead) ahead_->start_next(position_.block(), group);
      values_.compute(n, steps);
      store(phase, steps);
      hold(stage_, position_, added_, steps);
    }
  }

  using Partial = std::map<int, Accumulator>;  // by reduction

  // The phase over the vectors that are spilled: reduces them into `partial`. What it knows of them is gone after it, but for
  // what is put in shared memory.
  void spilled_part(const Phase& phase, const std::vector<ExprId>& targets, const Partial& partial) {
    if (phase.number == 0) spilled_->wait();
    const Held held = spilled_->held(phase.number), added = spilled_->added(phase.number);
    std::vector<ExprId> wanted = targets;
    for (const auto& [id, array] : added) wanted.push_back(id);
    const Values::Needs n = values_.needs(wanted, held, nullptr);
    values_.compute_once(n);
    const bool last = phase.number == last_phase();
    spilled_->for_each_group([&](std::span<Step> steps, const Spilled::Group& group) {
      values_.load(n, held, steps);
      values_.compute(n, steps);
      store(phase, steps);
      for (const int r : phase.reductions) partial.at(r).add(position_, values_, steps);
      hold(stage_, position_, added, steps);
      if (last && ahead_ != nullptr) ahead_->start_next(group);
    });
  }

  void store(const Phase& phase, std::span<Step> steps) {
    for (const int i : phase.stores) {
      const Root& r = root(i);
      for (Step& s : steps) {
        std::vector<IndexBound> bounds = position_.at(r.where, &s);
        bounds.insert(bounds.end(), position_.domain_bounds().begin(), position_.domain_bounds().end());
        bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
        store_value(stage_, r, position_.at(r.offset, &s), values_.of(region_.stored(r), &s),
                    mask(b_, std::move(bounds), &s));
      }
    }
  }

  // What has one value a domain is stored by one of its threads.
  void store_once() {
    std::vector<ExprId> targets;
    for (const Root& r : region_.roots) {
      if (!r.varies) targets.push_back(region_.stored(r));
    }
    if (targets.empty()) return;
    values_.compute_once(values_.needs(targets, held_, known()));
    b_.when(b_.inside({{stage_.place.thread_reduced, 0, 1}, {stage_.share, 0, 1}}), [&] {
      const Handle valid = b_.inside(position_.domain_bounds());
      for (const Root& r : region_.roots) {
        if (!r.varies)
          store_value(stage_, r, position_.at(r.offset, nullptr), values_.of(region_.stored(r), nullptr),
                      valid);
      }
    });
  }

  const StageContext& stage_;
  const Region& region_;
  const Schedule& s_;
  KernelBuilder& b_;
  const Position& position_;
  Exchange* exchange_;  // null where phases are lowered one by one
  ReadAhead* ahead_;
  Values values_;
  States states_;
  Held held_;   // what shared memory has of all steps, but those that are spilled
  Held added_;  // what the phase puts there
  bool stays_;  // whether registers keep what has been computed in all steps
  std::optional<SpillArrays> arrays_;
  std::optional<Spilled> spilled_;  // the rest of the domain, where registers do not hold all
  std::vector<Step> resident_;      // all steps of the thread, where the domain stays in registers
};

}  // namespace

void lower_phases(const StageContext& stage, const Position& position, Exchange& exchange, ReadAhead* ahead) {
  PhaseLowering(stage, position, &exchange, ahead).run();
}

std::map<int, Handles> lower_leg(const StageContext& stage, const Position& position, const Leg& leg,
                                 Memo known, const std::map<int, Handles>& results) {
  return PhaseLowering(stage, position, nullptr, nullptr).run(leg, std::move(known), results);
}

}  // namespace bz::compiler

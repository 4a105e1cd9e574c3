// Which schedule: of the candidates those that can serve, and the one that takes the least time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/fuse/access.h"
#include "compiler/fuse/cost.h"
#include "compiler/schedule/candidates.h"
#include "compiler/schedule/predict.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

// Elements in 16 bytes of the widest type that is contiguous along the variable.
int full_vector(const std::vector<Access>& all, const IndexVar& v) {
  int size = 1;
  for (const Access& a : all) {
    if (contiguous_along(a.offset, v)) size = std::max(size, size_of(a.dtype));
  }
  return size == 1 ? 4 : 16 / size;
}

// Makes the block have so many threads: more domains as long as there are, then more threads a domain, or fewer of both.
void set_threads(Schedule& s, const Region& region, int threads) {
  while (threads_of(s) < threads) {
    const std::int64_t handled = static_cast<std::int64_t>(s.threads_kept) * (s.lanes_reduced ? 1 : s.vector);
    const std::int64_t shared =
        static_cast<std::int64_t>(s.threads_reduced) * (s.lanes_reduced ? s.vector : 1);
    (handled < region.domains() || 2 * shared > region.domain_size() ? s.threads_kept : s.threads_reduced) *=
        2;
  }
  while (threads_of(s) > threads) (s.threads_kept > 1 ? s.threads_kept : s.threads_reduced) /= 2;
}

// Those that can serve with their predicted times, and those that cannot with the reason.
Choice judge(const Forms& forms, std::vector<Schedule> schedules, const Target& target,
             const Bounds& bounds) {
  Choice all;
  std::vector<Schedule> seen;
  for (Schedule& s : schedules) {
    if (bounds.threads != 0) set_threads(s, forms.region(), bounds.threads);
    s.queue = bounds.queue;
    // Few threads read beside those that compute: gn_tail took 0.30 ms so, 0.33 with half as many elements on their way.
    constexpr int kQueueElements = 32;
    if (s.queue > 0 && s.lanes_reduced && s.keep == Keep::nothing)
      s.unroll = std::max(s.unroll, std::min(kMostUnroll, kQueueElements / s.vector));
    if (std::find(seen.begin(), seen.end(), s) != seen.end()) continue;
    seen.push_back(s);
    const Region& form = forms.of(s);
    if (std::optional<std::string> why = refuse(form, s, target)) {
      all.refused.push_back({s, std::move(*why)});
    } else if (const std::int64_t n = registers_of(form, s);
               bounds.queue > 0 && s.keep == Keep::registers && n > kQueueRegisters) {
      all.refused.push_back(
          {s, fmt::format("{} registers a thread, the stages of a queue have {}", n, kQueueRegisters)});
    } else {
      all.candidates.push_back({s, predict(form, s, target, bounds)});
    }
  }
  return all;
}

// The model does not see differences below this, while the order of the candidates was found by measuring.
constexpr double kMargin = 0.94;

const Candidate& least(const std::vector<Candidate>& candidates) {
  const Candidate* best = &candidates[0];
  for (const Candidate& c : candidates) {
    if (c.seconds < kMargin * best->seconds) best = &c;
  }
  return *best;
}

// Twice and half of what the preferred candidate has of unroll, vector and threads, where that can serve.
void add_neighbours(Choice& choice, const Candidate& preferred, const Forms& forms, const Target& target,
                    const Bounds& bounds) {
  std::vector<Schedule> around;
  for (int Schedule::*const key :
       {&Schedule::unroll, &Schedule::vector, &Schedule::threads_reduced, &Schedule::threads_kept}) {
    for (const bool twice : {false, true}) {
      Schedule s = preferred.schedule;
      if (!twice && s.*key == 1) continue;
      s.*key = twice ? 2 * s.*key : s.*key / 2;
      if (s.unroll <= kMostUnroll && s.vector <= kMostVector) around.push_back(s);
    }
  }
  for (Candidate& c : judge(forms, std::move(around), target, bounds).candidates) {
    if (std::any_of(choice.candidates.begin(), choice.candidates.end(),
                    [&](const Candidate& other) { return other.schedule == c.schedule; }))
      continue;
    c.neighbour = true;
    choice.candidates.push_back(std::move(c));
  }
}

// Two measurements of one kernel differ by less than this.
constexpr double kNoise = 0.99;

// The candidate of the shortest measured time; the preferred one when nothing is faster, or none was measured.
const Candidate& fastest(Choice& choice, const Candidate& preferred, const Measurements& measured) {
  const Candidate* best = &preferred;
  double least = std::numeric_limits<double>::infinity();
  for (Candidate& c : choice.candidates) {
    for (const auto& [schedule, seconds] : measured) {
      if (schedule == c.schedule && std::isfinite(seconds)) c.measured = seconds;
    }
    if (c.schedule == preferred.schedule && c.measured) least = kNoise * *c.measured;
  }
  for (const Candidate& c : choice.candidates) {
    if (!c.measured || *c.measured >= least) continue;
    best = &c;
    least = *c.measured;
  }
  return *best;
}

}  // namespace

Choice choose(const Forms& forms, const Target& target, const Bounds& bounds, const Measurements& measured) {
  const Region& region = forms.region();
  const std::vector<Access> all = accesses(region);
  const std::int64_t along_reduced =
      region.reduced.empty() ? 0 : contiguous_bytes(all, region.reduced.back());
  const std::int64_t along_kept = region.kept.empty() ? 0 : contiguous_bytes(all, region.kept.back());
  const bool rows = !region.reduced.empty() && (along_reduced >= along_kept);
  const int full = rows                  ? full_vector(all, region.reduced.back())
                   : region.kept.empty() ? 1
                                         : full_vector(all, region.kept.back());
  const Region& resident_form = forms.resident() != nullptr ? *forms.resident() : region;
  const auto list = [&](const Region& form) {
    return rows ? row_candidates(form, target, full, bounds.team, exchanges_of(resident_form))
                : column_candidates(form, target, full, bounds.staged, bounds.queue > 0);
  };
  std::vector<Schedule> candidates = list(region);
  if (const Region* resident = forms.resident(); rows && resident != nullptr && region.phases() == 1) {
    // Where one phase would do, no blocks share a domain so that it stays, nor is it spilled.
    std::vector<Schedule> staying = list(*resident);
    std::erase_if(
        staying, [](const Schedule& s) { return s.keep != Keep::registers || s.cluster > 1 || s.spill > 0; });
    candidates.insert(candidates.begin(), staying.begin(), staying.end());
  }
  if (rows && !bounds.staged) {
    if (const std::optional<Schedule> gang = gang_candidate(region, target, full))
      candidates.insert(candidates.begin(), *gang);
  }
  if (region.reductions.empty() && !bounds.staged) {
    const std::vector<Schedule> tiles = tile_candidates(region, all, target);
    candidates.insert(candidates.begin(), tiles.begin(), tiles.end());
  }
  if (bounds.staged) std::erase_if(candidates, [](const Schedule& s) { return s.prefetch > 0; });
  Choice choice = judge(forms, std::move(candidates), target, bounds);
  if (choice.candidates.empty()) {
    // A warp a row or a thread an output needs nothing that could run out.
    Schedule last;
    last.lanes_reduced = rows;
    (rows ? last.threads_reduced : last.threads_kept) = 32;
    Choice fallback = judge(forms, {last}, target, bounds);
    if (fallback.candidates.empty()) {
      throw Error(fmt::format("kernel {} has no schedule on {}: {}", region.name, target.name,
                              fallback.refused[0].reason));
    }
    choice.candidates = std::move(fallback.candidates);
  }
  const Candidate preferred = least(choice.candidates);
  add_neighbours(choice, preferred, forms, target, bounds);
  choice.schedule = fastest(choice, preferred, measured).schedule;
  return choice;
}

double Choice::seconds() const {
  const auto at = std::find_if(candidates.begin(), candidates.end(),
                               [&](const Candidate& c) { return c.schedule == schedule; });
  return at == candidates.end() ? 0 : at->seconds;
}

}  // namespace bz::compiler

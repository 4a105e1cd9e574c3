#include "compiler/lower/position.h"

#include "ir/simt.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

void spread(const std::vector<IndexVar>& vars, Index flat, std::vector<std::pair<std::int32_t, Index>>& out) {
  for (std::size_t i = vars.size(); i-- > 0;) {
    out.emplace_back(vars[i].id, i == 0 ? flat : mod(flat, vars[i].extent));
    flat = floordiv(flat, vars[i].extent);
  }
}

}  // namespace

Position::Position(const StageContext& stage, const Index& block) : stage_(stage), block_(block) {
  const Region& region = stage.region;
  const Schedule& s = stage.schedule;
  const std::int64_t interleaved = stage.extent.interleaved, apart = stage.extent.blocks / interleaved;
  const Index at = interleaved == 1 ? block : mod(block, interleaved) * apart + floordiv(block, interleaved);
  Index flat = at * s.threads_kept + stage.place.thread_kept;
  Index bound = flat;
  if (!s.lanes_reduced) {
    const bool whole = region.domains() % s.vector == 0;
    bound = whole ? flat * s.vector : flat * s.vector + stage.lane;
    // Who has no domain goes over another one, so that only what is stored has a mask.
    wraps_ = whole && !IndexBound{bound, 0, region.domains()}.always();
    if (wraps_ && s.threads_reduced * sharing(s) == 1) {
      const Index first = at * s.threads_kept + floordiv(stage.place.thread_kept, simt::kWarp) * simt::kWarp;
      warp_bounds_ = {{first, 0, region.domains() / s.vector}};
      if (warp_bounds_[0].always()) warp_bounds_.clear();
    }
    if (wraps_) flat = mod(flat, region.domains() / s.vector);
    flat = flat * s.vector + stage.lane;
  }
  spread(region.outer, stage.place.outer, kept_);
  spread(region.kept, flat, kept_);
  // At the tail, threads without a domain of their own still take part in shuffles and barriers.
  domain_bounds_ = {{bound, 0, region.domains()}};
  if (domain_bounds_[0].always()) domain_bounds_.clear();
}

Index Position::at(const Index& e, const Step* step) const {
  return e.substitute([&](std::int32_t id) -> const Index* {
    for (const auto& [var, index] : kept_) {
      if (var == id) return &index;
    }
    if (step != nullptr) {
      for (const auto& [var, index] : step->reduced) {
        if (var == id) return &index;
      }
    }
    throw InternalError(fmt::format("region {}: variable {} has no place", stage_.region.name, id));
  });
}

std::vector<IndexBound> Position::at(const std::vector<IndexBound>& bounds, const Step* step) const {
  std::vector<IndexBound> out;
  for (const IndexBound& b : bounds) out.push_back({at(b.e, step), b.lo, b.hi});
  return out;
}

Step Position::step(const Index& vector, bool masked) const {
  const Region& region = stage_.region;
  const Schedule& s = stage_.schedule;
  Step step;
  Index flat = ((vector + Index(stage_.first_vector)) * sharing(s) + stage_.share) * s.threads_reduced +
               stage_.place.thread_reduced;
  // One question for a vector that is inside as a whole or not at all, else one for each lane.
  Index bound = flat;
  if (s.lanes_reduced) {
    flat = flat * s.vector + stage_.lane;
    const bool shifted = stage_.extent.shifted;
    if (shifted) flat = flat - at(aligned_start(region, s), nullptr);
    bound = !shifted && region.domain_size() % s.vector == 0 ? flat - stage_.lane : flat;
  }
  if (masked) step.bounds = {{bound, 0, region.domain_size()}};
  spread(region.reduced, flat, step.reduced);
  const std::int64_t room = s.prefetch > 0 ? vectors_ahead(region, s) : stage_.extent.groups * s.unroll;
  step.own = vector * s.vector + stage_.lane;
  step.number = s.prefetch > 0 && s.gang == 1 ? mod(vector, room) : vector + Index(stage_.first_vector);
  step.count = room;
  return step;
}

std::vector<Step> Position::steps_of(const Index& group, bool masked, std::int64_t vectors) const {
  const Schedule& s = stage_.schedule;
  std::vector<Step> steps;
  if (s.keep != Keep::registers) {
    const bool one = stage_.extent.groups == 1;
    for (std::int64_t u = 0; u < vectors; ++u)
      steps.push_back(step(group * s.unroll + Index(u), masked && !(one && is_inside(u))));
    return steps;
  }
  for (std::int64_t i = 0; i < vectors_in_registers(stage_.region, s); ++i)
    steps.push_back(step(Index(i), !is_inside(i)));
  return steps;
}

bool Position::is_inside(std::int64_t i) const {
  i += stage_.first_vector;
  return (i > 0 || !stage_.extent.shifted) && (i + 1) * elements_of_vector() <= stage_.region.domain_size();
}

bool Position::few_have(std::int64_t first, std::int64_t count) const {
  return stage_.region.domain_size() - first * elements_of_vector() < count * elements_of_vector() / 4;
}

std::vector<IndexBound> Position::begin_bounds(const Step& step) const {
  std::vector<IndexBound> bounds = step.bounds;
  // All threads of a block that is full have a domain.
  if (stage_.region.domains() % stage_.extent.rows_per_block != 0)
    bounds.insert(bounds.end(), domain_bounds_.begin(), domain_bounds_.end());
  const Index zero(0);
  for (IndexBound& b : bounds) {
    b.e = b.e.substitute(
        [&](std::int32_t id) -> const Index* { return id == kernel::kLaneVar ? &zero : nullptr; });
    b.lo = 1 - stage_.schedule.vector;
  }
  return bounds;
}

Index Position::slot(const Step& step, int pieces) const {
  const Schedule& s = stage_.schedule;
  const StagePlace& place = stage_.place;
  const int elements = s.vector / pieces;
  // A warp that has what is left over has nothing before that.
  const std::int64_t before = stage_.first_vector * pieces;
  const Index number = step.number * pieces + floordiv(stage_.lane, elements) - Index(before);
  const Index chunk = Index(before * s.threads_reduced) +
                      number * (before > 0 ? kGangWarp : s.threads_reduced) + place.thread_reduced;
  const Index piece = s.lanes_reduced ? place.thread_kept * (step.count * pieces * s.threads_reduced) + chunk
                                      : chunk * s.threads_kept + place.thread_kept;
  return piece * elements + mod(stage_.lane, elements);
}

}  // namespace bz::compiler

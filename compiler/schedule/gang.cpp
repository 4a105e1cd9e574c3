#include "compiler/schedule/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "compiler/schedule/spill.h"

namespace bz::compiler {
namespace {

// By phase: the exchanges before it.
std::vector<int> legs_of(const Region& region) {
  std::vector<int> leg(static_cast<std::size_t>(region.phases()), 0);
  for (std::size_t phase = 1; phase < leg.size(); ++phase) {
    const bool exchanged = std::any_of(
        region.reductions.begin(), region.reductions.end(),
        [&](const Reduction& r) { return r.phase + 1 == static_cast<int>(phase) && r.exchanges(); });
    leg[phase] = leg[phase - 1] + (exchanged ? 1 : 0);
  }
  return leg;
}

// All of them are copied to. In a turn later legs have done with their domains when the next copy starts, and the first has not.
std::vector<Gang::Array> arrays_of(const Gang& gang, const Spill& spill, const Schedule& s) {
  std::vector<Gang::Array> arrays;
  for (std::size_t a = 0; a < spill.arrays.size(); ++a) {
    int last = 0;
    for (std::size_t phase = 0; phase < spill.held.size(); ++phase) {
      for (const auto& [id, array] : spill.held[phase]) {
        if (array == static_cast<int>(a)) last = std::max(last, gang.leg[phase]);
      }
    }
    arrays.push_back({spill.arrays[a], turns_of_leg(s) * last + s.prefetch - (last > 0 ? 1 : 0)});
  }
  return arrays;
}

// By reduction: the last leg that needs what it has found. What is held when a phase begins needs nothing.
std::vector<int> last_legs(const Region& region, const Gang& gang) {
  std::vector<int> last(region.reductions.size(), 0);
  for (std::size_t phase = 0; phase < gang.leg.size(); ++phase) {
    const int leg = gang.leg[phase];
    std::vector<bool> reached(region.exprs.size(), false);
    const std::function<void(ExprId)> walk = [&](ExprId id) {
      if (reached[static_cast<std::size_t>(id)] || gang.held[phase].contains(id)) return;
      reached[static_cast<std::size_t>(id)] = true;
      const Expr& e = region.exprs[static_cast<std::size_t>(id)];
      if (e.kind == Expr::Kind::reduce) {
        int& of = last[static_cast<std::size_t>(e.reduction)];
        of = std::max(of, leg);
      }
      for (const ExprId o : e.operands) walk(o);
    };
    for (const ExprId t : targets_of(region, static_cast<int>(phase))) walk(t);
    if (phase + 1 < gang.leg.size()) continue;
    for (const Root& r : region.roots) {
      if (!r.varies) walk(region.stored(r));
    }
  }
  return last;
}

}  // namespace

Gang gang_of(const Region& region, const Schedule& s) {
  Gang gang;
  gang.leg = legs_of(region);
  gang.legs = gang.leg.back() + 1;
  gang.turns = turns_of_leg(s) * (gang.legs - 1);
  Spill spill = hold_in_place(region, s);
  gang.arrays = arrays_of(gang, spill, s);
  gang.held = std::move(spill.held);
  gang.last = last_legs(region, gang);
  for (std::size_t k = 0; k < region.reductions.size(); ++k) {
    const Reduction& r = region.reductions[k];
    const int made = gang.leg[static_cast<std::size_t>(r.phase)];
    // What all have found is collected in the turn before the next leg, beside which the last one still reads.
    const int later = gang.last[k] - made - (r.exchanges() ? 1 : 0);
    gang.places.push_back(turns_of_leg(s) * later + (r.exchanges() ? 2 : 0));
  }
  return gang;
}

std::int64_t slots_of(const Region& region, const Schedule& s) {
  std::int64_t components = 0;
  for (const Reduction& r : region.reductions)
    components += r.exchanges() ? static_cast<std::int64_t>(r.component_dtypes().size()) : 0;
  return components * slot_rounds(s) * s.gang;
}

std::int64_t gang_bytes(const Region& region, const Schedule& s) {
  const Gang gang = gang_of(region, s);
  const std::int64_t elements = vectors_ahead(region, s) * s.vector * threads_of(s);
  std::int64_t bytes = 0;
  for (const Gang::Array& a : gang.arrays) bytes += a.places * elements * size_of(a.dtype);
  if (s.parameters == Parameters::shared) {
    for (const ExprId id : parameter_loads(region, s)) bytes += elements * size_of(kept_dtype(region, id));
  }
  for (std::size_t k = 0; k < region.reductions.size(); ++k) {
    const Reduction& r = region.reductions[k];
    for (const DType t : r.component_dtypes()) {
      const std::int64_t states = std::int64_t{gang.places[k]} * (r.exchanges() ? 1 : threads_of(s));
      bytes += ceil_div(states * size_of(t), 16) * 16;
      if (r.exchanges()) bytes += std::int64_t{kGangParts} * threads_of(s) * size_of(t);
    }
  }
  return bytes;
}

std::optional<std::string> refuse_gang(const Region& region, const Schedule& s, const Target& target) {
  if (s.gang > target.multiprocessors)
    return fmt::format("a gang of {} blocks, the device has {} multiprocessors", s.gang,
                       target.multiprocessors);
  if (s.cluster > 1) return "the blocks of a gang are no clusters";
  if (!s.lanes_reduced || s.threads_kept > 1) return "the threads of a gang's block are all of one domain";
  if (s.keep != Keep::shared || s.prefetch == 0)
    return "a gang keeps domains in shared memory and reads ahead, with keep=shared and prefetch=1 or more";
  const std::vector<int> leg = legs_of(region);
  if (exchanges_of(region) == 0 || leg.back() != exchanges_of(region))
    return "no phase follows the last exchange, and a gang's would some turns later";
  for (const Reduction& r : region.reductions) {
    if (!r.exchanges()) continue;
    for (const DType t : r.component_dtypes()) {
      if (size_of(message_dtype(t)) != 4)
        return fmt::format("{} of {} is exchanged, a gang exchanges words of 4 bytes", info(r.monoid).text,
                           name(t));
    }
  }
  return std::nullopt;
}

}  // namespace bz::compiler

#include "compiler/schedule/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

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
    arrays.push_back({spill.arrays[a].dtype, turns_of_leg(s) * last + s.prefetch - (last > 0 ? 1 : 0)});
  }
  return arrays;
}

// Goes from what a phase computes to what that is made of, but for what is held when it begins: that needs nothing. `visit(expression)`
// says whether to go on from it.
template <class F>
void walk_phase(const Region& region, const Gang& gang, std::size_t phase, F&& visit) {
  std::vector<bool> reached(region.exprs.size(), false);
  const std::function<void(ExprId)> walk = [&](ExprId id) {
    if (reached[static_cast<std::size_t>(id)] || gang.held[phase].contains(id)) return;
    reached[static_cast<std::size_t>(id)] = true;
    if (!visit(id)) return;
    for (const ExprId o : region.exprs[static_cast<std::size_t>(id)].operands) walk(o);
  };
  for (const ExprId t : targets_of(region, static_cast<int>(phase))) walk(t);
  if (phase + 1 < gang.leg.size()) return;
  for (const Root& r : region.roots) {
    if (!r.varies) walk(region.stored(r));
  }
}

bool is_collected_for(const Gang& gang, const Reduction& r, int leg) {
  return r.exchanges() && gang.leg[static_cast<std::size_t>(r.phase)] + 1 == leg;
}

// By expression: whether it is made of nothing but what is collected for a leg, and constants.
std::vector<bool> collected_for(const Region& region, const Gang& gang, int leg) {
  std::vector<bool> all(region.exprs.size(), false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Expr& e = region.exprs[i];
    const auto of_constants = [&](ExprId o) {
      return region.exprs[static_cast<std::size_t>(o)].kind == Expr::Kind::constant;
    };
    const auto has = [&](ExprId o) { return static_cast<bool>(all[static_cast<std::size_t>(o)]); };
    if (e.kind == Expr::Kind::reduce) {
      all[i] = is_collected_for(gang, region.reductions[static_cast<std::size_t>(e.reduction)], leg);
    } else if (e.kind == Expr::Kind::map && !e.varies) {
      all[i] = std::any_of(e.operands.begin(), e.operands.end(), has) &&
               std::all_of(e.operands.begin(), e.operands.end(),
                           [&](ExprId o) { return has(o) || of_constants(o); });
    }
  }
  return all;
}

// Only where there is a sum of exponentials, of which each thread would take some again: softmax of 2^20 f32 reached 91.5 % of the copy speed
// without and 92.9 % so. A division and a root keep those waiting that collect: layer_norm of 393216 bf16 92.3 and 90.8 % (H200, 2026-12).
std::vector<std::vector<ExprId>> given_by_leg(const Region& region, const Gang& gang) {
  std::vector<std::set<ExprId>> given(static_cast<std::size_t>(gang.legs));
  for (std::size_t phase = 0; phase < gang.leg.size(); ++phase) {
    const int leg = gang.leg[phase];
    const bool exponentials = std::any_of(
        region.reductions.begin(), region.reductions.end(),
        [&](const Reduction& r) { return r.monoid == Monoid::max_sumexp && is_collected_for(gang, r, leg); });
    if (!exponentials) continue;
    walk_phase(region, gang, phase, [&, all = collected_for(region, gang, leg)](ExprId id) {
      if (!all[static_cast<std::size_t>(id)]) return true;
      given[static_cast<std::size_t>(leg)].insert(id);
      return false;
    });
  }
  std::vector<std::vector<ExprId>> out;
  for (const std::set<ExprId>& of_leg : given) out.emplace_back(of_leg.begin(), of_leg.end());
  return out;
}

// By reduction: the last leg that needs what it has found, beside what it is given.
std::vector<int> last_legs(const Region& region, const Gang& gang) {
  std::vector<int> last(region.reductions.size(), 0);
  for (std::size_t phase = 0; phase < gang.leg.size(); ++phase) {
    const int leg = gang.leg[phase];
    const std::vector<ExprId>& given = gang.given[static_cast<std::size_t>(leg)];
    walk_phase(region, gang, phase, [&](ExprId id) {
      if (std::find(given.begin(), given.end(), id) != given.end()) return false;
      const Expr& e = region.exprs[static_cast<std::size_t>(id)];
      if (e.kind == Expr::Kind::reduce) {
        int& of = last[static_cast<std::size_t>(e.reduction)];
        of = std::max(of, leg);
      }
      return true;
    });
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
  gang.given = given_by_leg(region, gang);
  gang.last = last_legs(region, gang);
  for (std::size_t k = 0; k < region.reductions.size(); ++k) {
    const Reduction& r = region.reductions[k];
    const int made = gang.leg[static_cast<std::size_t>(r.phase)];
    // What all have found is collected in the turn before the next leg, beside which the last one still reads.
    const int later = gang.last[k] - made - (r.exchanges() ? 1 : 0);
    gang.places.push_back(gang.last[k] <= made ? 0
                                               : turns_of_leg(s) * later + (r.exchanges() ? kGangGiven : 0));
  }
  return gang;
}

std::int64_t slots_of(const Region& region, const Schedule& s) {
  std::int64_t components = 0;
  for (const Reduction& r : region.reductions)
    components += r.exchanges() ? static_cast<std::int64_t>(r.component_dtypes().size()) : 0;
  return components * slot_rounds(s) * s.gang;
}

int gang_threads(const Region& region, const Schedule& s) {
  return threads_of(s) + (extent_of(region, s).few ? kGangWarp : 0);
}

std::int64_t gang_elements(const Region& region, const Schedule& s) {
  return (vectors_ahead(region, s) * threads_of(s) + gang_threads(region, s) - threads_of(s)) * s.vector;
}

std::int64_t gang_bytes(const Region& region, const Schedule& s) {
  const Gang gang = gang_of(region, s);
  const std::int64_t elements = gang_elements(region, s);
  const int threads = gang_threads(region, s);
  std::int64_t bytes = 0;
  for (const Gang::Array& a : gang.arrays) bytes += a.places * elements * size_of(a.dtype);
  if (s.parameters == Parameters::shared) {
    for (const ExprId id : parameter_loads(region, s))
      bytes += vectors_ahead(region, s) * s.vector * threads_of(s) * size_of(kept_dtype(region, id));
  }
  for (std::size_t k = 0; k < region.reductions.size(); ++k) {
    const Reduction& r = region.reductions[k];
    for (const DType t : r.component_dtypes()) {
      const std::int64_t states = std::int64_t{gang.places[k]} * (r.exchanges() ? 1 : threads);
      bytes += ceil_div(states * size_of(t), 16) * 16;
      if (r.exchanges()) bytes += std::int64_t{kGangParts} * threads * size_of(t);
    }
  }
  for (const std::vector<ExprId>& of_leg : gang.given) {
    for (const ExprId id : of_leg)
      bytes +=
          ceil_div(std::int64_t{kGangGiven} * size_of(region.exprs[static_cast<std::size_t>(id)].dtype), 16) *
          16;
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

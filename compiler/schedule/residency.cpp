// What of a domain is kept between phases, and the form of a region that profits from it.
#include <algorithm>
#include <set>

#include "compiler/schedule/gang.h"
#include "compiler/schedule/resident.h"
#include "compiler/schedule/schedule.h"

namespace bz::compiler {

std::vector<ExprId> targets_of(const Region& region, int phase) {
  std::vector<ExprId> ids;
  for (const Reduction& r : region.reductions) {
    if (r.phase == phase) ids.insert(ids.end(), r.operands.begin(), r.operands.end());
  }
  for (const Root& r : region.roots) {
    if (r.varies && region.phase_of(r) == phase) ids.push_back(region.stored(r));
  }
  return ids;
}

DType kept_dtype(const Region& region, ExprId id) {
  const Expr& e = region.exprs[static_cast<std::size_t>(id)];
  return e.kind == Expr::Kind::load ? e.stored : e.dtype;
}

std::vector<ExprId> kept_values(const Region& region) {
  const auto at = [&](ExprId id) -> const Expr& { return region.exprs[static_cast<std::size_t>(id)]; };
  // Of later phases: the topmost varying expressions that no reduction feeds, and the loads beneath them.
  std::vector<bool> needed(region.exprs.size(), false);
  for (int phase = 1; phase < region.phases(); ++phase) {
    for (const ExprId t : targets_of(region, phase)) needed[static_cast<std::size_t>(t)] = true;
  }
  std::vector<ExprId> top, loads;
  std::vector<bool> below(region.exprs.size(), false);
  for (ExprId id = static_cast<ExprId>(region.exprs.size()); id-- > 0;) {
    const auto i = static_cast<std::size_t>(id);
    const Expr& e = at(id);
    if (!e.varies) continue;
    if (needed[i] && e.phase == 0 && e.kind != Expr::Kind::index) top.push_back(id);
    if (below[i] || (needed[i] && e.phase == 0)) {
      if (e.kind == Expr::Kind::load) loads.push_back(id);
      for (const ExprId o : e.operands) below[static_cast<std::size_t>(o)] = true;
    } else if (needed[i]) {
      for (const ExprId o : e.operands) needed[static_cast<std::size_t>(o)] = true;
    }
  }
  const auto bytes = [&](const std::vector<ExprId>& ids) {
    int n = 0;
    for (const ExprId id : ids) n += size_of(kept_dtype(region, id));
    return n;
  };
  std::vector<ExprId>& less = bytes(top) < bytes(loads) ? top : loads;
  std::reverse(less.begin(), less.end());
  return less;
}

// Whether neighbours along the lanes are neighbours in memory, wherever the threads are: what can be copied a vector at a time.
static bool is_copied_in_vectors(const Region& region, const Schedule& s, const Expr& e) {
  const std::vector<IndexVar>& along = s.lanes_reduced ? region.reduced : region.kept;
  if (along.empty() || e.kind != Expr::Kind::load || e.table >= 0 || !e.where.empty()) return false;
  const Index lane = Index::var(along.back()), zero(0);
  const Index rest = e.index.substitute(
      [&](std::int32_t v) -> const Index* { return v == along.back().id ? &zero : nullptr; });
  return e.index - rest == lane;
}

bool moves_with_domain(const Region& region, const Expr& load) {
  return std::any_of(region.kept.begin(), region.kept.end(),
                     [&](const IndexVar& v) { return load.index.uses(v.id); });
}

std::vector<ExprId> parameter_loads(const Region& region, const Schedule& s) {
  std::vector<ExprId> loads;
  for (std::size_t i = 0; i < region.exprs.size(); ++i) {
    const Expr& e = region.exprs[i];
    if (e.varies && is_copied_in_vectors(region, s, e) && !moves_with_domain(region, e))
      loads.push_back(static_cast<ExprId>(i));
  }
  return loads;
}

// Loads of each domain's own data that the first phase needs.
static std::vector<ExprId> first_loads(const Region& region) {
  std::vector<bool> wanted(region.exprs.size(), false);
  for (const ExprId t : targets_of(region, 0)) wanted[static_cast<std::size_t>(t)] = true;
  std::vector<ExprId> loads;
  for (ExprId id = static_cast<ExprId>(region.exprs.size()); id-- > 0;) {
    const Expr& e = region.exprs[static_cast<std::size_t>(id)];
    if (!wanted[static_cast<std::size_t>(id)]) continue;
    for (const ExprId o : e.operands) wanted[static_cast<std::size_t>(o)] = true;
    if (e.kind == Expr::Kind::load && e.table < 0 && moves_with_domain(region, e)) loads.push_back(id);
  }
  std::reverse(loads.begin(), loads.end());
  return loads;
}

std::vector<ExprId> loads_ahead(const Region& region, const Schedule& s) {
  std::vector<ExprId> loads = first_loads(region);
  std::erase_if(loads, [&](ExprId id) {
    const Expr& e = region.exprs[static_cast<std::size_t>(id)];
    return !e.varies || !is_copied_in_vectors(region, s, e);
  });
  return loads;
}

std::vector<ExprId> loads_once(const Region& region) {
  std::vector<ExprId> loads = first_loads(region);
  std::erase_if(loads, [&](ExprId id) { return region.exprs[static_cast<std::size_t>(id)].varies; });
  return loads;
}

int exchanges_of(const Region& region) {
  std::set<int> phases;
  for (const Reduction& r : region.reductions) {
    if (r.exchanges()) phases.insert(r.phase);
  }
  return static_cast<int>(phases.size());
}

bool alternates(const Region& region, const Schedule& s) {
  return exchanges_of(region) == 1 && (s.prefetch > 0 || !region.outer.empty());
}

std::int64_t mailboxes_of(const Region& region, const Schedule& s) {
  return s.cluster == 1 ? 0 : exchanges_of(region) * (alternates(region, s) ? 2 : 1);
}

std::int64_t vectors_in_registers(const Region& region, const Schedule& s) {
  return extent_of(region, s).vectors - s.spill;
}

std::int64_t vectors_ahead(const Region& region, const Schedule& s) {
  if (s.keep == Keep::registers) return extent_of(region, s).vectors;
  return s.gang == 1 ? std::int64_t{s.prefetch} * s.unroll : extent_of(region, s).vectors;
}

// Leaves out what no root needs, and puts operands first, what is left in the order it had otherwise.
static void put_in_order(Region& r) {
  const auto operands_of = [&](const Expr& e) -> const std::vector<ExprId>& {
    return e.kind == Expr::Kind::reduce ? r.reductions[static_cast<std::size_t>(e.reduction)].operands
                                        : e.operands;
  };
  std::vector<bool> needed(r.exprs.size(), false);
  std::vector<ExprId> work;
  for (const Root& root : r.roots) work.push_back(root.expr);
  while (!work.empty()) {
    const auto id = static_cast<std::size_t>(work.back());
    work.pop_back();
    if (needed[id]) continue;
    needed[id] = true;
    for (const ExprId o : operands_of(r.exprs[id])) work.push_back(o);
  }
  std::vector<ExprId> order, place(r.exprs.size(), -1);
  for (ExprId first = 0; first < static_cast<ExprId>(r.exprs.size()); ++first) {
    if (needed[static_cast<std::size_t>(first)]) work.push_back(first);
    while (!work.empty()) {
      const ExprId id = work.back();
      const std::size_t before = work.size();
      for (const ExprId o : operands_of(r.exprs[static_cast<std::size_t>(id)])) {
        if (place[static_cast<std::size_t>(o)] < 0) work.push_back(o);
      }
      if (work.size() > before) continue;
      work.pop_back();
      if (place[static_cast<std::size_t>(id)] >= 0) continue;
      place[static_cast<std::size_t>(id)] = static_cast<ExprId>(order.size());
      order.push_back(id);
    }
  }
  std::vector<Expr> exprs;
  std::vector<Reduction> reductions;
  std::vector<int> reduction_place(r.reductions.size(), -1);
  for (const ExprId id : order) {
    Expr e = std::move(r.exprs[static_cast<std::size_t>(id)]);
    for (ExprId& o : e.operands) o = place[static_cast<std::size_t>(o)];
    if (e.kind == Expr::Kind::reduce) {
      int& at = reduction_place[static_cast<std::size_t>(e.reduction)];
      if (at < 0) {
        at = static_cast<int>(reductions.size());
        reductions.push_back(std::move(r.reductions[static_cast<std::size_t>(e.reduction)]));
        for (ExprId& o : reductions.back().operands) o = place[static_cast<std::size_t>(o)];
      }
      e.reduction = at;
    }
    exprs.push_back(std::move(e));
  }
  r.exprs = std::move(exprs);
  r.reductions = std::move(reductions);
  for (Root& root : r.roots) root.expr = place[static_cast<std::size_t>(root.expr)];
}

std::vector<std::vector<ExprId>> computed_by_phase(const Region& region, const Schedule& s) {
  std::vector<std::vector<ExprId>> all;
  std::vector<bool> kept(region.exprs.size(), false);
  const std::optional<Gang> gang = s.gang > 1 ? std::optional(gang_of(region, s)) : std::nullopt;
  for (int phase = 0; phase < region.phases(); ++phase) {
    std::vector<bool> wanted(region.exprs.size(), false);
    for (const ExprId t : targets_of(region, phase)) wanted[static_cast<std::size_t>(t)] = true;
    if (gang) {
      for (const auto& [id, array] : gang->held[static_cast<std::size_t>(phase)])
        if (phase > 0) kept[static_cast<std::size_t>(id)] = true;
    }
    std::vector<ExprId>& computed = all.emplace_back();
    for (std::size_t i = region.exprs.size(); i-- > 0;) {
      if (!wanted[i] || kept[i] || !region.exprs[i].varies) continue;
      computed.push_back(static_cast<ExprId>(i));
      for (const ExprId o : region.exprs[i].operands) wanted[static_cast<std::size_t>(o)] = true;
    }
    if (s.keep == Keep::nothing || gang) continue;
    for (const ExprId id : s.keep == Keep::registers ? computed : kept_values(region))
      kept[static_cast<std::size_t>(id)] = true;
  }
  return all;
}

int live_registers(const Region& region) {
  const int phases = region.phases();
  if (phases == 1) {
    int loaded = 0;
    for (const Expr& e : region.exprs)
      loaded += e.kind == Expr::Kind::load && e.varies ? std::max(1, size_of(e.dtype) / 4) : 0;
    return loaded;
  }
  // By expression: the phase that computes it and the last one that takes it from before.
  std::vector<int> computed(region.exprs.size(), phases), taken(region.exprs.size(), 0);
  for (int phase = 0; phase < phases; ++phase) {
    std::vector<bool> wanted(region.exprs.size(), false);
    for (const ExprId t : targets_of(region, phase)) wanted[static_cast<std::size_t>(t)] = true;
    for (std::size_t i = region.exprs.size(); i-- > 0;) {
      const Expr& e = region.exprs[i];
      if (!wanted[i] || !e.varies) continue;
      if (computed[i] < phase) {
        taken[i] = phase;
        continue;
      }
      computed[i] = phase;
      for (const ExprId o : e.operands) wanted[static_cast<std::size_t>(o)] = true;
    }
  }
  // Live after each phase: what has been computed and will be taken.
  std::vector<int> change(static_cast<std::size_t>(phases) + 1, 0);
  for (std::size_t i = 0; i < region.exprs.size(); ++i) {
    const Expr& e = region.exprs[i];
    if (taken[i] == 0 || e.kind == Expr::Kind::index) continue;
    const int registers = std::max(1, size_of(e.dtype) / 4);
    change[static_cast<std::size_t>(computed[i])] += registers;
    change[static_cast<std::size_t>(taken[i])] -= registers;
  }
  int most = 0, live = 0;
  for (const int c : change) most = std::max(most, live += c);
  return most;
}

// Where blocks stay and spill, most of a domain arrives while the first phase goes over it: exponentials cost no time there. Of moments
// mean and deviations in one exchange save waiting for each other, but take more instructions to put together, which f32 of long rows has
// time for: layer_norm of 65536 f32 took 0.55 ms so and 0.57 otherwise, but of 30522 bf16 0.62 and 0.60, of 1000 bf16 0.69 and 0.50 (H200,
// 2026-11). Of exponentials a gang takes those of each thread's own maximum, for one exchange.
const Region& Forms::of(const Schedule& s) const {
  constexpr std::int64_t kElements = 32;  // of a thread
  if (s.gang > 1) return exponentials_ && exchanges_of(*exponentials_) == 1 ? *exponentials_ : region_;
  if (s.keep != Keep::registers) return region_;
  const bool exponentials = s.prefetch == 0 || s.spill == 0;
  const bool narrow = std::any_of(region_.exprs.begin(), region_.exprs.end(), [](const Expr& e) {
    return e.kind == Expr::Kind::load && e.varies && size_of(e.stored) == 2;
  });
  const bool moments =
      narrow || region_.domain_size() < kElements * s.threads_reduced * s.cluster || s.threads_reduced <= 32;
  const std::optional<Region>& form = !moments ? exponentials_ : exponentials ? resident_ : moments_;
  return form && (exponentials || moments) ? *form : region_;
}

std::optional<Region> resident_form(const Region& region, bool exponentials, bool moments) {
  Region r = region;
  bool changed = exponentials && max_sumexp_as_sums(r);
  if (changed) put_in_order(r);
  if (changed && exchange_once(r)) put_in_order(r);
  while (moments && moments_as_sums(r)) {
    put_in_order(r);
    changed = true;
  }
  if (!changed) return std::nullopt;
  // Phases anew: operands come first, so one sweep does.
  const auto phase = [&](ExprId id) { return r.exprs[static_cast<std::size_t>(id)].phase; };
  for (Expr& e : r.exprs) {
    e.phase = 0;
    for (const ExprId o : e.operands) e.phase = std::max(e.phase, phase(o));
    if (e.kind != Expr::Kind::reduce) continue;
    Reduction& reduction = r.reductions[static_cast<std::size_t>(e.reduction)];
    reduction.phase = 0;
    for (const ExprId o : reduction.operands) reduction.phase = std::max(reduction.phase, phase(o));
    e.phase = reduction.phase + 1;
  }
  return r;
}

}  // namespace bz::compiler

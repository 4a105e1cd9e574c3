// What of a domain is kept between phases, and the form of a region that profits from it.
#include <algorithm>

#include "compiler/schedule/schedule.h"

namespace bz::compiler {
namespace {

// What a phase computes first.
std::vector<ExprId> targets(const Region& region, int phase) {
  std::vector<ExprId> ids;
  for (const Reduction& r : region.reductions) {
    if (r.phase == phase) ids.insert(ids.end(), r.operands.begin(), r.operands.end());
  }
  for (const Root& r : region.roots) {
    if (r.varies && region.phase_of(r) == phase) ids.push_back(r.expr);
  }
  return ids;
}

}  // namespace

DType kept_dtype(const Region& region, ExprId id) {
  const Expr& e = region.exprs[static_cast<std::size_t>(id)];
  return e.kind == Expr::Kind::load ? e.stored : e.dtype;
}

std::vector<ExprId> kept_values(const Region& region) {
  const auto at = [&](ExprId id) -> const Expr& { return region.exprs[static_cast<std::size_t>(id)]; };
  // Of later phases: the topmost varying expressions that no reduction feeds, and the loads beneath them.
  std::vector<bool> needed(region.exprs.size(), false);
  for (int phase = 1; phase < region.phases(); ++phase) {
    for (const ExprId t : targets(region, phase)) needed[static_cast<std::size_t>(t)] = true;
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

// Leaves out what no root needs; operands still come first.
static void drop_dead(Region& r) {
  std::vector<bool> needed(r.exprs.size(), false);
  std::vector<bool> reduced(r.reductions.size(), false);
  for (const Root& root : r.roots) needed[static_cast<std::size_t>(root.expr)] = true;
  for (std::size_t i = r.exprs.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const Expr& e = r.exprs[i];
    for (const ExprId o : e.operands) needed[static_cast<std::size_t>(o)] = true;
    if (e.kind != Expr::Kind::reduce) continue;
    reduced[static_cast<std::size_t>(e.reduction)] = true;
    for (const ExprId o : r.reductions[static_cast<std::size_t>(e.reduction)].operands)
      needed[static_cast<std::size_t>(o)] = true;
  }
  std::vector<int> expr_place, reduction_place;
  const auto compact = [](auto& items, const std::vector<bool>& keep, std::vector<int>& place) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < keep.size(); ++i) {
      place.push_back(static_cast<int>(n));
      if (!keep[i]) continue;
      if (n != i) items[n] = std::move(items[i]);
      ++n;
    }
    items.resize(n);
  };
  compact(r.exprs, needed, expr_place);
  compact(r.reductions, reduced, reduction_place);
  const auto move = [&](ExprId& id) { id = expr_place[static_cast<std::size_t>(id)]; };
  for (Expr& e : r.exprs) {
    for (ExprId& o : e.operands) move(o);
    if (e.kind == Expr::Kind::reduce) e.reduction = reduction_place[static_cast<std::size_t>(e.reduction)];
  }
  for (Reduction& reduction : r.reductions) {
    for (ExprId& o : reduction.operands) move(o);
  }
  for (Root& root : r.roots) move(root.expr);
}

int live_registers(const Region& region) {
  std::vector<bool> computed(region.exprs.size(), false);
  // Marks what `phase` computes anew; returns the registers of what it takes from before.
  const auto walk = [&](int phase, std::vector<bool>& known, std::vector<bool>& taken) {
    std::vector<bool> wanted(region.exprs.size(), false);
    for (const ExprId t : targets(region, phase)) wanted[static_cast<std::size_t>(t)] = true;
    const std::vector<bool> before = known;
    for (std::size_t i = region.exprs.size(); i-- > 0;) {
      const Expr& e = region.exprs[i];
      if (!wanted[i] || !e.varies) continue;
      if (before[i]) {
        taken[i] = e.kind != Expr::Kind::index;
        continue;
      }
      known[i] = true;
      for (const ExprId o : e.operands) wanted[static_cast<std::size_t>(o)] = true;
    }
  };
  int most = 0;
  for (int phase = 0; phase + 1 < region.phases(); ++phase) {
    std::vector<bool> ignored(region.exprs.size(), false), taken(region.exprs.size(), false);
    walk(phase, computed, ignored);
    std::vector<bool> later = computed;
    for (int next = phase + 1; next < region.phases(); ++next) {
      walk(next, later, taken);
      // What only later phases compute is not there yet.
      for (std::size_t i = 0; i < taken.size(); ++i) taken[i] = taken[i] && computed[i];
    }
    int registers = 0;
    for (std::size_t i = 0; i < taken.size(); ++i)
      registers += taken[i] ? std::max(1, size_of(region.exprs[i].dtype) / 4) : 0;
    most = std::max(most, registers);
  }
  return most;
}

std::optional<Region> resident_form(const Region& region) {
  Region r = region;
  const auto at = [&](ExprId id) -> Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const auto is_map = [&](ExprId id, ScalarOp op) {
    return at(id).kind == Expr::Kind::map && at(id).op == op;
  };
  const auto is_component = [&](ExprId id, int reduction, int component) {
    return at(id).kind == Expr::Kind::reduce && at(id).reduction == reduction &&
           at(id).component == component;
  };
  // exp(q - m), q = m or 0 where m is infinite: what online multiplies with to get the sum that the program wrote.
  const auto is_factor = [&](ExprId id, int reduction) {
    if (!is_map(id, ScalarOp::exp)) return false;
    const ExprId difference = at(id).operands[0];
    if (!is_map(difference, ScalarOp::sub) || !is_component(at(difference).operands[1], reduction, 0))
      return false;
    const ExprId q = at(difference).operands[0];
    return is_map(q, ScalarOp::select) && is_map(at(q).operands[0], ScalarOp::isinf) &&
           is_component(at(at(q).operands[0]).operands[0], reduction, 0) &&
           is_component(at(q).operands[2], reduction, 0) &&
           at(at(q).operands[1]).kind == Expr::Kind::constant;
  };
  bool changed = false;
  for (int k = 0; k < static_cast<int>(region.reductions.size()); ++k) {
    const Reduction& state = region.reductions[static_cast<std::size_t>(k)];
    if (state.monoid != Monoid::max_sumexp || state.merge || !state.where.empty()) continue;
    ExprId exponential = -1, sum = -1;
    int sum_uses = 0;
    for (ExprId id = 0; id < static_cast<ExprId>(r.exprs.size()); ++id) {
      const Expr& e = at(id);
      for (const ExprId o : e.operands) sum_uses += is_component(o, k, 1) ? 1 : 0;
      if (is_map(id, ScalarOp::exp) && is_map(e.operands[0], ScalarOp::sub) &&
          at(e.operands[0]).operands[0] == state.operands[0] &&
          is_component(at(e.operands[0]).operands[1], k, 0)) {
        exponential = id;
      }
      if (is_map(id, ScalarOp::mul)) {
        const ExprId a = e.operands[0], b = e.operands[1];
        if ((is_component(a, k, 1) && is_factor(b, k)) || (is_component(b, k, 1) && is_factor(a, k)))
          sum = id;
      }
    }
    const bool stored = std::any_of(r.roots.begin(), r.roots.end(),
                                    [&](const Root& root) { return is_component(root.expr, k, 1); });
    // The sum has to come after its operand.
    if (exponential < 0 || sum < exponential || sum_uses != 1 || stored) continue;
    r.reductions[static_cast<std::size_t>(k)].monoid = Monoid::max;
    at(sum).kind = Expr::Kind::reduce;
    at(sum).operands.clear();
    at(sum).reduction = static_cast<int>(r.reductions.size());
    at(sum).component = 0;
    r.reductions.push_back({Monoid::sum, state.dtype, false, {exponential}, {}, 0});
    changed = true;
  }
  if (!changed) return std::nullopt;
  drop_dead(r);
  // Phases anew: operands come first, so one sweep does.
  for (ExprId id = 0; id < static_cast<ExprId>(r.exprs.size()); ++id) {
    Expr& e = at(id);
    e.phase = 0;
    for (const ExprId o : e.operands) e.phase = std::max(e.phase, at(o).phase);
    if (e.kind != Expr::Kind::reduce) continue;
    Reduction& reduction = r.reductions[static_cast<std::size_t>(e.reduction)];
    reduction.phase = 0;
    for (const ExprId o : reduction.operands) reduction.phase = std::max(reduction.phase, at(o).phase);
    e.phase = reduction.phase + 1;
  }
  return r;
}

}  // namespace bz::compiler

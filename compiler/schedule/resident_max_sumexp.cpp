// max_sumexp of a domain that stays in registers: its maximum, then sums of the exponentials that are there anyway, or that
// take the place of those of the state. Merging states takes two exponentials for each.
#include <limits>
#include <utility>

#include "compiler/schedule/appender.h"
#include "compiler/schedule/resident.h"

namespace bz::compiler {
namespace {

// Where no exponential is needed again: the sum of exp(x - p), with p = 0 where the maximum m is -inf, else m. That is never above
// 1, which makes the exponential cheap, and NaN for +inf - +inf: the sum is +inf then, as that of the state.
bool sum_again(Region& r, int reduction) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Reduction state = r.reductions[static_cast<std::size_t>(reduction)];
  std::vector<ExprId> sums;
  ExprId m = -1;
  for (ExprId id = 0; id < static_cast<ExprId>(r.exprs.size()); ++id) {
    const Expr& e = r.exprs[static_cast<std::size_t>(id)];
    if (e.kind != Expr::Kind::reduce || e.reduction != reduction) continue;
    if (e.component == 0) m = id;
    if (e.component == 1) sums.push_back(id);
  }
  if (m < 0 || sums.empty()) return false;
  Appender a(r, r.exprs[static_cast<std::size_t>(sums[0])].node, state.dtype);
  const ExprId p = a.map(ScalarOp::select, {a.test(ScalarOp::eq, {m, a.constant(-kInf)}), a.constant(0), m});
  const ExprId s = a.sum(a.map(ScalarOp::exp, {a.map(ScalarOp::sub, {state.operands[0], p})}));
  const ExprId infinite = a.test(ScalarOp::eq, {m, a.constant(kInf)}), infinity = a.constant(kInf);
  for (const ExprId id : sums) {
    Expr& e = r.exprs[static_cast<std::size_t>(id)];
    e.kind = Expr::Kind::map;
    e.op = ScalarOp::select;
    e.operands = {infinite, infinity, s};
    e.reduction = -1;
    e.component = 0;
  }
  r.reductions[static_cast<std::size_t>(reduction)].monoid = Monoid::max;
  return true;
}

}  // namespace

bool max_sumexp_as_sums(Region& r) {
  const auto at = [&](ExprId id) -> Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const auto is_map = [&](ExprId id, ScalarOp op) {
    return at(id).kind == Expr::Kind::map && at(id).op == op;
  };
  const auto is_component = [&](ExprId id, int reduction, int component) {
    return at(id).kind == Expr::Kind::reduce && at(id).reduction == reduction &&
           at(id).component == component;
  };
  // q, the pivot of the state itself: m, or 0 where m is infinite.
  const auto is_own_pivot = [&](ExprId q, int reduction) {
    return is_map(q, ScalarOp::select) && is_map(at(q).operands[0], ScalarOp::isinf) &&
           is_component(at(at(q).operands[0]).operands[0], reduction, 0) &&
           is_component(at(q).operands[2], reduction, 0) &&
           at(at(q).operands[1]).kind == Expr::Kind::constant;
  };
  const auto is_exp_of_difference = [&](ExprId id) {
    return is_map(id, ScalarOp::exp) && is_map(at(id).operands[0], ScalarOp::sub);
  };
  // exp(q - m): what online multiplies with to get the sum that the program wrote.
  const auto is_factor = [&](ExprId id, int reduction) {
    if (!is_exp_of_difference(id)) return false;
    const Expr& difference = at(at(id).operands[0]);
    return is_own_pivot(difference.operands[0], reduction) &&
           is_component(difference.operands[1], reduction, 0);
  };
  bool changed = false;
  const int phases = r.phases();
  const int reductions = static_cast<int>(r.reductions.size());
  for (int k = 0; k < reductions; ++k) {
    const Reduction state = r.reductions[static_cast<std::size_t>(k)];
    if (state.monoid != Monoid::max_sumexp || state.merge || !state.where.empty()) continue;
    ExprId exponential = -1, own_exponential = -1;  // exp(x - m), exp(x - q)
    std::vector<std::pair<ExprId, int>> sums;       // where a sum is needed, and its component
    bool only_scaled = true;  // components are needed times the factor and not otherwise
    const auto is_sum = [&](ExprId id) {
      return at(id).kind == Expr::Kind::reduce && at(id).reduction == k && at(id).component > 0;
    };
    const auto size = static_cast<ExprId>(r.exprs.size());
    for (ExprId id = 0; id < size; ++id) {
      const Expr& e = at(id);
      if (is_exp_of_difference(id) && at(e.operands[0]).operands[0] == state.operands[0]) {
        const ExprId p = at(e.operands[0]).operands[1];
        if (is_component(p, k, 0)) exponential = id;
        if (is_own_pivot(p, k)) own_exponential = id;
      }
      for (std::size_t i = 0; i < e.operands.size(); ++i) {
        if (!is_sum(e.operands[i])) continue;
        if (e.kind == Expr::Kind::map && e.op == ScalarOp::mul && is_factor(e.operands[1 - i], k)) {
          sums.emplace_back(id, at(e.operands[i]).component);
        } else {
          only_scaled = false;
        }
      }
    }
    for (const Root& root : r.roots) only_scaled = only_scaled && !is_sum(root.expr);
    if (exponential < 0 && own_exponential < 0) {
      // Another exchange between threads is not worth it where there are several already: log_softmax keeps its state.
      changed |= phases == 1 && state.operands.size() == 1 && sum_again(r, k);
      continue;
    }
    if (own_exponential >= 0) {
      exponential = own_exponential;
      sums.clear();
      for (ExprId id = 0; id < size; ++id) {
        if (is_sum(id)) sums.emplace_back(id, at(id).component);
      }
    } else if (!only_scaled) {
      continue;
    }
    if (sums.empty()) continue;
    for (const auto& [sum, component] : sums) {
      ExprId summand = exponential;
      if (component > 1) {
        Expr product = at(exponential);
        product.op = ScalarOp::mul;
        product.operands = {exponential, state.operands[static_cast<std::size_t>(component) - 1]};
        summand = static_cast<ExprId>(r.exprs.size());
        r.exprs.push_back(std::move(product));
      }
      at(sum).kind = Expr::Kind::reduce;
      at(sum).operands.clear();
      at(sum).reduction = static_cast<int>(r.reductions.size());
      at(sum).component = 0;
      r.reductions.push_back({Monoid::sum, state.dtype, false, {summand}, {}, 0});
    }
    r.reductions[static_cast<std::size_t>(k)].monoid = Monoid::max;
    r.reductions[static_cast<std::size_t>(k)].operands.resize(1);
    changed = true;
  }
  return changed;
}

}  // namespace bz::compiler

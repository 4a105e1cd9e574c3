// max_sumexp of a domain that stays in registers and needs its exponentials again: its maximum, then sums of the exponentials that
// are there anyway.
#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "compiler/schedule/appender.h"
#include "compiler/schedule/resident.h"

namespace bz::compiler {

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
    if (exponential < 0 && own_exponential < 0) continue;
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

namespace {

// m = max x, s = sum e and e = exp(x - m), which more than the sum needs.
struct Softmax {
  ExprId m, s, e;
};

std::optional<Softmax> find_softmax(const Region& r, int maximum) {
  const auto at = [&](ExprId id) -> const Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const Reduction& max = r.reductions[static_cast<std::size_t>(maximum)];
  if (max.monoid != Monoid::max || max.scope != Scope::domain || max.merge || !max.where.empty())
    return std::nullopt;
  Softmax found{-1, -1, -1};
  for (ExprId id = 0; id < static_cast<ExprId>(r.exprs.size()); ++id) {
    const Expr& e = at(id);
    if (e.kind == Expr::Kind::reduce && e.reduction == maximum) found.m = id;
    if (found.e >= 0 && e.kind == Expr::Kind::reduce) {
      const Reduction& sum = r.reductions[static_cast<std::size_t>(e.reduction)];
      if (sum.monoid == Monoid::sum && sum.operands[0] == found.e && sum.where.empty()) found.s = id;
    }
    if (found.m < 0 || e.kind != Expr::Kind::map || e.op != ScalarOp::exp) continue;
    const Expr& difference = at(e.operands[0]);
    if (difference.kind == Expr::Kind::map && difference.op == ScalarOp::sub &&
        difference.operands == std::vector<ExprId>{max.operands[0], found.m})
      found.e = id;
  }
  if (found.s < 0) return std::nullopt;
  const bool again =
      std::any_of(r.exprs.begin(), r.exprs.end(),
                  [&](const Expr& e) {
                    return std::find(e.operands.begin(), e.operands.end(), found.e) != e.operands.end();
                  }) ||
      std::any_of(r.roots.begin(), r.roots.end(), [&](const Root& root) { return root.expr == found.e; });
  return again ? std::optional(found) : std::nullopt;
}

}  // namespace

// exp(x - m) = exp(x - own) exp(own - m). A quotient e / s becomes a product with exp(own - m) / s, which has one value a thread:
// its error is far below the rounding to 16 bits.
bool exchange_once(Region& r) {
  const auto at = [&](ExprId id) -> Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const bool narrow = std::all_of(r.roots.begin(), r.roots.end(), [](const Root& root) {
    return !root.varies || root.stored == DType::bf16 || root.stored == DType::f16;
  });
  if (!narrow) return false;
  bool changed = false;
  const int reductions = static_cast<int>(r.reductions.size());
  for (int k = 0; k < reductions; ++k) {
    const std::optional<Softmax> found = find_softmax(r, k);
    if (!found) continue;
    const auto size = static_cast<ExprId>(r.exprs.size());
    const ExprId x = r.reductions[static_cast<std::size_t>(k)].operands[0];
    const DType t = at(found->m).dtype;
    Appender a(r, at(found->m).node, t);
    const ExprId own =
        a.reduce({.monoid = Monoid::max, .dtype = t, .operands = {x}, .scope = Scope::thread});
    // A thread may have nothing but -inf where others do not.
    const ExprId none = a.constant(-std::numeric_limits<double>::infinity());
    const ExprId pivot = a.map(ScalarOp::select, {a.test(ScalarOp::eq, {own, none}), a.constant(0), own});
    const ExprId e = a.map(ScalarOp::exp, {a.map(ScalarOp::sub, {x, pivot})});
    const ExprId sum =
        a.reduce({.monoid = Monoid::sum, .dtype = t, .operands = {e}, .scope = Scope::thread});
    const ExprId m = a.reduce({.monoid = Monoid::max_sumexp,
                               .dtype = t,
                               .merge = true,
                               .operands = {own, sum},
                               .scope = Scope::threads});
    at(found->s).reduction = at(found->m).reduction = at(m).reduction;
    at(found->s).component = 1;
    const ExprId factor = a.map(ScalarOp::exp, {a.map(ScalarOp::sub, {own, found->m})});
    for (ExprId id = 0; id < size; ++id) {
      if (at(id).kind != Expr::Kind::map || at(id).op != ScalarOp::div || at(id).operands[0] != found->e ||
          at(at(id).operands[1]).varies)
        continue;
      const ExprId scale = a.map(ScalarOp::div, {factor, at(id).operands[1]});
      at(id).op = ScalarOp::mul;
      at(id).operands = {e, scale};
    }
    at(found->e).op = ScalarOp::mul;
    at(found->e).operands = {e, factor};
    changed = true;
  }
  return changed;
}

}  // namespace bz::compiler

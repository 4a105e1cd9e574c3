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

// m = max x, e = exp(x - m), s = sum e, and quotients e / s that alone need the two beside that sum.
struct Softmax {
  ExprId m = -1, s = -1, e = -1;
  std::vector<ExprId> quotients;
};

std::optional<Softmax> find_softmax(const Region& r, int maximum) {
  const auto at = [&](ExprId id) -> const Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const Reduction& max = r.reductions[static_cast<std::size_t>(maximum)];
  if (max.monoid != Monoid::max || max.over != Over::domain || max.merge || !max.where.empty())
    return std::nullopt;
  Softmax found;
  int sum = -1;
  for (ExprId id = 0; id < static_cast<ExprId>(r.exprs.size()); ++id) {
    const Expr& e = at(id);
    if (e.kind == Expr::Kind::reduce && e.reduction == maximum) found.m = id;
    if (found.e >= 0 && e.kind == Expr::Kind::reduce) {
      const Reduction& reduction = r.reductions[static_cast<std::size_t>(e.reduction)];
      if (reduction.monoid == Monoid::sum && reduction.operands[0] == found.e && reduction.where.empty()) {
        found.s = id;
        sum = e.reduction;
      }
    }
    if (found.m < 0 || e.kind != Expr::Kind::map || e.op != ScalarOp::exp) continue;
    const Expr& difference = at(e.operands[0]);
    if (difference.kind == Expr::Kind::map && difference.op == ScalarOp::sub &&
        difference.operands == std::vector<ExprId>{max.operands[0], found.m})
      found.e = id;
  }
  if (found.s < 0) return std::nullopt;
  // Whatever else they were needed for would see them where the maximum is infinite.
  for (ExprId id = 0; id < static_cast<ExprId>(r.exprs.size()); ++id) {
    const Expr& e = at(id);
    if (e.kind == Expr::Kind::map && e.op == ScalarOp::div &&
        e.operands == std::vector<ExprId>{found.e, found.s}) {
      found.quotients.push_back(id);
    } else if (std::any_of(e.operands.begin(), e.operands.end(),
                           [&](ExprId o) { return o == found.e || o == found.s; })) {
      return std::nullopt;
    }
  }
  for (std::size_t k = 0; k < r.reductions.size(); ++k) {
    for (const ExprId o : r.reductions[k].operands) {
      if (o == found.s || (o == found.e && static_cast<int>(k) != sum)) return std::nullopt;
    }
  }
  for (const Root& root : r.roots) {
    if (root.expr == found.e || root.expr == found.s) return std::nullopt;
  }
  return found.quotients.empty() ? std::nullopt : std::optional(found);
}

// Whether an expression is rounded to 16 bits and stored, and nothing else is made of it.
bool is_only_stored(const Region& r, ExprId id) {
  const auto takes = [&](const std::vector<ExprId>& operands) {
    return std::find(operands.begin(), operands.end(), id) != operands.end();
  };
  if (std::any_of(r.reductions.begin(), r.reductions.end(),
                  [&](const Reduction& k) { return takes(k.operands); }))
    return false;
  for (ExprId user = 0; user < static_cast<ExprId>(r.exprs.size()); ++user) {
    const Expr& e = r.exprs[static_cast<std::size_t>(user)];
    if (!takes(e.operands)) continue;
    const bool rounds = e.kind == Expr::Kind::map && e.op == ScalarOp::cast &&
                        (e.cast == DType::bf16 || e.cast == DType::f16);
    if (!rounds || !is_only_stored(r, user)) return false;
  }
  return true;
}

}  // namespace

// exp(x - m) / s is exp(x - own) times exp(own - m) / s, which has one value a thread: the error of the product is far below the
// rounding to 16 bits. A row with infinities is NaN either way. But equal elements of different threads have different errors, which
// a comparison would see, or what is left of a difference.
bool exchange_once(Region& r) {
  const auto at = [&](ExprId id) -> Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const bool narrow = std::all_of(r.roots.begin(), r.roots.end(), [](const Root& root) {
    return root.stored == DType::bf16 || root.stored == DType::f16;
  });
  if (!narrow) return false;
  bool changed = false;
  const int reductions = static_cast<int>(r.reductions.size());
  for (int k = 0; k < reductions; ++k) {
    const std::optional<Softmax> found = find_softmax(r, k);
    if (!found || !std::all_of(found->quotients.begin(), found->quotients.end(),
                               [&](ExprId quotient) { return is_only_stored(r, quotient); }))
      continue;
    const ExprId x = r.reductions[static_cast<std::size_t>(k)].operands[0];
    const DType t = at(found->m).dtype;
    Appender a(r, at(found->m).node, t);
    const ExprId own = a.reduce({.monoid = Monoid::max, .dtype = t, .operands = {x}, .over = Over::thread});
    // A thread may have nothing but -inf where others do not.
    const ExprId none = a.constant(-std::numeric_limits<double>::infinity());
    const ExprId pivot = a.map(ScalarOp::select, {a.test(ScalarOp::eq, {own, none}), a.constant(0), own});
    const ExprId least = a.reduce({.monoid = Monoid::min, .dtype = t, .operands = {x}, .over = Over::thread});
    const ExprId e = a.scaled_exp(x, pivot, least);
    const ExprId factor = a.exp_factor(pivot);
    const ExprId scaled =
        a.reduce({.monoid = Monoid::sum, .dtype = t, .operands = {e}, .over = Over::thread});
    const ExprId sum = a.map(ScalarOp::mul, {scaled, factor});
    const ExprId m = a.reduce({.monoid = Monoid::max_sumexp,
                               .dtype = t,
                               .merge = true,
                               .operands = {own, sum},
                               .over = Over::threads});
    at(found->s).reduction = at(found->m).reduction = at(m).reduction;
    at(found->s).component = 1;
    const ExprId rest = a.map(ScalarOp::exp, {a.map(ScalarOp::sub, {own, found->m})});
    const ExprId scale = a.map(ScalarOp::mul, {a.map(ScalarOp::div, {rest, found->s}), factor});
    for (const ExprId quotient : found->quotients) {
      at(quotient).op = ScalarOp::mul;
      at(quotient).operands = {e, scale};
    }
    changed = true;
  }
  return changed;
}

}  // namespace bz::compiler

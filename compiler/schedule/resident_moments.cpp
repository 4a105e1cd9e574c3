// moments of a domain that stays in registers: two passes of sums over it instead of one with a large state.
//
//   S = sum of x - p                    p is the first element; hi = p + S / n
//   E = sum of d, Q = sum of d^2        d = x - hi; lo = E / n, M2 = Q - lo E
//
// hi is the mean but for rounding, and what it lacks is lo, so that nothing cancels in M2 (the corrected two-pass algorithm of
// Chan, Golub and LeVeque 1983). A constant domain has S = 0, hi = p and M2 = 0 exactly. Norms go on with d - lo. Nothing is
// divided, compared or selected for an element.
//
// S is finite unless an element is infinite or NaN, or the sum overflows. Then, in the same instructions, d is x / 2^32 and the
// deviation is 2^32 (d - lo): finite elements have their mean, and infinite ones the infinity or NaN that the state has.
#include <algorithm>
#include <array>
#include <limits>

#include "compiler/schedule/appender.h"
#include "compiler/schedule/resident.h"

namespace bz::compiler {
namespace {

struct Sums {
  std::array<ExprId, 4> components;  // what takes the place of the state's
  ExprId deviation;                  // x - mean
};

Sums sums(Appender& a, ExprId x, double n) {
  constexpr double kScale = 0x1p+32;  // no domain has more elements
  const ExprId zero = a.constant(0), one = a.constant(1), inverse = a.constant(1 / n);
  const ExprId p = a.first(x);
  const ExprId s = a.sum(a.map(ScalarOp::sub, {x, p})), near = a.test(ScalarOp::isfinite, {s});
  const ExprId down = a.map(ScalarOp::select, {near, one, a.constant(1 / kScale)});
  const ExprId up = a.map(ScalarOp::select, {near, one, a.constant(kScale)});
  const ExprId mean = a.map(ScalarOp::add, {p, a.map(ScalarOp::mul, {s, inverse})});
  // What is not near has no pivot: its distance to the mean may be beyond all numbers.
  const ExprId hi = a.map(ScalarOp::select, {near, mean, zero});
  const ExprId d = a.map(ScalarOp::fma, {x, down, a.map(ScalarOp::neg, {hi})});
  const ExprId e = a.sum(d), q = a.sum(a.map(ScalarOp::mul, {d, d}));
  // Finite elements can have infinite differences: then so is the sum of their squares, and hi is the mean.
  const ExprId overflow =
      a.test(ScalarOp::logical_and, {near, a.test(ScalarOp::logical_not, {a.test(ScalarOp::isfinite, {e})})});
  const ExprId lo = a.map(ScalarOp::select, {overflow, zero, a.map(ScalarOp::mul, {e, inverse})});
  const ExprId deviation =
      a.map(ScalarOp::fma, {d, up, a.map(ScalarOp::neg, {a.map(ScalarOp::mul, {lo, up})})});
  // What is not near has squares beyond all numbers, or an infinite element: then e is infinite or NaN.
  const ExprId near_m2 = a.map(ScalarOp::fma, {a.map(ScalarOp::neg, {lo}), e, q});
  const ExprId far_m2 = a.map(
      ScalarOp::add, {a.map(ScalarOp::sub, {e, e}), a.constant(std::numeric_limits<double>::infinity())});
  const ExprId m2 =
      a.map(ScalarOp::select, {a.test(ScalarOp::logical_and, {near, a.test(ScalarOp::isfinite, {e})}),
                               near_m2, a.map(ScalarOp::select, {near, q, far_m2})});
  const ExprId far_mean = a.map(ScalarOp::mul, {lo, up});
  return {{a.constant(n), a.map(ScalarOp::select, {near, hi, far_mean}),
           a.map(ScalarOp::select, {near, lo, zero}), m2},
          deviation};
}

// Whatever takes an expression that `by` has a place for takes that instead.
void replace_uses(Region& r, const std::vector<ExprId>& by) {
  const auto replace = [&](ExprId& id) {
    if (id < static_cast<ExprId>(by.size()) && by[static_cast<std::size_t>(id)] >= 0)
      id = by[static_cast<std::size_t>(id)];
  };
  for (Expr& e : r.exprs) std::for_each(e.operands.begin(), e.operands.end(), replace);
  for (Reduction& reduction : r.reductions)
    std::for_each(reduction.operands.begin(), reduction.operands.end(), replace);
  for (Root& root : r.roots) replace(root.expr);
}

}  // namespace

bool moments_as_sums(Region& r) {
  const auto at = [&](ExprId id) -> Expr& { return r.exprs[static_cast<std::size_t>(id)]; };
  const int reductions = static_cast<int>(r.reductions.size());
  for (int k = 0; k < reductions; ++k) {
    const Reduction state = r.reductions[static_cast<std::size_t>(k)];
    if (state.monoid != Monoid::moments || state.merge || !state.where.empty()) continue;
    const ExprId x = state.operands[0];
    if (!at(x).varies || r.domain_size() == 0) continue;
    const auto is_component = [&](ExprId id, int component) {
      return at(id).kind == Expr::Kind::reduce && at(id).reduction == k && at(id).component == component;
    };
    const auto is_difference = [&](ExprId id) {
      return at(id).kind == Expr::Kind::map && at(id).op == ScalarOp::sub;
    };
    std::vector<ExprId> components, deviations;  // deviations: (x - hi) - lo
    const auto size = static_cast<ExprId>(r.exprs.size());
    for (ExprId id = 0; id < size; ++id) {
      if (at(id).kind == Expr::Kind::reduce && at(id).reduction == k) components.push_back(id);
      if (!is_difference(id) || !is_component(at(id).operands[1], 2)) continue;
      const ExprId d = at(id).operands[0];
      if (is_difference(d) && at(d).operands[0] == x && is_component(at(d).operands[1], 1))
        deviations.push_back(id);
    }
    Appender a(r, at(components.front()).node, state.dtype);
    const Sums s = sums(a, x, static_cast<double>(r.domain_size()));
    std::vector<ExprId> by(static_cast<std::size_t>(size), -1);
    for (const ExprId id : components)
      by[static_cast<std::size_t>(id)] = s.components[static_cast<std::size_t>(at(id).component)];
    for (const ExprId id : deviations) {
      by[static_cast<std::size_t>(id)] = s.deviation;
      at(s.deviation).node = at(id).node;
    }
    replace_uses(r, by);
    return true;
  }
  return false;
}

}  // namespace bz::compiler

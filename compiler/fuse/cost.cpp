#include "compiler/fuse/cost.h"

namespace bz::compiler {
namespace {

// Instructions of an operation on f32, counted in what ptxas makes of the emitted code for sm_90 (2026-11). Those that are
// not named take one or two.
int instructions(ScalarOp op) {
  switch (op) {
    case ScalarOp::exp:
    case ScalarOp::exp2: return 14;
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log2:
    case ScalarOp::log1p:
    case ScalarOp::erf:
    case ScalarOp::tanh: return 24;
    case ScalarOp::sigmoid: return 26;
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
    case ScalarOp::atan2: return 40;
    case ScalarOp::pow: return 80;
    case ScalarOp::div:
    case ScalarOp::reciprocal:
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
    case ScalarOp::floordiv:
    case ScalarOp::mod: return 10;
    default: return 1;
  }
}

// Of taking an element into a state.
int instructions(Monoid m) {
  switch (m) {
    case Monoid::max_sumexp: return instructions(ScalarOp::exp) + 4;
    case Monoid::moments: return 6;
    case Monoid::argmax:
    case Monoid::argmin: return 4;
    default: return 1;
  }
}

}  // namespace

int instructions_of(const Expr& e) {
  if (e.kind == Expr::Kind::map) return instructions(e.op);
  return e.kind == Expr::Kind::load ? 1 : 0;
}
int instructions_of(const Reduction& r) { return instructions(r.monoid); }
int instructions_to_combine(const Reduction& r) {
  switch (r.monoid) {
    case Monoid::max_sumexp: return 2 * instructions(ScalarOp::exp) + 8;
    case Monoid::moments: return instructions(ScalarOp::div) + 8;
    default: return instructions(r.monoid);
  }
}

double instructions_of(const Region& region, const Expr& e) {
  const double domains = static_cast<double>(region.teams() * region.domains());
  const double times = domains * (e.varies ? static_cast<double>(region.domain_size()) : 1);
  return times * instructions_of(e);
}

double instructions_of(const Region& region, const Reduction& r) {
  return static_cast<double>(region.teams() * region.domains()) * static_cast<double>(region.domain_size()) *
         instructions_of(r);
}

double instructions_of(const Region& region) {
  double count = 0;
  for (const Expr& e : region.exprs) count += instructions_of(region, e);
  for (const Reduction& r : region.reductions) count += instructions_of(region, r);
  return count;
}

double arithmetic_seconds(const Region& region, const Target& target) {
  return instructions_of(region) / (target.multiprocessors * kLanes * kHertz);
}

}  // namespace bz::compiler

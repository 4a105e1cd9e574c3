#include "compiler/fuse/cost.h"

namespace bz::compiler {
namespace {

// Instructions of an operation on f32, counted in what ptxas makes of the emitted code for sm_90 (2026-11). Those that are
// not named take one or two.
int exact_instructions(ScalarOp op) {
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

// Of an approximate instruction. The unit for them is busy for as long as eight others take, which go on beside it: a number
// between one and eight, not measured.
constexpr int kApproximate = 4;

int instructions(ScalarOp op, bool fast_math) {
  if (!fast_math || info(op).fast_error == 0) return exact_instructions(op);
  switch (op) {
    case ScalarOp::sigmoid: return 2 * kApproximate + 2;
    case ScalarOp::pow: return 2 * kApproximate + 20;
    case ScalarOp::exp:
    case ScalarOp::log:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::div: return kApproximate + 1;
    default: return kApproximate;
  }
}

// Of taking an element into a state.
int instructions(Monoid m, bool fast_math) {
  switch (m) {
    case Monoid::max_sumexp: return instructions(ScalarOp::exp, fast_math) + 4;
    case Monoid::moments: return 4;
    case Monoid::argmax:
    case Monoid::argmin: return 4;
    default: return 1;
  }
}

}  // namespace

int element_instructions(const Region& region, const Expr& e) {
  if (e.kind == Expr::Kind::map) return instructions(e.op, region.fast_math);
  if (e.kind == Expr::Kind::scaled_exp) return instructions(ScalarOp::exp, region.fast_math);
  return e.kind == Expr::Kind::load ? 1 : 0;
}
int element_instructions(const Region& region, const Reduction& r) {
  return instructions(r.monoid, region.fast_math);
}
int instructions_to_combine(const Region& region, const Reduction& r) {
  switch (r.monoid) {
    case Monoid::max_sumexp: return instructions(ScalarOp::exp, region.fast_math) + 10;
    case Monoid::moments: return instructions(ScalarOp::div, region.fast_math) + 8;
    default: return instructions(r.monoid, region.fast_math);
  }
}

int instructions_to_take_in(const Region& region, const Reduction& r, int elements) {
  constexpr int kRunning = 8;
  return r.running(elements) != nullptr ? kRunning : instructions_to_combine(region, r);
}

int instructions_together(const Region& region, const Reduction& r) {
  return r.monoid == Monoid::moments ? 2 * instructions(ScalarOp::div, region.fast_math) + 12
                                     : instructions(ScalarOp::exp, region.fast_math) + 6;
}

double instructions_of(const Region& region, const Expr& e) {
  const double domains = static_cast<double>(region.teams() * region.domains());
  const double times = domains * (e.varies ? static_cast<double>(region.domain_size()) : 1);
  return times * element_instructions(region, e);
}

double instructions_of(const Region& region, const Reduction& r) {
  return static_cast<double>(region.teams() * region.domains()) * static_cast<double>(region.domain_size()) *
         element_instructions(region, r);
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

#include "compiler/lower/values.h"

#include <algorithm>
#include <array>
#include <limits>

#include "support/error.h"

namespace bz::compiler {

Values::Needs Values::needs(const std::vector<ExprId>& targets, const Held& held, const Step* known) const {
  const std::size_t count = stage_.region.exprs.size();
  std::vector<bool> wanted(count, false);
  for (const ExprId t : targets) wanted[static_cast<std::size_t>(t)] = true;
  Needs n;
  for (ExprId id = static_cast<ExprId>(count); id-- > 0;) {
    const Expr& e = stage_.expr(id);
    if (!wanted[static_cast<std::size_t>(id)] || (!e.varies && once_.contains(id))) continue;
    if (e.varies && known != nullptr && known->memo.contains(id)) continue;
    const bool from_memory = e.kind == Expr::Kind::load || held.contains(id);
    (!e.varies ? n.once : from_memory ? n.loads : n.varying).push_back(id);
    if (held.contains(id)) continue;
    for (const ExprId o : e.operands) wanted[static_cast<std::size_t>(o)] = true;
  }
  for (std::vector<ExprId>* ids : {&n.loads, &n.varying, &n.once}) std::reverse(ids->begin(), ids->end());
  return n;
}

void Values::compute_once(const Needs& n) {
  for (const ExprId id : n.once) once_[id] = evaluate(id, nullptr);
}

void Values::load(const Needs& n, const Held& held, std::span<Step> steps) {
  for (Step& s : steps) {
    for (const ExprId id : n.loads) {
      const Expr& e = stage_.expr(id);
      const auto in = held.find(id);
      b_.at(e.node);
      s.memo[id] = in != held.end()
                       ? b_.get(in->second.array, place_in(stage_, position_, in->second, s), e.dtype)
                       : load_value(stage_, position_, e, &s);
    }
  }
}

void Values::compute(const Needs& n, std::span<Step> steps) {
  // `unroll` steps side by side, so that what takes a branch takes it once for all of them.
  const std::size_t count = together(n) ? steps.size() : static_cast<std::size_t>(stage_.schedule.unroll);
  for (std::size_t i = 0; i < steps.size(); i += count) {
    const std::span<Step> part = steps.subspan(i, std::min(count, steps.size() - i));
    for (const ExprId id : n.varying) {
      if (stage_.expr(id).kind == Expr::Kind::scaled_exp) {
        scaled_exp(id, part);
      } else {
        for (Step& s : part) s.memo[id] = evaluate(id, &s);
      }
    }
  }
}

void Values::scaled_exp(ExprId id, std::span<Step> steps) {
  const Expr& e = stage_.expr(id);
  b_.at(e.node);
  std::vector<Handle> x;
  for (const Step& s : steps) x.push_back(of(e.operands[0], &s));
  const std::vector<Handle> y = b_.scaled_exp(x, of(e.operands[1], nullptr), of(e.operands[2], nullptr));
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].memo[id] = y[i];
}

bool Values::together(const Needs& n) const {
  return stage_.schedule.lanes_reduced && !stage_.extent.shifted &&
         std::any_of(n.varying.begin(), n.varying.end(),
                     [&](ExprId id) { return stage_.expr(id).kind == Expr::Kind::scaled_exp; });
}

Handle Values::of(ExprId id, const Step* step) const {
  return stage_.expr(id).varies ? step->memo.at(id) : once_.at(id);
}

Handle Values::evaluate(ExprId id, Step* step) {
  const Expr& e = stage_.expr(id);
  b_.at(e.node);
  switch (e.kind) {
    case Expr::Kind::constant: return b_.constant(e.value);
    case Expr::Kind::index: {
      const Handle i = b_.index(position_.at(e.index, step));
      if (e.cast == DType::i64) return i;
      // Of 16 bits it is what they hold.
      const Handle own = b_.apply(ScalarOp::cast, std::array{i}, e.cast);
      return e.cast == e.dtype ? own : b_.apply(ScalarOp::cast, std::array{own}, e.dtype);
    }
    case Expr::Kind::load: return load_value(stage_, position_, e, step);
    case Expr::Kind::map: {
      std::vector<Handle> args;
      for (const ExprId o : e.operands) args.push_back(of(o, step));
      if (e.op == ScalarOp::exp && is_below_maximum(e.operands[0]))
        return b_.exp_nonpositive(args[0], e.dtype);
      const bool rounds = e.op == ScalarOp::cast && e.cast != e.dtype;
      const Handle r = b_.apply(e.op, args, e.op == ScalarOp::cast ? e.cast : e.dtype);
      return rounds ? b_.apply(ScalarOp::cast, std::array{r}, e.dtype) : r;
    }
    case Expr::Kind::pad: {
      const Handle inside = mask(b_, position_.at(e.where, step), step);
      if (inside == kernel::kNone) return of(e.operands[0], step);
      return b_.apply(ScalarOp::select, std::array{inside, of(e.operands[0], step), b_.constant(e.value)},
                      e.dtype);
    }
    case Expr::Kind::exp_factor: return b_.exp_factor(of(e.operands[0], step));
    case Expr::Kind::scaled_exp: break;  // of several steps
    case Expr::Kind::reduce: return results_.at(e.reduction)[static_cast<std::size_t>(e.component)];
  }
  throw InternalError("an expression of no kind");
}

// x - max x, or x - p with p = 0 where max x is -inf, else max x: never above 0.
bool Values::is_below_maximum(ExprId id) const {
  const auto is_map = [&](const Expr& e, ScalarOp op) { return e.kind == Expr::Kind::map && e.op == op; };
  const auto is_constant = [&](ExprId c, double value) {
    return stage_.expr(c).kind == Expr::Kind::constant && stage_.expr(c).value.f == value;
  };
  const Expr& e = stage_.expr(id);
  if (!is_map(e, ScalarOp::sub)) return false;
  ExprId subtracted = e.operands[1];
  if (const Expr& p = stage_.expr(subtracted); is_map(p, ScalarOp::select) && is_constant(p.operands[1], 0)) {
    const Expr& test = stage_.expr(p.operands[0]);
    if (is_map(test, ScalarOp::eq) && test.operands[0] == p.operands[2] &&
        is_constant(test.operands[1], -std::numeric_limits<double>::infinity()))
      subtracted = p.operands[2];
  }
  const Expr& m = stage_.expr(subtracted);
  if (m.kind != Expr::Kind::reduce || m.component != 0) return false;
  const Reduction& r = stage_.reduction(m.reduction);
  const bool largest = r.monoid == Monoid::max || r.monoid == Monoid::max_sumexp;
  return largest && !r.merge && r.where.empty() && r.operands[0] == e.operands[0];
}

}  // namespace bz::compiler

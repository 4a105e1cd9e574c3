#include "compiler/lower/lift.h"

#include <algorithm>
#include <array>

namespace bz::compiler {
namespace {

// Elements that are states themselves.
Handles merge(KernelBuilder& b, const Reduction& r, const std::vector<Handles>& chunk, const Handles& valid) {
  const MonoidInfo& m = info(r.monoid);
  const std::vector<Scalar> none = r.identity();
  std::vector<Handles> states;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    std::vector<Handles> lanes;  // by component
    for (std::size_t c = 0; c < chunk[i].size(); ++c) {
      Handle h = chunk[i][c];
      if (valid[i] != kernel::kNone)
        h = b.apply(ScalarOp::select, std::array{valid[i], h, b.constant(none[c])}, b.dtype(h));
      lanes.push_back(b.elements(h));
    }
    for (std::size_t l = 0; l < lanes[0].size(); ++l) {
      Handles state;
      for (const Handles& component : lanes) state.push_back(component[l]);
      states.push_back(std::move(state));
    }
  }
  Handles all = states[0];
  for (std::size_t i = 1; i < states.size(); ++i) all = m.combine(b, r.dtype, all, states[i]);
  return all;
}

Handles lift_chunk(const StageContext& stage, const Position& position, const Values& values,
                   const Reduction& r, int width, std::span<Step> steps) {
  KernelBuilder& b = stage.builder;
  std::vector<Handles> chunk;
  Handles valid;
  for (Step& s : steps) {
    Handles entry;
    for (const ExprId o : r.operands) entry.push_back(b.widen(values.of(o, &s), stage.schedule.vector));
    chunk.push_back(std::move(entry));
    std::vector<IndexBound> bounds = position.at(r.where, &s);
    bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
    valid.push_back(mask(b, std::move(bounds), &s));
  }
  Handles state = r.merge ? merge(b, r, chunk, valid) : info(r.monoid).lift(b, r.dtype, chunk, valid);
  for (Handle& h : state) h = b.widen(h, width);
  return state;
}

}  // namespace

Handles lift(const StageContext& stage, const Position& position, const Values& values, int r,
             std::span<Step> all) {
  const States states(stage);
  const Reduction& reduction = stage.reduction(r);
  KernelBuilder& b = stage.builder;
  states.at(r);
  // What stays in registers beside a chunk leaves none for two ways to take exponentials: log_softmax of f32 rows spilled
  // hundreds of bytes (sm_90, 2026-11).
  b.take_apart(stage.schedule.keep == Keep::registers);
  // All steps at once, or `unroll` at a time where lifting holds values of its own for every element.
  const std::size_t chunk = info(reduction.monoid).lift_holds_elements
                                ? static_cast<std::size_t>(stage.schedule.unroll)
                                : all.size();
  Handles state;
  for (std::size_t i = 0; i < all.size(); i += chunk) {
    const Handles part = lift_chunk(stage, position, values, reduction, states.width(),
                                    all.subspan(i, std::min(chunk, all.size() - i)));
    state = i == 0 ? part : states.combine(r, state, part);
  }
  b.take_apart(false);
  return state;
}

}  // namespace bz::compiler

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

// The elements of some steps, as monoids take them.
struct Chunk {
  std::vector<Handles> elements;
  Handles valid;
};

Chunk chunk_of(const StageContext& stage, const Position& position, const Values& values, const Reduction& r,
               std::span<Step> steps) {
  KernelBuilder& b = stage.builder;
  Chunk chunk;
  for (Step& s : steps) {
    Handles entry;
    for (const ExprId o : r.operands) entry.push_back(b.widen(values.of(o, &s), stage.schedule.vector));
    chunk.elements.push_back(std::move(entry));
    std::vector<IndexBound> bounds = position.at(r.where, &s);
    bounds.insert(bounds.end(), s.bounds.begin(), s.bounds.end());
    chunk.valid.push_back(mask(b, std::move(bounds), &s));
  }
  return chunk;
}

Handles lift_chunk(const StageContext& stage, const Position& position, const Values& values,
                   const Reduction& r, int width, std::span<Step> steps) {
  KernelBuilder& b = stage.builder;
  const Chunk chunk = chunk_of(stage, position, values, r, steps);
  Handles state = r.merge ? merge(b, r, chunk.elements, chunk.valid)
                          : info(r.monoid).lift(b, r.dtype, chunk.elements, chunk.valid);
  for (Handle& h : state) h = b.widen(h, width);
  return state;
}

}  // namespace

Handles lift(const StageContext& stage, const Position& position, const Values& values, int r,
             std::span<Step> steps) {
  const States states(stage);
  states.at(r);
  return lift_chunk(stage, position, values, stage.reduction(r), states.width(), steps);
}

Accumulator::Accumulator(const StageContext& stage, int r, std::string_view name)
    : stage_(stage), states_(stage), r_(r) {
  const Reduction& reduction = stage.reduction(r);
  running_ =
      reduction.running(stage.schedule.unroll * (stage.schedule.lanes_reduced ? stage.schedule.vector : 1));
  types_ = running_ != nullptr ? running_->dtypes(reduction.dtype) : reduction.component_dtypes();
  arrays_ = states_.arrays(r, name, types_,
                           running_ != nullptr ? running_->start(reduction.dtype) : reduction.identity());
}

void Accumulator::add(const Position& position, const Values& values, std::span<Step> steps) const {
  const Reduction& reduction = stage_.reduction(r_);
  const Handles so_far = states_.get(types_, arrays_);
  if (running_ == nullptr) {
    const Handles state = lift(stage_, position, values, r_, steps);
    return states_.set(arrays_, states_.combine(r_, so_far, state));
  }
  states_.at(r_);
  const Chunk chunk = chunk_of(stage_, position, values, reduction, steps);
  states_.set(arrays_, running_->add(stage_.builder, reduction.dtype, so_far, chunk.elements, chunk.valid));
}

Handles Accumulator::state() const {
  states_.at(r_);
  const Handles so_far = states_.get(types_, arrays_);
  return running_ == nullptr ? so_far : running_->state(stage_.builder, stage_.reduction(r_).dtype, so_far);
}

}  // namespace bz::compiler

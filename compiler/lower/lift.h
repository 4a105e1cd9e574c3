// From the elements of some steps of a thread to one state of a reduction.
#pragma once

#include <span>

#include "compiler/lower/states.h"
#include "compiler/lower/values.h"

namespace bz::compiler {

// The operands of reduction `r` have been computed in all steps.
Handles lift(const StageContext& stage, const Position& position, const Values& values, int r,
             std::span<Step> steps);

// What a thread has reduced of a domain so far, in arrays: the state, or the running form of it.
class Accumulator {
 public:
  // Of nothing.
  Accumulator(const StageContext& stage, int r, std::string_view name);
  // Takes in the elements of some steps, in which the operands have been computed.
  void add(const Position& position, const Values& values, std::span<Step> steps) const;
  Handles state() const;

 private:
  const StageContext& stage_;
  States states_;
  int r_;
  const Running* running_;  // null: the arrays hold the state
  std::vector<DType> types_;
  std::vector<kernel::ArrayId> arrays_;
};

}  // namespace bz::compiler

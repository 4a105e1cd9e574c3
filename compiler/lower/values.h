// Values of a region's expressions as statements of the kernel: which of them are needed, and each once. What varies in a
// domain has a value for each step, kept in its memo; the rest has one for the domain.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "compiler/lower/memory.h"

namespace bz::compiler {

class Values {
 public:
  Values(const StageContext& stage, const Position& position)
      : stage_(stage), position_(position), b_(stage.builder) {}

  // What has to be computed: what comes from memory and what is made of it, of each step, and what the domain has once.
  struct Needs {
    std::vector<ExprId> loads, varying, once;
  };
  // For `targets`. What is held ends the search, as does what was computed before: in the step `known`, or for the domain.
  Needs needs(const std::vector<ExprId>& targets, const Held& held, const Step* known) const;

  void compute_once(const Needs& n);
  // Of all steps first: as many loads as possible are in flight before the first use.
  void load(const Needs& n, const Held& held, std::span<Step> steps);
  void compute(const Needs& n, std::span<Step> steps);
  // Whether all steps of the thread are computed at once, as a branch is the same for all of them. Masks and elements of a whole row do not fit in
  // the registers together: softmax of 65535 bf16 84 % of the copy speed so, 96 otherwise (H200, 2026-12).
  bool together(const Needs& n) const;

  // What the domain has once that need not be computed.
  void know(Memo once) { once_ = std::move(once); }
  void set_result(int reduction, Handles state) { results_[reduction] = std::move(state); }

  // One that has been computed. `step` may be null when it does not vary.
  Handle of(ExprId id, const Step* step) const;

 private:
  Handle evaluate(ExprId id, Step* step);
  void scaled_exp(ExprId id, std::span<Step> steps);
  bool is_below_maximum(ExprId id) const;

  const StageContext& stage_;
  const Position& position_;
  KernelBuilder& b_;
  Memo once_;
  std::map<int, Handles> results_;  // of reductions: their states
};

}  // namespace bz::compiler

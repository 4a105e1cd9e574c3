// Vectors of a thread that stay in shared memory where its registers do not hold all (`spill`): how they get there and how a
// phase goes over them. What is held when is decided by schedule/spill.h.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/lower/memory.h"
#include "compiler/schedule/spill.h"

namespace bz::compiler {

class Spilled {
 public:
  Spilled(const StageContext& stage, const Position& position);

  // Starts to bring what the first phase loads of them.
  void start();
  // Before the first phase: until they are there.
  void wait() { b_.await(0); }

  // What shared memory holds of them when the phase begins, and what the phase has to compute for later ones.
  Held held(int phase) const;
  Held added(int phase) const;

  // Runs `body(steps)` for all of them, some at a time in a loop.
  using Body = std::function<void(std::span<Step>)>;
  void for_each_group(const Body& body) const;

 private:
  std::vector<Step> steps_of(const Index& group, bool masked) const;

  const StageContext& stage_;
  const Position& position_;
  KernelBuilder& b_;
  std::int64_t in_registers_;  // vectors before them
  int together_;
  Spill spill_;
  std::vector<kernel::ArrayId> arrays_;
};

}  // namespace bz::compiler

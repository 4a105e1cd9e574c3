// Vectors of a thread that stay in shared memory where its registers do not hold all (`spill`): how they get there and how a
// phase goes over them. What is held when is decided by schedule/spill.h.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/lower/memory.h"
#include "compiler/schedule/spill.h"

namespace bz::compiler {

// Where they are: the same for all domains of a block that stays.
struct SpillArrays {
  explicit SpillArrays(const StageContext& stage);

  Spill spill;
  std::vector<Holding> arrays;
};

class Spilled {
 public:
  Spilled(const StageContext& stage, const Position& position, const SpillArrays& arrays);

  // Starts to bring what the first phase loads of them; of one group, whose places nobody needs any more.
  void start();
  struct Group {
    Index number;
    bool masked;  // the domain may end inside
  };
  void start(const Group& group);
  // Before the first phase: until they are there.
  void wait() { b_.await(0); }

  // What shared memory holds of them when the phase begins, and what the phase has to compute for later ones.
  Held held(int phase) const;
  Held added(int phase) const;

  // Runs `body(steps, group)` for all of them, some at a time in a loop; of a group perhaps in parts where the domain ends.
  using Body = std::function<void(std::span<Step>, const Group&)>;
  void for_each_group(const Body& body) const;

 private:
  void start(std::span<Step> steps);
  std::vector<Step> steps_of(const Group& group) const;

  const StageContext& stage_;
  const Position& position_;
  KernelBuilder& b_;
  std::int64_t in_registers_;  // vectors before them
  int together_;
  const SpillArrays& arrays_;
};

}  // namespace bz::compiler

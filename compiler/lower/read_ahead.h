// Reading ahead (`prefetch`): a block that stays starts to copy what it will need to shared memory while it computes, and
// keeps there what it needs each time (`parameters`). What is spilled is copied to where it will stay, once the last phase has stored what
// is there. Only the thread itself reads what it copied, so it waits for its own copies alone.
#pragma once

#include <optional>

#include "compiler/lower/spill.h"

namespace bz::compiler {

class ReadAhead {
 public:
  // Starts the first copies, of domains of `first`. `next`: the block of the next turn, which may not exist.
  ReadAhead(const StageContext& stage, const IndexVar& first, const IndexVar& next);

  const Held& held() const { return held_; }
  // What the domain of this turn has once, loaded in the turn before.
  Memo once() const;
  // Until the group that was asked for first is there.
  void wait();
  // Starts what is to be copied when `group` of the block's domains has been taken.
  void start_next(const Index& block, const Index& group);
  // Null where nothing is spilled.
  const SpillArrays* spilled() const { return spilled_ ? &*spilled_ : nullptr; }
  // Starts what is to be copied when a group of what is spilled has been stored.
  void start_next(const Spilled::Group& group);

 private:
  Held arrays_for(const std::vector<ExprId>& loads, std::string_view name) const;
  void start(const Index& block, const Index& group, const Held& loads);
  void load_once(const Index& block);

  const StageContext& stage_;
  KernelBuilder& b_;
  IndexVar next_;
  Held ahead_;  // what changes with the domain
  Held held_;   // and what stays
  Held once_;   // what a domain has once, in registers
  std::optional<SpillArrays> spilled_;
};

}  // namespace bz::compiler

// Reading ahead (`prefetch`): a block that stays starts to copy what it will need to shared memory while it computes. Only the
// thread itself reads what it copied, so it waits for its own copies alone.
#pragma once

#include "compiler/lower/memory.h"

namespace bz::compiler {

class ReadAhead {
 public:
  // Starts the first copies, of domains of `first`. `next`: the block of the next turn, which may not exist.
  ReadAhead(const StageContext& stage, const IndexVar& first, const IndexVar& next);

  const Held& held() const { return held_; }
  // Until the group that was asked for first is there.
  void wait();
  // Starts what is to be copied when `group` of the block's domains has been taken.
  void start_next(const Index& block, const Index& group);

 private:
  void start(const Index& block, const Index& group);

  const StageContext& stage_;
  KernelBuilder& b_;
  IndexVar next_;
  Held held_;
};

}  // namespace bz::compiler

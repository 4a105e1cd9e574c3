#include "compiler/lower/read_ahead.h"

namespace bz::compiler {

ReadAhead::ReadAhead(const StageContext& stage, const IndexVar& first, const IndexVar& next)
    : stage_(stage), b_(stage.builder), next_(next) {
  const Schedule& s = stage.schedule;
  b_.comment("the first of what is read ahead");
  for (const ExprId id : loads_ahead(stage.region, s)) {
    held_[id] = b_.array(stage.array_name("ahead", id), kept_dtype(stage.region, id),
                         vectors_ahead(stage.region, s) * s.vector * threads_of(s), kernel::Space::shared);
  }
  for (int g = 0; g < s.prefetch; ++g) {
    start(Index::var(first), Index(g));
    b_.commit();
  }
}

void ReadAhead::wait() { b_.await(stage_.schedule.prefetch - 1); }

void ReadAhead::start_next(const Index& block, const Index& group) {
  const std::int64_t groups = stage_.schedule.keep == Keep::registers ? 1 : stage_.extent.groups;
  const Index ahead = group + Index(stage_.schedule.prefetch);
  if (ahead.hi() < groups) {
    start(block, ahead);
  } else {
    b_.when(b_.inside({{Index::var(next_), 0, stage_.extent.blocks}}),
            [&] { start(Index::var(next_), ahead - Index(groups)); });
  }
  b_.commit();
}

void ReadAhead::start(const Index& block, const Index& group) {
  const Position position(stage_, block);
  for (Step& s : position.steps_of(group, true)) start_copies(stage_, position, held_, s);
}

}  // namespace bz::compiler

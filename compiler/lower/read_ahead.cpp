#include "compiler/lower/read_ahead.h"

namespace bz::compiler {

ReadAhead::ReadAhead(const StageContext& stage, const IndexVar& first, const IndexVar& next)
    : stage_(stage), b_(stage.builder), next_(next) {
  const Schedule& s = stage.schedule;
  b_.comment("the first of what is read ahead");
  const Index block = Index::var(first);
  if (s.keep == Keep::registers) {
    for (const ExprId id : loads_once(stage.region))
      once_[id].array =
          b_.array(stage.array_name("once", id), stage.expr(id).dtype, 1, kernel::Space::registers);
  }
  load_once(block);
  if (s.spill > 0) {
    const Position position(stage, block);
    Spilled(stage, position, spilled_.emplace(stage)).start();
    return;
  }
  ahead_ = arrays_for(loads_ahead(stage.region, s), "ahead");
  held_ = ahead_;
  Held parameters;
  if (s.parameters != Parameters::memory)
    parameters = arrays_for(parameter_loads(stage.region, s), "parameter");
  held_.insert(parameters.begin(), parameters.end());
  for (int g = 0; g < s.prefetch; ++g) {
    start(block, Index(g), ahead_);
    if (g == 0) start(block, Index(0), parameters);
    b_.commit();
  }
}

Held ReadAhead::arrays_for(const std::vector<ExprId>& loads, std::string_view name) const {
  const Schedule& s = stage_.schedule;
  Held arrays;
  for (const ExprId id : loads) {
    arrays[id].array =
        b_.array(stage_.array_name(name, id), kept_dtype(stage_.region, id),
                 vectors_ahead(stage_.region, s) * s.vector * threads_of(s), kernel::Space::shared);
  }
  return arrays;
}

Memo ReadAhead::once() const {
  Memo values;
  for (const auto& [id, in] : once_) values[id] = b_.get(in.array, Index(0), stage_.expr(id).dtype);
  return values;
}

void ReadAhead::wait() {
  if (!spilled_) b_.await(stage_.schedule.prefetch - 1);
}

void ReadAhead::start_next(const Spilled::Group& group) {
  b_.when(b_.inside({{Index::var(next_), 0, stage_.extent.blocks}}), [&] {
    const Position position(stage_, Index::var(next_));
    Spilled(stage_, position, *spilled_).start(group);
  });
  b_.commit();
}

void ReadAhead::start_next(const Index& block, const Index& group) {
  if (spilled_) return load_once(Index::var(next_));
  const std::int64_t groups = stage_.schedule.keep == Keep::registers ? 1 : stage_.extent.groups;
  const Index ahead = group + Index(stage_.schedule.prefetch);
  if (ahead.hi() < groups) {
    start(block, ahead, ahead_);
  } else {
    b_.when(b_.inside({{Index::var(next_), 0, stage_.extent.blocks}}),
            [&] { start(Index::var(next_), ahead - Index(groups), ahead_); });
  }
  b_.commit();
  load_once(Index::var(next_));
}

void ReadAhead::start(const Index& block, const Index& group, const Held& loads) {
  const Position position(stage_, block);
  for (Step& s : position.steps_of(group, true, stage_.extent.together))
    start_copies(stage_, position, loads, s);
}

// Of a block that does not exist something is loaded that nobody asks for.
void ReadAhead::load_once(const Index& block) {
  const Position position(stage_, block);
  for (const auto& [id, in] : once_) {
    const Expr& e = stage_.expr(id);
    b_.at(e.node);
    b_.set(in.array, Index(0), load_value(stage_, position, e, nullptr));
  }
}

}  // namespace bz::compiler

#include "compiler/lower/spill.h"

#include <algorithm>

namespace bz::compiler {

Spilled::Spilled(const StageContext& stage, const Position& position)
    : stage_(stage),
      position_(position),
      b_(stage.builder),
      in_registers_(vectors_in_registers(stage.region, stage.schedule)),
      together_(std::min(stage.schedule.unroll, stage.schedule.spill)),
      spill_(spill_of(stage.region, stage.schedule)) {
  const Schedule& s = stage.schedule;
  const std::int64_t elements = static_cast<std::int64_t>(s.spill) * s.vector * threads_of(s);
  for (std::size_t i = 0; i < spill_.arrays.size(); ++i)
    arrays_.push_back(
        b_.array(stage.array_name("spill", i), spill_.arrays[i], elements, kernel::Space::shared));
}

void Spilled::start() {
  const Held loads = held(0);
  for_each_group([&](std::span<Step> steps) {
    for (Step& s : steps) start_copies(stage_, position_, loads, s);
  });
  b_.commit();
}

Held Spilled::held(int phase) const {
  Held held;
  for (const auto& [id, array] : spill_.held[static_cast<std::size_t>(phase)])
    held[id] = arrays_[static_cast<std::size_t>(array)];
  return held;
}

Held Spilled::added(int phase) const {
  if (phase + 1 == stage_.region.phases()) return {};
  Held added = held(phase + 1);
  std::erase_if(added, [&, before = held(phase)](const auto& one) { return before.contains(one.first); });
  return added;
}

void Spilled::for_each_group(const Body& body) const {
  const std::int64_t groups = stage_.schedule.spill / together_;
  std::int64_t full = 0;
  while (full < groups && position_.is_inside(in_registers_ + (full + 1) * together_ - 1)) ++full;
  const auto loop = [&](std::int64_t first, std::int64_t end, bool masked) {
    if (first == end) return;
    const IndexVar j = b_.var("j", end - first);
    b_.loop(j, kernel::Level::serial, [&] {
      std::vector<Step> steps = steps_of(Index::var(j) + Index(first), masked);
      body(steps);
    });
  };
  loop(0, full, false);
  loop(full, groups, true);
}

std::vector<Step> Spilled::steps_of(const Index& group, bool masked) const {
  std::vector<Step> steps;
  const Index number = group * together_;
  for (int u = 0; u < together_; ++u) {
    steps.push_back(position_.step(number + Index(u) + Index(in_registers_), masked));
    steps.back().slot = position_.slot(number + Index(u), stage_.schedule.spill);
  }
  return steps;
}

}  // namespace bz::compiler

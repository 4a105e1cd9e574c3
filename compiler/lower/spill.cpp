#include "compiler/lower/spill.h"

#include <algorithm>

namespace bz::compiler {

SpillArrays::SpillArrays(const StageContext& stage) : spill(spill_of(stage.region, stage.schedule)) {
  const Schedule& s = stage.schedule;
  const std::int64_t elements = static_cast<std::int64_t>(s.spill) * s.vector * threads_of(s);
  const auto size = [&](std::size_t i) { return size_of(spill.arrays[i].dtype); };
  arrays.resize(spill.arrays.size(), {kernel::kNone, Index(0)});
  for (const bool within : {false, true}) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const int other = spill.arrays[i].within;
      if ((other >= 0) != within) continue;
      const auto host = static_cast<std::size_t>(within ? other : static_cast<int>(i));
      const int times = size(host) / size(i);
      arrays[i] = {stage.builder.array(stage.array_name("spill", i), spill.arrays[i].dtype, times * elements,
                                       kernel::Space::shared, within ? arrays[host].array : kernel::kNone),
                   Index((times - 1) * elements)};
    }
  }
}

Spilled::Spilled(const StageContext& stage, const Position& position, const SpillArrays& arrays)
    : stage_(stage),
      position_(position),
      b_(stage.builder),
      in_registers_(vectors_in_registers(stage.region, stage.schedule)),
      together_(spilled_together(stage.schedule)),
      arrays_(arrays) {}

void Spilled::start() {
  for_each_group([&](std::span<Step> steps, const Group&) { start(steps); });
  b_.commit();
}

void Spilled::start(const Group& group) {
  std::vector<Step> steps = steps_of(group);
  start(steps);
}

void Spilled::start(std::span<Step> steps) {
  const Held loads = held(0);
  for (Step& s : steps) start_copies(stage_, position_, loads, s);
}

Held Spilled::held(int phase) const {
  Held held;
  for (const auto& [id, array] : arrays_.spill.held[static_cast<std::size_t>(phase)])
    held[id] = arrays_.arrays[static_cast<std::size_t>(array)];
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
      const Group group{Index::var(j) + Index(first), masked};
      std::vector<Step> steps = steps_of(group);
      body(steps, group);
    });
  };
  loop(0, full, false);
  // Rows that are not aligned and begin late have few elements in the last vector: warps without any do without it.
  const bool splits =
      stage_.schedule.prefetch == 0 && full + 1 == groups && position_.few_have(stage_.extent.vectors - 1, 1);
  if (!splits) return loop(full, groups, true);
  const Group group{Index(full), true};
  std::vector<Step> steps = steps_of(group);
  const std::span<Step> all(steps), last = all.last(1);
  if (together_ > 1) body(all.first(all.size() - 1), group);
  b_.when(b_.inside(position_.begin_bounds(last[0])), [&] { body(last, group); });
}

std::vector<Step> Spilled::steps_of(const Group& group) const {
  std::vector<Step> steps;
  const Index number = group.number * together_;
  for (int u = 0; u < together_; ++u) {
    steps.push_back(position_.step(number + Index(u) + Index(in_registers_), group.masked));
    steps.back().number = number + Index(u);
    steps.back().count = stage_.schedule.spill;
  }
  return steps;
}

}  // namespace bz::compiler

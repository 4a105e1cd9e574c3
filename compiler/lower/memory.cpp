#include "compiler/lower/memory.h"

#include <algorithm>
#include <optional>

#include "compiler/schedule/spill.h"

namespace bz::compiler {
namespace {

using kernel::kNone;

// Whether others write what is loaded.
bool is_shared(const StageContext& stage, const Expr& load) {
  return load.table < 0 && stage.kernel.buffer(stage.kernel.sources.at(load.source)).shared;
}

kernel::ArrayId table_of(const StageContext& stage, int table) {
  return stage.kernel.tables[static_cast<std::size_t>(table)];
}

IndexBound in_table(const StageContext& stage, kernel::ArrayId table, const Index& offset) {
  return {offset, 0, stage.kernel.array(table).elements};
}

// A place in a table is guarded where its index cannot be seen to lie inside, though what it is made of does.
Handle guarded(const StageContext& stage, kernel::ArrayId table, const Index& offset, Handle mask) {
  const IndexBound inside = in_table(stage, table, offset);
  return mask != kNone || inside.always() ? mask : stage.builder.inside({inside});
}

}  // namespace

Handle mask(KernelBuilder& builder, std::vector<IndexBound> bounds, Step* step) {
  if (step == nullptr) return builder.inside(std::move(bounds));
  std::erase_if(bounds, [](const IndexBound& b) { return b.always(); });
  std::sort(bounds.begin(), bounds.end());
  const auto [at, fresh] = step->masks.try_emplace(bounds, kernel::kNone);
  if (fresh) at->second = builder.inside(bounds);
  return at->second;
}

Handle load_value(const StageContext& stage, const Position& position, const Expr& e, Step* step) {
  KernelBuilder& b = stage.builder;
  const Index offset = position.at(e.index, step);
  std::vector<IndexBound> bounds = position.at(e.where, step);
  // What others write is loaded under a branch, which is not for bounds that the address does not depend on.
  const auto moves_with = [&](const std::vector<IndexVar>& vars) {
    return !is_shared(stage, e) ||
           std::any_of(vars.begin(), vars.end(), [&](const IndexVar& v) { return e.index.uses(v.id); });
  };
  if (moves_with(stage.region.kept))
    bounds.insert(bounds.end(), position.load_bounds().begin(), position.load_bounds().end());
  if (step != nullptr && moves_with(stage.region.reduced))
    bounds.insert(bounds.end(), step->bounds.begin(), step->bounds.end());
  // A bound that the address does not depend on need not guard it. One that is the same in all of a step may
  // still lie outside.
  if (e.index.is_constant() && e.where.empty()) bounds.clear();
  if (e.table < 0) {
    const auto hint = stage.place.evict.find(e.source);
    std::optional<kernel::Evict> evict;
    if (hint != stage.place.evict.end() && !is_shared(stage, e)) evict = hint->second;
    return b.load(stage.kernel.sources.at(e.source), offset, mask(b, std::move(bounds), step), e.dtype,
                  evict);
  }
  const kernel::ArrayId table = table_of(stage, e.table);
  if (in_table(stage, table, offset).always()) bounds.clear();
  return b.get(table, offset, e.dtype, guarded(stage, table, offset, mask(b, std::move(bounds), step)));
}

void store_value(const StageContext& stage, const Root& root, const Index& offset, Handle value,
                 Handle mask) {
  KernelBuilder& b = stage.builder;
  b.at(root.node);
  if (root.table < 0) return b.store(stage.kernel.roots.at({root.node, root.temporary}), offset, value, mask);
  const kernel::ArrayId table = table_of(stage, root.table);
  mask = guarded(stage, table, offset, mask);
  if (stage.place.cluster == 1) return b.set(table, offset, value, mask);
  const IndexVar rank = b.var("to", stage.place.cluster);
  b.loop(rank, kernel::Level::serial, [&] { b.set(table, offset, value, mask, Index::var(rank)); });
}

std::string place_name(const StageContext& stage, const Root& root) {
  if (root.table >= 0) return stage.kernel.array(table_of(stage, root.table)).name;
  return stage.kernel.buffer(stage.kernel.roots.at({root.node, root.temporary})).name;
}

Index place_in(const StageContext& stage, const Position& position, const Holding& in, const Step& step) {
  if (in.own) return step.own;
  const int bytes = size_of(stage.kernel.array(in.array).dtype) * stage.schedule.vector;
  return in.begin + position.slot(step, std::max(1, bytes / kPieceBytes));
}

void hold(const StageContext& stage, const Position& position, const Held& values,
          std::span<const Step> steps) {
  KernelBuilder& b = stage.builder;
  for (const Step& s : steps) {
    for (const auto& [id, in] : values) {
      b.at(stage.expr(id).node);
      b.set(in.array, place_in(stage, position, in, s), b.widen(s.memo.at(id), stage.schedule.vector));
    }
  }
}

void start_copies(const StageContext& stage, const Position& position, const Held& loads, Step& step) {
  KernelBuilder& b = stage.builder;
  const Handle begins = mask(b, position.begin_bounds(step), &step);
  for (const auto& [id, in] : loads) {
    const Expr& e = stage.expr(id);
    b.at(e.node);
    b.copy(in.array, place_in(stage, position, in, step), stage.kernel.sources.at(e.source),
           position.at(e.index, &step), begins);
  }
}

}  // namespace bz::compiler

#include "compiler/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/lower/stage.h"
#include "compiler/lower/tile.h"

namespace bz::compiler {
namespace {

std::string label(const ir::Graph& graph, NodeId n) {
  std::string name = graph.node(n).name.empty() ? fmt::format("n{}", n) : graph.node(n).name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

class Lowering {
 public:
  Lowering(const Group& group, const ir::Graph& graph, std::span<const Schedule> schedules, int alignment)
      : group_(group), graph_(graph), schedules_(schedules), alignment_(alignment), b_(out_.kernel) {}

  Lowered run() {
    const Schedule& first = schedules_[0];
    const std::int64_t teams = group_.staged() ? group_.teams() : extent_of(group_.stages[0], first).blocks;
    kernel::Kernel& k = out_.kernel;
    k.name = group_.name;
    k.vars = {"lane"};
    k.cluster = group_.staged() ? group_.cluster : first.cluster;
    k.grid = teams * k.cluster;
    k.block = threads_of(first);
    add_memory();

    const IndexVar team = b_.var("b", teams), rank = b_.var("rank", k.cluster);
    b_.loop(team, kernel::Level::grid, [&] {
      if (k.cluster == 1) return threads(team, Index(0));
      b_.loop(rank, kernel::Level::cluster, [&] { threads(team, Index::var(rank)); });
    });
    return std::move(out_);
  }

 private:
  void add_memory() {
    for (const Region& region : group_.stages) {
      for (const Expr& e : region.exprs) {
        if (e.kind != Expr::Kind::load || e.table >= 0 || kernel_.sources.contains(e.source)) continue;
        kernel_.sources[e.source] = add_buffer({e.source, e.temporary, false}, e.stored);
      }
    }
    for (const Region& region : group_.stages) {
      for (const Root& r : region.roots) {
        if (r.table < 0)
          kernel_.roots[{r.node, r.temporary}] = add_buffer({r.node, r.temporary, true}, r.stored);
      }
    }
    for (const Table& t : group_.tables)
      kernel_.tables.push_back(
          b_.array("table_" + label(graph_, t.node), t.dtype, t.elements, kernel::Space::shared));
    std::int64_t boxes = 0;
    for (std::size_t i = 0; i < group_.stages.size(); ++i)
      boxes += mailboxes_of(group_.stages[i], schedules_[i]);
    if (boxes > 0) kernel_.boxes = b_.array("boxes", DType::i64, boxes, kernel::Space::shared);
  }

  kernel::BufferId add_buffer(Binding binding, DType stored) {
    constexpr int kWidestAccess = 16;
    out_.kernel.buffers.push_back({label(graph_, binding.node), stored, graph_.type(binding.node).elements(),
                                   binding.written, binding.temporary ? kWidestAccess : alignment_});
    out_.bindings.push_back(binding);
    return static_cast<kernel::BufferId>(out_.kernel.buffers.size()) - 1;
  }

  void threads(const IndexVar& team, const Index& rank) {
    StagePlace place{.rank = rank, .cluster = out_.kernel.cluster};
    if (!group_.staged()) {
      const Schedule& s = schedules_[0];
      place.team = team;
      const IndexVar kept = b_.var("tk", s.threads_kept), reduced = b_.var("tr", s.threads_reduced);
      place.thread_kept = Index::var(kept);
      place.thread_reduced = Index::var(reduced);
      // The threads that run along contiguous memory are neighbours: the inner loop.
      const auto& [outer, inner] = s.lanes_reduced ? std::pair(kept, reduced) : std::pair(reduced, kept);
      b_.loop(outer, kernel::Level::thread, [&] {
        b_.loop(inner, kernel::Level::thread, [&] {
          if (out_.kernel.cluster > 1) b_.start(kernel_.boxes);
          lower_stage(kernel_, group_.stages[0], s, place);
        });
      });
      return;
    }
    // Each stage has its own idea of where a thread is.
    place.staged = true;
    place.outer = Index::var(team);
    const IndexVar t = b_.var("t", out_.kernel.block);
    b_.loop(t, kernel::Level::thread, [&] {
      if (out_.kernel.cluster > 1) {
        b_.start(kernel_.boxes);
        b_.started();
      }
      for (std::size_t i = 0; i < group_.stages.size(); ++i) {
        const Schedule& s = schedules_[i];
        const Index inner = mod(Index::var(t), s.lanes_reduced ? s.threads_reduced : s.threads_kept);
        const Index outer = floordiv(Index::var(t), s.lanes_reduced ? s.threads_reduced : s.threads_kept);
        place.thread_kept = s.lanes_reduced ? outer : inner;
        place.thread_reduced = s.lanes_reduced ? inner : outer;
        place.prefix = fmt::format("s{}_", i);
        if (i > 0) b_.barrier(place.cluster > 1 ? kernel::Scope::cluster : kernel::Scope::block);
        b_.comment("stage " + group_.stages[i].name);
        lower_stage(kernel_, group_.stages[i], s, place);
      }
    });
  }

  const Group& group_;
  const ir::Graph& graph_;
  std::span<const Schedule> schedules_;
  int alignment_;
  Lowered out_;
  KernelBuilder b_;
  KernelContext kernel_{out_, b_, {}, {}, {}, kernel::kNone, 0};
};

}  // namespace

Lowered lower(const Group& group, const ir::Graph& graph, std::span<const Schedule> schedules,
              int alignment) {
  if (!group.staged() && schedules[0].tile > 1) {
    const Tiled t = tiled(group.stages[0], schedules[0]);
    return Lowering(t.group, graph, t.schedules, alignment).run();
  }
  return Lowering(group, graph, schedules, alignment).run();
}

}  // namespace bz::compiler

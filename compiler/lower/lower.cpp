#include "compiler/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/lower/stage.h"
#include "compiler/lower/tile.h"
#include "compiler/schedule/eviction.h"
#include "compiler/schedule/gang.h"
#include "compiler/schedule/predict.h"
#include "compiler/schedule/queue.h"

namespace bz::compiler {
namespace {

std::string label(const ir::Graph& graph, NodeId n) {
  std::string name = graph.node(n).name.empty() ? fmt::format("n{}", n) : graph.node(n).name;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

class Lowering {
 public:
  Lowering(const Group& group, const ir::Graph& graph, std::span<const Schedule> schedules,
           const Target& target, int alignment)
      : group_(group),
        graph_(graph),
        schedules_(schedules),
        target_(target),
        alignment_(alignment),
        evict_(evictions(group, schedules, target)),
        b_(out_.kernel) {}

  Lowered run() {
    const Schedule& first = schedules_[0];
    if (group_.queue > 0) return run_queue();
    std::int64_t teams = group_.staged() ? group_.teams() : extent_of(group_.stages[0], first).blocks;
    kernel::Kernel& k = out_.kernel;
    k.name = group_.name;
    k.vars = {"lane"};
    k.cluster = group_.staged() ? group_.cluster : sharing(first);
    k.gang = first.gang > 1;
    if (k.gang) {
      teams = std::min(teams, gangs_at_once(group_.stages[0], first, target_));
      if (first.parameters != Parameters::memory)
        k.apart = static_cast<int>(gangs_apart(group_.stages[0], first));
    }
    k.grid = teams * k.cluster;
    k.block = threads_of_block(group_.stages[0], first);
    add_memory();
    if (k.gang) add_slots(teams * slots_of(group_.stages[0], first));

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
        if (is_given(e)) continue;
        kernel_.sources[e.source] = add_buffer({e.source, e.temporary, false}, e.stored);
      }
    }
    for (const Region& region : group_.stages) {
      for (const Root& r : region.roots) {
        if (r.table < 0)
          kernel_.roots[{r.node, r.temporary}] = add_buffer({r.node, r.temporary, true}, r.stored);
      }
    }
    // What a stage of a queue gives another is one buffer, that some blocks write and others read.
    for (const Region& region : group_.stages) {
      for (const Expr& e : region.exprs) {
        if (e.kind != Expr::Kind::load || e.table >= 0 || !is_given(e)) continue;
        const kernel::BufferId b = kernel_.roots.at({e.source, e.temporary});
        kernel_.sources[e.source] = b;
        out_.kernel.buffers[static_cast<std::size_t>(b)].shared = true;
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

  // Where the blocks of gangs exchange.
  void add_slots(std::int64_t count) {
    out_.kernel.buffers.push_back(
        {.name = "slots", .dtype = DType::i64, .elements = count, .written = true, .shared = true});
    out_.bindings.push_back({kNoNode, true, true});
    kernel_.slots = static_cast<kernel::BufferId>(out_.kernel.buffers.size()) - 1;
  }

  // Whether a stage of the kernel stores what the expression loads. An input that is copied to an output is not that.
  bool is_given(const Expr& load) const {
    if (graph_.node(load.source).as<InputAttrs>() != nullptr) return false;
    return std::any_of(group_.stages.begin(), group_.stages.end(), [&](const Region& region) {
      return std::any_of(region.roots.begin(), region.roots.end(), [&](const Root& r) {
        return r.table < 0 && r.node == load.source && r.temporary == load.temporary;
      });
    });
  }

  kernel::BufferId add_buffer(Binding binding, DType stored) {
    constexpr int kWidestAccess = 16;
    out_.kernel.buffers.push_back(
        {label(graph_, binding.node), stored, graph_.type(binding.node).elements(), binding.written,
         binding.temporary ? kWidestAccess : std::max(alignment_, size_of(stored))});
    out_.bindings.push_back(binding);
    return static_cast<kernel::BufferId>(out_.kernel.buffers.size()) - 1;
  }

  void threads(const IndexVar& team, const Index& rank) {
    StagePlace place{.rank = rank, .cluster = out_.kernel.cluster, .evict = evict_[0]};
    if (!group_.staged()) {
      const Schedule& s = schedules_[0];
      place.team = team;
      const IndexVar kept = b_.var("tk", s.threads_kept),
                     reduced =
                         b_.var(s.gang > 1 ? "t" : "tr",
                                s.threads_reduced + threads_of_block(group_.stages[0], s) - threads_of(s));
      place.thread_kept = Index::var(kept);
      place.thread_reduced = Index::var(reduced);
      // The threads that run along contiguous memory are neighbours: the inner loop.
      const auto& [outer, inner] = s.lanes_reduced ? std::pair(kept, reduced) : std::pair(reduced, kept);
      b_.loop(outer, kernel::Level::thread, [&] {
        b_.loop(inner, kernel::Level::thread, [&] {
          if (out_.kernel.cluster > 1 && !out_.kernel.gang) b_.start(kernel_.boxes);
          lower_stage(kernel_, group_.stages[0], s, place);
        });
      });
      return;
    }
    const IndexVar t = b_.var("t", out_.kernel.block);
    b_.loop(t, kernel::Level::thread, [&] {
      if (out_.kernel.cluster > 1) {
        b_.start(kernel_.boxes);
        b_.started();
      }
      for (std::size_t i = 0; i < group_.stages.size(); ++i) {
        StagePlace stage = stage_place(i, t);
        stage.outer = Index::var(team);
        stage.rank = place.rank;
        stage.cluster = place.cluster;
        if (i > 0) b_.barrier(place.cluster > 1 ? kernel::Scope::cluster : kernel::Scope::block);
        b_.comment("stage " + group_.stages[i].name);
        lower_stage(kernel_, group_.stages[i], schedules_[i], stage);
      }
    });
  }

  // ---- a queue ----

  // Counters of a queue: that of its tickets, alone in its line of the cache; then for each stage that others wait for how
  // many tickets of a team are done.
  static constexpr std::int64_t kFirstCounter = 32;

  Lowered run_queue() {
    const TicketOrder order = order_of(group_, schedules_);
    kernel::Kernel& k = out_.kernel;
    k.name = group_.name;
    k.vars = {"lane"};
    k.grid = order.tickets();
    k.block = threads_of(schedules_[0]);
    add_memory();
    std::vector<std::int64_t> counters;  // by stage: where those of its teams begin
    std::int64_t end = kFirstCounter;
    for (const TicketStage& s : order.stages) {
      counters.push_back(end);
      if (s.waited_for) end += group_.teams();
    }
    k.buffers.push_back(
        {.name = "queue", .dtype = DType::i32, .elements = end, .written = true, .shared = true});
    out_.bindings.push_back({kNoNode, true, true});
    const auto queue = static_cast<kernel::BufferId>(k.buffers.size()) - 1;
    const kernel::ArrayId slot = b_.array("slot", DType::i32, 1, kernel::Space::shared);

    const IndexVar b = b_.var("b", k.grid), t = b_.var("t", k.block);
    b_.loop(b, kernel::Level::grid, [&] {
      b_.loop(t, kernel::Level::thread, [&] {
        const Index ticket = Index::var(b_.ticket("ticket", k.grid, queue, slot));
        const Index step = Index::var(b_.let("step", order.steps, floordiv(ticket, order.per_step)));
        const Index at = Index::var(b_.let("at", order.per_step, mod(ticket, order.per_step)));
        for (std::size_t i = 0; i < group_.stages.size(); ++i) {
          const TicketStage& s = order.stages[i];
          TicketPlace place = place_of(order, i, at);
          place.where.push_back({step, s.lag, s.lag + group_.teams()});
          b_.when(b_.inside(std::move(place.where)),
                  [&] { ticket_of(i, order, counters, queue, t, step, place.part); });
        }
      });
    });
    return std::move(out_);
  }

  void ticket_of(std::size_t i, const TicketOrder& order, const std::vector<std::int64_t>& counters,
                 kernel::BufferId queue, const IndexVar& t, const Index& step, const Index& at) {
    const TicketStage& s = order.stages[i];
    b_.at(kNoNode);
    b_.comment("stage " + group_.stages[i].name);
    const IndexVar team = b_.let("team", group_.teams(), step - Index(s.lag));
    const IndexVar part = b_.let("part", s.tickets, at);
    for (const int p : s.waits_for) {
      const auto giver = static_cast<std::size_t>(p);
      b_.wait(queue, Index::var(team) + Index(counters[giver]),
              static_cast<std::int32_t>(order.stages[giver].tickets));
    }
    StagePlace place = stage_place(i, t);
    place.outer = Index::var(team);
    place.ticket_blocks = s.blocks;
    place.first_block = Index::var(part) * s.blocks;
    lower_stage(kernel_, group_.stages[i], schedules_[i], place);
    b_.at(kNoNode);
    if (s.waited_for) b_.signal(queue, Index::var(team) + Index(counters[i]));
  }

  // Each stage has its own idea of where a thread is.
  StagePlace stage_place(std::size_t i, const IndexVar& t) const {
    const Schedule& s = schedules_[i];
    const int neighbours = s.lanes_reduced ? s.threads_reduced : s.threads_kept;
    const Index inner = mod(Index::var(t), neighbours), outer = floordiv(Index::var(t), neighbours);
    return {.staged = true,
            .thread_kept = s.lanes_reduced ? outer : inner,
            .thread_reduced = s.lanes_reduced ? inner : outer,
            .prefix = fmt::format("s{}_", i),
            .evict = evict_[i]};
  }

  const Group& group_;
  const ir::Graph& graph_;
  std::span<const Schedule> schedules_;
  const Target& target_;
  int alignment_;
  std::vector<std::map<NodeId, kernel::Evict>> evict_;  // by stage
  Lowered out_;
  KernelBuilder b_;
  KernelContext kernel_{out_, b_, {}, {}, {}, kernel::kNone, kernel::kNone, 0};
};

}  // namespace

Lowered lower(const Group& group, const ir::Graph& graph, std::span<const Schedule> schedules,
              const Target& target, int alignment) {
  if (!group.staged() && schedules[0].tile > 1) {
    const Tiled t = tiled(group.stages[0], schedules[0]);
    return Lowering(t.group, graph, t.schedules, target, alignment).run();
  }
  return Lowering(group, graph, schedules, target, alignment).run();
}

}  // namespace bz::compiler

// Schedules of the stages of a kernel, which agree on the threads of a block; what they move and how long it takes.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/fuse/cost.h"
#include "compiler/schedule/predict.h"
#include "compiler/schedule/queue.h"
#include "support/error.h"

namespace bz::compiler {
namespace {

// Of a region alone in its kernel, or of a stage with the given bounds.
Choice choose_form(Region& region, const Target& target, const Bounds& bounds, const Measurements& measured) {
  const Forms forms(region);
  Choice choice = choose(forms, target, bounds, measured);
  region = Region(forms.of(choice.schedule));
  return choice;
}

Choice force(Region& region, const Target& target, const Bounds& bounds, const Schedule& s) {
  Region form = Forms(region).of(s);
  if (const auto why = refuse(form, s, target)) {
    throw Error(fmt::format("kernel {} cannot have schedule '{}': {}", form.name, to_string(s), *why));
  }
  region = std::move(form);
  return {s, {{s, predict(region, s, target, bounds)}}, {}};
}

void require_queue(const Group& group, const Region& region, const std::optional<Schedule>& s) {
  if (!s || s->queue == 0 || group.queue > 0) return;
  throw Error(fmt::format("kernel {} cannot have schedule '{}' for {}: its blocks take no tickets of a queue",
                          group.name, to_string(*s), region.name));
}

}  // namespace

std::vector<Choice> choose_stages(Group& group, const Target& target,
                                  const std::function<std::optional<Schedule>(const std::string&)>& forced,
                                  const std::map<std::string, Measurements>& measured) {
  const auto times = [&](const Region& region) {
    const auto at = measured.find(region.name);
    return at == measured.end() ? Measurements{} : at->second;
  };
  std::vector<Choice> choices;
  if (!group.staged()) {
    Region& region = group.stages[0];
    const std::optional<Schedule> s = forced(region.name);
    require_queue(group, region, s);
    choices.push_back(s ? force(region, target, {}, *s) : choose_form(region, target, {}, times(region)));
    return choices;
  }
  Target left = target;  // what the kernel has of it
  left.max_cluster = group.cluster;
  // The threads that the stage with the most wants, unless one is forced.
  constexpr int kLeastThreads = 128;
  int lag = 0;  // by hand
  for (const Region& region : group.stages) {
    const std::optional<Schedule> s = forced(region.name);
    require_queue(group, region, s);
    if (!s || s->queue == 0) continue;
    if (lag > 0 && lag != s->queue) {
      throw Error(
          fmt::format("kernel {} cannot have schedule '{}' for {}: another of its stages has queue={}",
                      group.name, to_string(*s), region.name, lag));
    }
    group.queue = lag = s->queue;
    group.cached = group.queued.cached(lag);
  }
  Bounds bounds{.team = group.cluster, .staged = true, .queue = group.queue};
  int threads = kLeastThreads;
  for (const Region& region : group.stages) {
    if (const std::optional<Schedule> s = forced(region.name)) {
      bounds.threads = threads_of(*s);
    } else if (group.queue == 0) {  // small blocks of a queue come and go with their tickets
      threads = std::max(threads, threads_of(choose(Forms(region), left, bounds).schedule));
    }
  }
  if (bounds.threads == 0) bounds.threads = threads;
  if (bounds.threads % 32 != 0) {
    throw Error(fmt::format(
        "kernel {} cannot have blocks of {} threads: its stages wait for each other in whole warps of 32",
        group.name, bounds.threads));
  }
  // Stages have the shared memory that tables and earlier stages leave.
  for (const Table& t : group.tables)
    left.max_shared_bytes -= static_cast<int>((t.elements * size_of(t.dtype) + 15) / 16 * 16);
  for (Region& region : group.stages) {
    std::optional<Schedule> s = forced(region.name);
    if (s) s->queue = group.queue;
    if (s && s->cluster != 1 && s->cluster != group.cluster) {
      throw Error(fmt::format(
          "kernel {} cannot have schedule '{}' for {}: clusters of {} blocks, the kernel has clusters of {}",
          group.name, to_string(*s), region.name, s->cluster, group.cluster));
    }
    if (s && s->prefetch > 0) {
      throw Error(
          fmt::format("kernel {} cannot have schedule '{}' for {}: a stage of several does not read ahead",
                      group.name, to_string(*s), region.name));
    }
    if (s && s->tile > 1) {
      throw Error(
          fmt::format("kernel {} cannot have schedule '{}' for {}: a tile, and the kernel has several stages",
                      group.name, to_string(*s), region.name));
    }
    choices.push_back(s ? force(region, left, bounds, *s) : choose_form(region, left, bounds, times(region)));
    left.max_shared_bytes -= static_cast<int>(shared_bytes(region, choices.back().schedule));
    if (group.cached) {
      for (const NodeId source : region.sources()) bounds.cached.insert(source);
    }
    if (!s) continue;
    if (threads_of(*s) != bounds.threads) {
      throw Error(
          fmt::format("kernel {} cannot have schedule '{}' for {}: {} threads, another of its stages has {}",
                      group.name, to_string(*s), region.name, threads_of(*s), bounds.threads));
    }
  }
  if (group.queue > 0) group.ticket_blocks = ticket_blocks(group, choices);
  return choices;
}

Estimate estimate(const Group& group, std::span<const Choice> choices, const ir::Graph& graph) {
  Estimate e;
  std::set<NodeId> read;
  for (std::size_t i = 0; i < group.stages.size(); ++i) {
    const Region& region = group.stages[i];
    // A source is read once by each phase that loads it, or once in all when the domain is kept.
    const int phases = choices[i].schedule.keep == Keep::nothing ? region.phases() : 1;
    std::set<NodeId> counted;
    for (const Expr& x : region.exprs) {
      if (x.kind != Expr::Kind::load || x.table >= 0 || !counted.insert(x.source).second) continue;
      const std::int64_t bytes = graph.type(x.source).elements() * size_of(x.stored);
      const bool cached = group.staged() && group.cached;
      if (!cached || !read.contains(x.source)) e.bytes_read += bytes * (x.varies && !cached ? phases : 1);
      read.insert(x.source);
    }
    for (const Root& r : region.roots) {
      if (r.table < 0) e.bytes_written += graph.type(r.node).elements() * size_of(r.stored);
    }
  }
  double seconds = group.queue > 0 ? group.queued.seconds(group.queue) : kLaunchSeconds;
  for (const Choice& c : choices) seconds += group.queue > 0 ? 0 : c.seconds();
  e.microseconds = seconds * 1e6;
  return e;
}

}  // namespace bz::compiler

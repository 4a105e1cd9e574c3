#include "compiler/compile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "compiler/emit/emit.h"
#include "compiler/pass.h"
#include "compiler/schedule/queue.h"
#include "compiler/simplify/index_operands.h"
#include "ir/verify.h"
#include "support/error.h"

namespace bz {
namespace {

using namespace compiler;

constexpr std::string_view kStages[] = {"graph",  "simplified", "regions", "schedule",
                                        "kernel", "llvm",       "ptx"};

// Not a pass over the graph, but can be left out as well: then every region is a kernel.
constexpr std::string_view kGroup = "group";

bool is_disabled(const CompileOptions& options, std::string_view pass) {
  const auto& off = options.disabled_passes;
  return std::find(off.begin(), off.end(), pass) != off.end();
}

// Runs a step and notes how long it took.
template <class F>
auto timed(std::vector<PassTime>& times, std::string_view name, F&& step) {
  const auto start = std::chrono::steady_clock::now();
  auto result = step();
  times.push_back(
      {std::string(name), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  return result;
}

ir::Graph run_graph_passes(ir::Graph graph, const CompileOptions& options, std::vector<PassTime>& times) {
  for (const std::string& name : options.disabled_passes) {
    const std::vector<std::string> known = pass_names();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(fmt::format("there is no pass '{}' to disable", name));
    }
  }
  for (const GraphPass& pass : graph_passes()) {
    if (is_disabled(options, pass.name)) continue;
    graph = timed(times, pass.name, [&] { return pass.run(graph, options.target); });
    verify_or_throw(graph, pass.name);
  }
  return graph;
}

// A node that several outputs name gets a view of its own for each further one: every output has its own memory.
ir::Graph separate_outputs(const ir::Graph& graph) {
  ir::Graph g(graph.name());
  std::vector<NodeId> taken;
  for (NodeId id = 0; id < graph.size(); ++id) g.copy(graph, id, graph.node(id).operands);
  for (const Output& o : graph.outputs()) {
    const bool again = std::find(taken.begin(), taken.end(), o.node) != taken.end();
    taken.push_back(o.node);
    g.output(o.name, again ? g.reshape(o.node, g.type(o.node).shape) : o.node);
  }
  return g;
}

// The part of a schedule text that is for this kernel, "TEXT" or "NAME: TEXT; NAME: TEXT"; empty when there is none.
// Adds the names it meets to `named`.
std::string schedule_for(const std::string& text, const std::string& kernel, std::set<std::string>& named) {
  std::string for_all, for_this;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(';', at), text.size());
    std::string item = text.substr(at, end - at);
    at = end + 1;
    item.erase(std::remove(item.begin(), item.end(), ' '), item.end());
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos) {
      if (!item.empty()) for_all = item;
      continue;
    }
    named.insert(item.substr(0, colon));
    if (item.substr(0, colon) != kernel) continue;
    if (!for_this.empty()) throw Error(fmt::format("schedule: {} is named twice", kernel));
    for_this = item.substr(colon + 1);
    if (for_this.empty())
      throw Error(fmt::format(
          "schedule: nothing follows '{0}:', expected keys as in '{0}: vector=4,reduced=256'", kernel));
  }
  return for_this.empty() ? for_all : for_this;
}

// Nothing to compute: some extent is 0.
bool empty(const Region& r) { return r.domains() == 0; }

void verify_kernel(const kernel::Kernel& k) {
  const std::vector<std::string> problems = kernel::verify(k);
  if (!problems.empty()) throw InternalError(fmt::format("{}\n{}", problems.front(), kernel::print(k)));
}

Plan make_plan(const ir::Graph& graph, const std::vector<CompiledKernel>& kernels,
               const std::vector<std::vector<Binding>>& bindings, int alignment, bool alone) {
  Plan plan;
  plan.name = graph.name();
  plan.alignment = alignment;
  std::map<NodeId, int> input, output, temporary;
  std::set<std::pair<NodeId, bool>> used;  // and whether it is written
  for (const auto& all : bindings) {
    for (const Binding& b : all) used.emplace(b.node, b.written);
  }
  for (const NodeId id : graph.inputs()) {
    if (alone && !used.contains({id, false})) continue;
    input[id] = static_cast<int>(plan.buffers.size());
    plan.buffers.push_back({graph.node(id).as<InputAttrs>()->name, PlanBuffer::Kind::input, graph.type(id)});
  }
  for (const Output& o : graph.outputs()) {
    const bool written = !alone || used.contains({o.node, true});
    if (!written && (input.contains(o.node) || !used.contains({o.node, false}))) continue;
    output[o.node] = static_cast<int>(plan.buffers.size());
    plan.buffers.push_back(
        {o.name, written ? PlanBuffer::Kind::output : PlanBuffer::Kind::input, graph.type(o.node)});
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const kernel::Kernel& k = kernels[i].kernel;
    PlanKernel launch{k.name,         {},        k.grid, k.block,      k.shared_bytes(),
                      k.synchronizes, k.cluster, k.gang, k.persistent, k.apart};
    for (std::size_t b = 0; b < bindings[i].size(); ++b) {
      const Binding& binding = bindings[i][b];
      if (binding.node == kNoNode) {
        launch.arguments.push_back(static_cast<int>(plan.buffers.size()));
        plan.buffers.push_back({fmt::format("{} of {}", k.buffers[b].name, k.name),
                                PlanBuffer::Kind::temporary,
                                {k.buffers[b].dtype, {k.buffers[b].elements}},
                                true});
      } else if (binding.temporary) {
        const auto [at, fresh] = temporary.try_emplace(binding.node, static_cast<int>(plan.buffers.size()));
        if (fresh) {
          const auto kind = !alone            ? PlanBuffer::Kind::temporary
                            : binding.written ? PlanBuffer::Kind::output
                                              : PlanBuffer::Kind::input;
          plan.buffers.push_back({fmt::format("t{}", temporary.size() - 1),
                                  kind,
                                  {k.buffers[b].dtype, graph.type(binding.node).shape}});
        }
        launch.arguments.push_back(at->second);
      } else {
        // An output that is an input is read as the one and written as the other.
        const bool from_input = !binding.written && input.contains(binding.node);
        launch.arguments.push_back(from_input ? input.at(binding.node) : output.at(binding.node));
      }
    }
    plan.kernels.push_back(std::move(launch));
  }
  return plan;
}

}  // namespace

std::vector<Schedule> CompiledKernel::schedules() const {
  std::vector<Schedule> all;
  for (const Choice& c : choices) all.push_back(c.schedule);
  return all;
}

std::optional<Stage> parse_stage(std::string_view text) {
  const auto* at = std::find(std::begin(kStages), std::end(kStages), text);
  if (at == std::end(kStages)) return std::nullopt;
  return static_cast<Stage>(at - std::begin(kStages));
}

std::vector<std::string_view> stage_names() { return {std::begin(kStages), std::end(kStages)}; }

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const GraphPass& pass : graph_passes()) names.emplace_back(pass.name);
  names.emplace_back(kGroup);
  return names;
}

Compilation compile(const ir::Graph& graph, const CompileOptions& options) {
  Compilation c;
  c.graph = graph;
  c.target = options.target;
  c.fast_math = options.fast_math;
  if (options.last == Stage::graph) return c;
  if (graph.outputs().empty()) graph.fail(fmt::format("graph {} has no outputs", graph.name()));
  if (const auto problems = verify(graph); !problems.empty())
    throw Error(problems.front().loc, fmt::format("graph {}: {}", graph.name(), problems.front().what));

  c.simplified = separate_outputs(run_graph_passes(index_operands(graph), options, c.times));
  if (options.last == Stage::simplified) return c;

  Fusion fusion =
      timed(c.times, "fuse", [&] { return fuse(c.simplified, {.fast_math = options.fast_math}); });
  std::erase_if(fusion.regions, empty);
  c.cuts = std::move(fusion.cuts);
  c.recomputed = std::move(fusion.recomputed);
  std::vector<Group> groups = timed(c.times, kGroup, [&] {
    const auto wish = [&](const std::string& name) -> std::optional<bool> {
      std::set<std::string> named;
      const std::string text = schedule_for(options.schedule, name, named);
      return text.empty() ? std::nullopt : std::optional(parse_schedule(text).queue > 0);
    };
    return group(std::move(fusion.regions), c.simplified, options.target, c.cuts,
                 is_disabled(options, kGroup) ? Join::no : Join::yes, wish);
  });

  std::vector<std::vector<Binding>> bindings;
  std::vector<kernel::Kernel> kernels;
  timed(c.times, "schedule", [&] {
    std::set<std::string> named;
    std::vector<std::string> known;
    const auto forced = [&](const std::string& name) -> std::optional<Schedule> {
      const std::string text = schedule_for(options.schedule, name, named);
      return text.empty() ? std::nullopt : std::optional(parse_schedule(text));
    };
    for (Group& group : groups) {
      for (Region& r : group.stages) {
        r = canonical(std::move(r));
        known.push_back(r.name);
      }
      std::vector<Choice> choices = choose_stages(group, options.target, forced, options.measured);
      const Estimate e = estimate(group, choices, c.simplified);
      c.kernels.push_back({std::move(group), std::move(choices), e, {}});
    }
    for (const std::string& name : known) named.erase(name);
    if (!named.empty()) {
      throw Error(fmt::format("schedule: there is no kernel '{}'; there are {}", *named.begin(),
                              fmt::join(known, ", ")));
    }
    return 0;
  });
  if (options.last <= Stage::schedule) return c;
  const bool alone = !options.kernel.empty();
  if (alone)
    std::erase_if(c.kernels, [&](const CompiledKernel& k) { return k.group.name != options.kernel; });

  timed(c.times, "lower", [&] {
    for (CompiledKernel& k : c.kernels) {
      Lowered lowered = lower(k.group, c.simplified, k.schedules(), options.target, options.alignment);
      if (!k.group.staged())
        lowered.kernel.blocks_together =
            blocks_together(k.group.stages[0], k.choices[0].schedule, options.target);
      if (k.group.queue > 0)
        lowered.kernel.blocks_together = blocks_together(k.group, k.schedules(), options.target);
      verify_kernel(lowered.kernel);
      k.kernel = std::move(lowered.kernel);
      bindings.push_back(std::move(lowered.bindings));
      kernels.push_back(k.kernel);
    }
    return 0;
  });
  c.plan = make_plan(c.simplified, c.kernels, bindings, options.alignment, alone);
  if (options.last == Stage::kernel) return c;

  c.bitcode = timed(c.times, "emit", [&] { return emit::emit(kernels, graph.name(), {options.fast_math}); });
  if (options.last == Stage::llvm) return c;
  if (options.target.sim) {
    c.plan.bitcode = c.bitcode;
    for (std::size_t i = 0; i < kernels.size(); ++i)
      c.plan.kernels[i].lines = plan_lines(kernels[i], c.simplified);
  } else {
    emit::Ptx ptx = timed(c.times, "ptx", [&] { return emit::ptx(c.bitcode, kernels, options.target); });
    c.plan.ptx = std::move(ptx.text);
    c.plan.ptx_version = ptx.version;
    c.plan.sm = options.target.sm;
  }
  return c;
}

}  // namespace bz

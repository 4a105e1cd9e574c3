// What the compiler decided and why, as text, as JSON and stage by stage.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/compile.h"
#include "compiler/emit/emit.h"
#include "compiler/fuse/cost.h"
#include "compiler/schedule/queue.h"
#include "ir/print.h"

namespace bz {
namespace {

using namespace compiler;
using Json = nlohmann::ordered_json;

std::string node_name(const ir::Graph& g, NodeId id) {
  if (id == kNoNode) return "";
  const std::string& name = g.node(id).name;
  return name.empty() ? fmt::format("%{}", id) : "%" + name;
}

std::string describe(const ir::Graph& g, NodeId id) {
  return fmt::format("{} = {}", node_name(g, id), g.node(id).op_name());
}

std::vector<std::string> node_names(const ir::Graph& g, const Group& group) {
  std::set<NodeId> ids;
  for (const Region& region : group.stages) {
    for (const Expr& e : region.exprs) {
      if (e.kind != Expr::Kind::load) ids.insert(e.node);
    }
    for (const Root& r : region.roots) ids.insert(r.node);
  }
  std::vector<std::string> names;
  for (const NodeId id : ids) names.push_back(describe(g, id));
  return names;
}

std::string axes(const Region& r, const std::vector<IndexVar>& vars) {
  std::vector<std::string> parts;
  for (const IndexVar& v : vars)
    parts.push_back(fmt::format("{}:{}", r.var_names[static_cast<std::size_t>(v.id)], v.extent));
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::string residency(const Region& region, const Schedule& s, bool cached) {
  const std::string where = sharing(s) == 1 ? "" : fmt::format(" of {} blocks", sharing(s));
  switch (s.keep) {
    case Keep::registers: return (s.spill > 0 ? "registers and shared memory" : "registers") + where;
    case Keep::shared: return "shared memory" + where;
    case Keep::nothing:
      if (region.phases() == 1) return "read once";
      return cached ? "read again by each phase, from L2" : "read again by each phase";
  }
  return "";
}

std::string residency(const CompiledKernel& k, std::size_t stage) {
  return residency(k.group.stages[stage], k.choices[stage].schedule, k.group.staged() && k.group.cached);
}

// Where the result of each reduction lives until it is used: "%5 = moments.1: registers, table".
struct ReductionPlace {
  std::string node, place;
};
std::vector<ReductionPlace> results(const ir::Graph& g, const CompiledKernel& k) {
  std::vector<ReductionPlace> all;
  for (const Region& region : k.group.stages) {
    for (ExprId id = 0; id < static_cast<ExprId>(region.exprs.size()); ++id) {
      const Expr& e = region.exprs[static_cast<std::size_t>(id)];
      if (e.kind != Expr::Kind::reduce) continue;
      std::string place = "registers";
      for (const Root& r : region.roots) {
        if (r.expr != id) continue;
        if (r.table >= 0) {
          place += k.kernel.cluster > 1 || k.group.cluster > 1 ? ", a table in the cluster's shared memory"
                                                               : ", a table in shared memory";
        } else {
          place += r.temporary ? ", a table in global memory" : ", the output";
        }
      }
      all.push_back({describe(g, e.node), std::move(place)});
    }
  }
  return all;
}

Json extents(const Region& region, const std::vector<IndexVar>& vars) {
  Json object = Json::object();
  for (const IndexVar& v : vars) object[region.var_names[static_cast<std::size_t>(v.id)]] = v.extent;
  return object;
}
Json domain_json(const Region& region) {
  return {{"kept", extents(region, region.kept)},
          {"reduced", extents(region, region.reduced)},
          {"count", region.domains()},
          {"size", region.domain_size()}};
}
// Of several stages: what they have in common.
Json team_json(const Group& group) {
  const Region& first = group.stages[0];
  return {{"outer", extents(first, first.outer)}, {"count", group.teams()}};
}

int phases(const Group& group) {
  int n = 0;
  for (const Region& r : group.stages) n += r.phases();
  return n;
}

// Those that could be chosen, and all that were measured.
std::vector<Candidate> shown(const Choice& choice) {
  std::vector<Candidate> all;
  for (const Candidate& c : choice.candidates) {
    if (!c.neighbour || c.measured) all.push_back(c);
  }
  return all;
}
// A stage of several is not launched by itself.
double predicted_us(const CompiledKernel& k, const Candidate& c) {
  return 1e6 * (c.seconds + (k.group.staged() ? 0 : kLaunchSeconds));
}
std::string measured(const Candidate& c) {
  return c.measured ? fmt::format(", {:.1f} us measured", 1e6 * *c.measured) : "";
}

// "16 domains between stages, read again; tickets of a domain: 16 of group_norm_0, 32 of logsumexp_1"
std::string queue(const CompiledKernel& k) {
  const TicketOrder order = order_of(k.group, k.schedules());
  std::vector<std::string> tickets;
  for (std::size_t i = 0; i < order.stages.size(); ++i)
    tickets.push_back(fmt::format("{} of {}", order.stages[i].tickets, k.group.stages[i].name));
  return fmt::format("{} domain{} between stages, {}; tickets of a domain: {}", k.group.queue,
                     k.group.queue == 1 ? "" : "s", k.group.cached ? "found in L2" : "read again",
                     fmt::join(tickets, ", "));
}

std::string launch(const CompiledKernel& k) {
  const Schedule& s = k.choices[0].schedule;
  if (k.group.queue > 0) {
    return fmt::format("{} blocks of {} threads, a ticket each", order_of(k.group, k.schedules()).tickets(),
                       threads_of(s));
  }
  const int cluster = k.group.staged() ? k.group.cluster : sharing(s);
  const std::int64_t blocks =
      (k.group.staged() ? k.group.teams() : extent_of(k.group.stages[0], s).blocks) * cluster;
  return fmt::format(
      "{}{} block{} of {} threads{}", s.prefetch > 0 ? "up to " : "", blocks, blocks == 1 ? "" : "s",
      threads_of_block(k.group.stages[0], s),
      cluster == 1 ? "" : fmt::format(", {} of {}", s.gang > 1 ? "gangs" : "clusters", cluster));
}

}  // namespace

std::vector<PlanLine> plan_lines(const kernel::Kernel& kernel, const ir::Graph& simplified) {
  std::vector<PlanLine> lines;
  for (kernel::Line& l : kernel::lines(kernel)) {
    lines.push_back({std::move(l.text), l.node == kNoNode ? "" : describe(simplified, l.node)});
  }
  return lines;
}

std::int64_t Compilation::bytes_min() const {
  std::int64_t bytes = 0;
  const auto add = [&](NodeId id) {
    bytes += simplified.type(id).elements() * size_of(simplified.type(id).dtype);
  };
  std::set<NodeId> read;
  for (const CompiledKernel& k : kernels) {
    for (const Region& region : k.group.stages) {
      for (const NodeId id : region.sources()) {
        if (simplified.node(id).as<InputAttrs>() != nullptr && read.insert(id).second) add(id);
      }
    }
  }
  for (const Output& o : simplified.outputs()) add(o.node);
  return bytes;
}

std::int64_t Compilation::bytes_total() const {
  std::int64_t bytes = 0;
  for (const CompiledKernel& k : kernels) bytes += k.estimate.bytes_read + k.estimate.bytes_written;
  return bytes;
}

std::string Compilation::explain() const {
  std::string text = fmt::format("{}: {} kernel{} for {}{}, {} bytes moved, at least {} needed\n",
                                 graph.name(), kernels.size(), kernels.size() == 1 ? "" : "s", target.name,
                                 fast_math ? " with fast_math" : "", bytes_total(), bytes_min());
  for (const CompiledKernel& k : kernels) {
    const bool staged = k.group.staged();
    text += fmt::format("\nkernel {}\n", k.group.name);
    if (staged) {
      const Region& first = k.group.stages[0];
      text += fmt::format("  domain     {} of {} stages, {} of them in all\n", axes(first, first.outer),
                          k.group.stages.size(), k.group.teams());
    }
    if (k.group.queue > 0) text += fmt::format("  queue      {}\n", queue(k));
    for (std::size_t i = 0; i < k.group.stages.size(); ++i) {
      const Region& region = k.group.stages[i];
      const Choice& choice = k.choices[i];
      if (staged) text += fmt::format("  stage      {}\n", region.name);
      const std::string indent = staged ? "    " : "  ";
      text += fmt::format("{}domain     {} of {} elements {} each, {} of them in all\n", indent,
                          axes(region, region.kept), region.domain_size(), axes(region, region.reduced),
                          region.domains());
      text += fmt::format("{}phases     {}\n", indent, region.phases());
      text += fmt::format("{}schedule   {}\n", indent, to_string(choice.schedule));
      text += fmt::format("{}residency  {}\n", indent, residency(k, i));
      for (const Candidate& candidate : shown(choice)) {
        text += fmt::format("{}candidate  {}: {:.1f} us predicted{}\n", indent, to_string(candidate.schedule),
                            predicted_us(k, candidate), measured(candidate));
      }
      for (const Refusal& r : choice.refused)
        text += fmt::format("{}refused    {}: {}\n", indent, to_string(r.schedule), r.reason);
    }
    text += fmt::format("  launch     {}\n", launch(k));
    text += fmt::format("  bytes      {} read, {} written, {:.1f} us predicted\n", k.estimate.bytes_read,
                        k.estimate.bytes_written, k.estimate.microseconds);
    for (const ReductionPlace& r : results(simplified, k))
      text += fmt::format("  result     {}: {}\n", r.node, r.place);
    for (const std::string& n : node_names(simplified, k.group)) text += fmt::format("  node       {}\n", n);
  }
  for (const Cut& cut : cuts) {
    text +=
        fmt::format("\ncut {} -> {}: {}{}\n", node_name(simplified, cut.from), node_name(simplified, cut.to),
                    compiler::text(cut.reason), cut.detail.empty() ? "" : ", " + cut.detail);
  }
  for (const Recomputed& r : recomputed) {
    text += fmt::format(
        "\nrecomputed {} in {} kernels: {} bytes and {:.0f} instructions again, {} bytes would move if it "
        "were stored\n",
        node_name(simplified, r.node), r.regions, r.bytes_again, r.instructions_again, r.bytes_stored);
  }
  return text;
}

std::string Compilation::explain_json() const {
  Json root;
  root["kernels"] = Json::array();
  for (const CompiledKernel& k : kernels) {
    Json stages = Json::array();
    for (std::size_t i = 0; i < k.group.stages.size(); ++i) {
      Json candidates = Json::array();
      for (const Candidate& candidate : shown(k.choices[i])) {
        candidates.push_back(
            {{"schedule", to_string(candidate.schedule)}, {"predicted_us", predicted_us(k, candidate)}});
        if (candidate.measured) candidates.back()["measured_us"] = 1e6 * *candidate.measured;
      }
      Json refused = Json::array();
      for (const Refusal& r : k.choices[i].refused)
        refused.push_back({{"schedule", to_string(r.schedule)}, {"reason", r.reason}});
      stages.push_back({{"name", k.group.stages[i].name},
                        {"domain", domain_json(k.group.stages[i])},
                        {"phases", k.group.stages[i].phases()},
                        {"schedule", to_string(k.choices[i].schedule)},
                        {"candidates", std::move(candidates)},
                        {"refused", std::move(refused)},
                        {"residency", residency(k, i)}});
    }
    Json reductions = Json::array();
    for (const ReductionPlace& r : results(simplified, k))
      reductions.push_back({{"node", r.node}, {"place", r.place}});
    // A kernel of one stage is that stage.
    const bool staged = k.group.staged();
    Json one = {{"name", k.group.name}, {"nodes", node_names(simplified, k.group)}};
    one["domain"] = staged ? team_json(k.group) : stages[0]["domain"];
    one["phases"] = phases(k.group);
    if (k.group.queue > 0)
      one["queue"] = {{"lag", k.group.queue}, {"tickets", order_of(k.group, k.schedules()).tickets()}};
    std::vector<std::string> schedules, residencies;
    for (const Json& stage : stages) {
      const std::string name = staged ? stage["name"].get<std::string>() + ": " : "";
      schedules.push_back(name + stage["schedule"].get<std::string>());
      residencies.push_back(name + stage["residency"].get<std::string>());
    }
    one["schedule"] = fmt::format("{}", fmt::join(schedules, "; "));
    if (!staged) {
      one["candidates"] = stages[0]["candidates"];
      one["refused"] = stages[0]["refused"];
    }
    one["residency"] = fmt::format("{}", fmt::join(residencies, "; "));
    one["results"] = std::move(reductions);
    if (staged) one["stages"] = std::move(stages);
    one["bytes_read"] = k.estimate.bytes_read;
    one["bytes_written"] = k.estimate.bytes_written;
    one["predicted_us"] = k.estimate.microseconds;
    root["kernels"].push_back(std::move(one));
  }
  root["cuts"] = Json::array();
  for (const Cut& c : cuts) {
    root["cuts"].push_back({{"from", node_name(simplified, c.from)},
                            {"to", node_name(simplified, c.to)},
                            {"reason", compiler::text(c.reason)}});
    if (!c.detail.empty()) root["cuts"].back()["detail"] = c.detail;
  }
  root["recomputed"] = Json::array();
  for (const Recomputed& r : recomputed) {
    root["recomputed"].push_back({{"node", node_name(simplified, r.node)},
                                  {"kernels", r.regions},
                                  {"bytes_again", r.bytes_again},
                                  {"instructions_again", r.instructions_again},
                                  {"bytes_if_stored", r.bytes_stored}});
  }
  root["bytes_min"] = bytes_min();
  root["bytes_total"] = bytes_total();
  root["target"] = target.name;
  root["fast_math"] = fast_math;
  return root.dump(2);
}

std::string Compilation::dump(Stage stage) const {
  std::string text;
  switch (stage) {
    case Stage::graph: return print(graph);
    case Stage::simplified: return print(simplified);
    case Stage::regions:
      for (const CompiledKernel& k : kernels) {
        for (const Region& region : k.group.stages) text += print(region, simplified) + "\n";
      }
      return text;
    case Stage::schedule:
      for (const CompiledKernel& k : kernels) {
        for (std::size_t i = 0; i < k.choices.size(); ++i)
          text += fmt::format("{}: {}\n", k.group.stages[i].name, to_string(k.choices[i].schedule));
      }
      return text;
    case Stage::kernel:
      for (const CompiledKernel& k : kernels) text += kernel::print(k.kernel) + "\n";
      return text;
    case Stage::llvm: return bitcode.empty() ? "" : emit::assembly(bitcode);
    case Stage::ptx: return plan.ptx;
  }
  return text;
}

}  // namespace bz

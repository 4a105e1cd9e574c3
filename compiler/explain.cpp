// What the compiler decided and why, as text, as JSON and stage by stage.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "compiler/compile.h"
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

std::vector<std::string> node_names(const ir::Graph& g, const Region& region) {
  std::set<NodeId> ids;
  for (const Expr& e : region.exprs) {
    if (e.kind != Expr::Kind::load) ids.insert(e.node);
  }
  for (const Root& r : region.roots) ids.insert(r.node);
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

std::string residency(const CompiledKernel& k) {
  switch (k.choice.schedule.keep) {
    case Keep::registers: return "registers";
    case Keep::shared: return "shared";
    case Keep::nothing: return k.region.phases() > 1 ? "read again by each phase" : "read once";
  }
  return "";
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
    for (const NodeId id : k.region.sources()) {
      if (simplified.node(id).as<InputAttrs>() != nullptr && read.insert(id).second) add(id);
    }
  }
  for (const Output& o : simplified.outputs()) add(o.node);
  return bytes;
}

std::int64_t Compilation::bytes_total() const {
  std::int64_t bytes = 0;
  for (const CompiledKernel& k : kernels) bytes += k.choice.bytes_read + k.choice.bytes_written;
  return bytes;
}

std::string Compilation::explain() const {
  std::string text =
      fmt::format("{}: {} kernel{} for {}, {} bytes moved, at least {} needed\n", graph.name(),
                  kernels.size(), kernels.size() == 1 ? "" : "s", target.name, bytes_total(), bytes_min());
  for (const CompiledKernel& k : kernels) {
    const Extent e = extent_of(k.region, k.choice.schedule);
    text += fmt::format("\nkernel {}\n", k.region.name);
    text += fmt::format("  domain     {} of {} elements {} each, {} of them in all\n",
                        axes(k.region, k.region.kept), k.region.domain_size(),
                        axes(k.region, k.region.reduced), k.region.domains());
    text += fmt::format("  phases     {}\n", k.region.phases());
    text += fmt::format("  schedule   {}\n", to_string(k.choice.schedule));
    text += fmt::format("  launch     {} block{} of {} threads\n", e.blocks, e.blocks == 1 ? "" : "s",
                        k.choice.schedule.threads_kept * k.choice.schedule.threads_reduced);
    text += fmt::format("  residency  {}\n", residency(k));
    text += fmt::format("  bytes      {} read, {} written, {:.1f} us predicted\n", k.choice.bytes_read,
                        k.choice.bytes_written, k.choice.predicted_us);
    for (const Refusal& r : k.choice.refused)
      text += fmt::format("  refused    {}: {}\n", to_string(r.schedule), r.reason);
    for (const std::string& n : node_names(simplified, k.region)) text += fmt::format("  node       {}\n", n);
  }
  for (const Cut& cut : cuts) {
    text += fmt::format("\ncut {} -> {}: {}\n", node_name(simplified, cut.from),
                        node_name(simplified, cut.to), compiler::text(cut.reason));
  }
  return text;
}

std::string Compilation::explain_json() const {
  Json root;
  root["kernels"] = Json::array();
  for (const CompiledKernel& k : kernels) {
    Json domain;
    domain["kept"] = Json::object();
    domain["reduced"] = Json::object();
    for (const IndexVar& v : k.region.kept)
      domain["kept"][k.region.var_names[static_cast<std::size_t>(v.id)]] = v.extent;
    for (const IndexVar& v : k.region.reduced)
      domain["reduced"][k.region.var_names[static_cast<std::size_t>(v.id)]] = v.extent;
    domain["count"] = k.region.domains();
    domain["size"] = k.region.domain_size();
    Json refused = Json::array();
    for (const Refusal& r : k.choice.refused)
      refused.push_back({{"schedule", to_string(r.schedule)}, {"reason", r.reason}});
    root["kernels"].push_back({{"name", k.region.name},
                               {"nodes", node_names(simplified, k.region)},
                               {"domain", std::move(domain)},
                               {"phases", k.region.phases()},
                               {"schedule", to_string(k.choice.schedule)},
                               {"refused", std::move(refused)},
                               {"residency", residency(k)},
                               {"bytes_read", k.choice.bytes_read},
                               {"bytes_written", k.choice.bytes_written},
                               {"predicted_us", k.choice.predicted_us}});
  }
  root["cuts"] = Json::array();
  for (const Cut& c : cuts) {
    root["cuts"].push_back({{"from", node_name(simplified, c.from)},
                            {"to", node_name(simplified, c.to)},
                            {"reason", compiler::text(c.reason)}});
  }
  root["bytes_min"] = bytes_min();
  root["bytes_total"] = bytes_total();
  root["target"] = target.name;
  return root.dump(2);
}

std::string Compilation::dump(Stage stage) const {
  std::string text;
  switch (stage) {
    case Stage::graph: return print(graph);
    case Stage::simplified: return print(simplified);
    case Stage::regions:
      for (const CompiledKernel& k : kernels) text += print(k.region, simplified) + "\n";
      return text;
    case Stage::schedule:
      for (const CompiledKernel& k : kernels)
        text += fmt::format("{}: {}\n", k.region.name, to_string(k.choice.schedule));
      return text;
    case Stage::kernel:
      for (const CompiledKernel& k : kernels) text += kernel::print(k.kernel) + "\n";
      return text;
    case Stage::llvm: return llvm;
    case Stage::ptx: return plan.ptx;
  }
  return text;
}

}  // namespace bz

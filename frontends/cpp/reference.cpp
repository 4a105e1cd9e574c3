#include <braze/reference.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>
#include <set>
#include <span>

#include "frontends/cpp/sampling.h"
#include "ir/interpret.h"

namespace bz {
namespace {

constexpr std::int64_t kMostSlices = 64;
constexpr std::size_t kShownSlices = 6;

// For every node, the elements of the longest reduction that it depends on.
std::vector<std::int64_t> reduction_lengths(const ir::Graph& graph) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(graph.size()), 1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    std::int64_t& length = lengths[static_cast<std::size_t>(id)];
    for (NodeId operand : n.operands) length = std::max(length, lengths[static_cast<std::size_t>(operand)]);
    const auto* reduce = n.as<ReduceAttrs>();
    if (reduce == nullptr) continue;
    std::int64_t reduced = 1;
    for (int axis : reduce->axes) reduced *= graph.type(n.operands[0]).shape[static_cast<std::size_t>(axis)];
    length = std::max(length, reduced);
  }
  return lengths;
}

const HostTensor& find(const std::map<std::string, HostTensor>& tensors, const std::string& name,
                       const Type& type) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw Error(fmt::format("tensor {} is missing; it is {}", name, to_string(type)));
  if (!(found->second.type() == type)) {
    throw Error(
        fmt::format("tensor {} is {}, got {}", name, to_string(type), to_string(found->second.type())));
  }
  return found->second;
}

// The first, the last, and others at random, in order.
std::vector<std::int64_t> choose_slices(std::int64_t extent, std::int64_t count, std::uint64_t seed) {
  std::set<std::int64_t> chosen = {0, extent - 1};
  std::mt19937_64 random(seed);
  while (static_cast<std::int64_t>(chosen.size()) < std::min(count, extent)) {
    chosen.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent)));
  }
  return {chosen.begin(), chosen.end()};
}

void judge(ReferenceCheck& check, const std::string& name, const HostTensor& actual,
           const ReferenceTensor& expected, std::int64_t reduction_length) {
  CheckedOutput& out = check.outputs.emplace_back();
  out.name = name;
  out.comparison = compare(actual, expected);
  out.tolerance = default_tolerance(actual.type().dtype, reduction_length);
  out.ok = within(out.comparison, out.tolerance);
}

}  // namespace

bool ReferenceCheck::ok() const {
  return std::all_of(outputs.begin(), outputs.end(), [](const CheckedOutput& o) { return o.ok; });
}

std::string ReferenceCheck::text() const {
  std::string text;
  if (!slices.empty()) {
    const auto shown = std::span(slices).first(std::min(slices.size(), kShownSlices));
    text += fmt::format("checked {} of {} slices: {}{}\n", slices.size(), extent, fmt::join(shown, ", "),
                        shown.size() < slices.size() ? fmt::format(", ..., {}", slices.back()) : "");
  }
  for (const CheckedOutput& o : outputs) {
    text += fmt::format("{}: {}, {}\n", o.name, to_string(o.comparison),
                        o.ok ? "ok" : fmt::format("more than the {:.3g} allowed", o.tolerance.relative));
  }
  return text;
}

ReferenceCheck check_outputs(const ir::Graph& graph, const std::map<std::string, HostTensor>& inputs,
                             const std::map<std::string, HostTensor>& outputs, const CheckOptions& options) {
  const std::vector<std::int64_t> lengths = reduction_lengths(graph);
  const auto length_of = [&](const Output& o) { return lengths[static_cast<std::size_t>(o.node)]; };
  ReferenceCheck check;
  const std::int64_t work = work_of(graph);
  if (work <= options.most_work) {
    const std::map<std::string, ReferenceTensor> expected = interpret_reference(graph, inputs);
    for (const Output& o : graph.outputs()) {
      judge(check, o.name, find(outputs, o.name, graph.type(o.node)), expected.at(o.name), length_of(o));
    }
    return check;
  }

  const Sampling sampling(graph);
  check.extent = sampling.extent();
  const std::int64_t affordable = options.most_work / std::max<std::int64_t>(work / check.extent, 1);
  check.slices =
      choose_slices(check.extent, std::clamp<std::int64_t>(affordable, 2, kMostSlices), options.seed);
  const ir::Graph small = sampling.graph(static_cast<std::int64_t>(check.slices.size()));
  std::map<std::string, HostTensor> some;
  for (NodeId id : graph.inputs()) {
    const std::string& name = graph.node(id).as<InputAttrs>()->name;
    some.emplace(name, sampling.input(id, find(inputs, name, graph.type(id)), check.slices));
  }
  const std::map<std::string, ReferenceTensor> expected = interpret_reference(small, some);
  for (const Output& o : graph.outputs()) {
    const HostTensor& actual = find(outputs, o.name, graph.type(o.node));
    judge(check, o.name, take(actual, 0, check.slices), expected.at(o.name), length_of(o));
  }
  return check;
}

}  // namespace bz

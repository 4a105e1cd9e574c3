#include <braze/reference.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <span>

#include "frontends/cpp/sampling.h"
#include "ir/interpret.h"

namespace bz {
namespace {

constexpr std::int64_t kMostSlices = 64;
constexpr std::size_t kShownSlices = 6;

// What a node's value went through.
struct Way {
  std::int64_t length = 1;   // elements of the longest reduction
  double fast_error = 0;     // sum over the operations that fast_math approximates
  double arithmetic = 0;     // spacing of the coarsest type that was computed in
  double rounded = 0;        // sum of the spacings of the 16-bit types that it was rounded to
  bool is_rounded = false;   // as it is, to its own type
  bool is_relative = false;  // its errors are relative to its size
};

bool is_16_bit(DType t) { return is_float(t) && compute_dtype(t) != t; }

// Of exponentials of inputs, less a maximum of theirs, which are right where they are large, and of sums, products and quotients of these. A
// computed exponent is rounded by its own size, and what is rounded to 16 bits on the way by a step of that type.
bool is_relative(const ir::Graph& graph, const Node& n, const std::vector<Way>& ways) {
  const auto operand = [&](const Node& of, std::size_t i) -> const Node& {
    const Node* o = &graph.node(of.operands[i]);
    const auto is_same = [&] {  // but for its place, and its type where that tells all numbers apart
      const auto* map = o->as<MapAttrs>();
      if (map == nullptr || map->op != ScalarOp::cast) return o->kind() == NodeKind::view;
      const DType from = graph.type(o->operands[0]).dtype, to = o->type.dtype;
      return is_float(from) && is_float(to) && size_of(to) > size_of(from);
    };
    while (is_same()) o = &graph.node(o->operands[0]);
    return *o;
  };
  const auto* reduce = n.as<ReduceAttrs>();
  const auto* map = n.as<MapAttrs>();
  if (map != nullptr && map->op == ScalarOp::exp) {
    const Node& difference = operand(n, 0);
    const auto* sub = difference.as<MapAttrs>();
    if (sub == nullptr || sub->op != ScalarOp::sub) return false;
    const Node& subtracted = operand(difference, 1);
    const auto* largest = subtracted.as<ReduceAttrs>();
    return largest != nullptr && largest->monoid == Monoid::max &&
           operand(difference, 0).kind() == NodeKind::leaf && operand(subtracted, 0).kind() == NodeKind::leaf;
  }
  const bool keeps =
      n.kind() == NodeKind::view || (reduce != nullptr && reduce->monoid == Monoid::sum) ||
      (map != nullptr && (map->op == ScalarOp::mul || map->op == ScalarOp::div || map->op == ScalarOp::cast));
  return keeps && is_float(n.type.dtype) && std::all_of(n.operands.begin(), n.operands.end(), [&](NodeId id) {
           const Way& way = ways[static_cast<std::size_t>(id)];
           const bool steps = way.is_rounded && is_16_bit(graph.type(id).dtype) && n.kind() != NodeKind::view;
           return way.is_relative && !steps;
         });
}

// The root mean square of the finite elements, up to 1.
double size_of_all(const std::vector<double>& elements) {
  double squares = 0;
  std::int64_t finite = 0;
  for (const double e : elements) {
    if (!std::isfinite(e)) continue;
    squares += std::min(1.0, e * e);
    ++finite;
  }
  return finite == 0 ? 1 : std::sqrt(squares / static_cast<double>(finite));
}

std::vector<Way> ways(const ir::Graph& graph) {
  std::vector<Way> ways(static_cast<std::size_t>(graph.size()));
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& n = graph.node(id);
    const DType dtype = n.type.dtype;
    Way& way = ways[static_cast<std::size_t>(id)];
    for (NodeId operand : n.operands) {
      const Way& before = ways[static_cast<std::size_t>(operand)];
      way.length = std::max(way.length, before.length);
      way.fast_error = std::max(way.fast_error, before.fast_error);
      way.arithmetic = std::max(way.arithmetic, before.arithmetic);
      way.rounded = std::max(way.rounded, before.rounded);
    }
    const auto* map = n.as<MapAttrs>();
    if (map != nullptr && compute_dtype(graph.type(n.operands[0]).dtype) == DType::f32)
      way.fast_error += info(map->op).fast_error;
    const bool computes = n.kind() == NodeKind::map || n.kind() == NodeKind::reduce;
    if (computes && is_float(dtype)) way.arithmetic = std::max(way.arithmetic, spacing(compute_dtype(dtype)));
    const bool cast = map != nullptr && map->op == ScalarOp::cast;
    if (cast && is_16_bit(dtype)) way.rounded += spacing(dtype);
    way.is_rounded = n.kind() == NodeKind::view ? ways[static_cast<std::size_t>(n.operands[0])].is_rounded
                                                : cast || n.kind() == NodeKind::leaf;
    way.is_relative = is_relative(graph, n, ways);
    const auto* reduce = n.as<ReduceAttrs>();
    if (reduce == nullptr) continue;
    std::int64_t reduced = 1;
    for (int axis : reduce->axes) reduced *= graph.type(n.operands[0]).shape[static_cast<std::size_t>(axis)];
    way.length = std::max(way.length, reduced);
  }
  return ways;
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
           const ReferenceTensor& expected, const Way& way, bool fast_math) {
  CheckedOutput& out = check.outputs.emplace_back();
  out.name = name;
  out.comparison = compare(actual, expected);
  const DType dtype = actual.type().dtype;
  if (is_float(dtype)) {
    const double stored = is_16_bit(dtype) && !way.is_rounded ? spacing(dtype) : 0;
    out.tolerance = walk_tolerance(way.arithmetic, way.rounded + stored, way.length);
    if (fast_math) out.fast_error = way.fast_error;
  }
  out.tolerance.absolute += out.fast_error;
  out.tolerance.relative += out.fast_error;
  // An element may also be less than the type tells apart, or than fast_math counts as 0.
  if (is_float(dtype) && way.is_relative) {
    const double least = fast_math ? std::max(smallest(dtype), 0x1p-126) : smallest(dtype);
    out.tolerance.absolute = out.tolerance.absolute * size_of_all(expected.f) + least;
  }
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
    const bool fast = o.fast_error > 0;
    std::string verdict = !o.ok  ? fmt::format("more than the {:.3g} allowed", o.tolerance.relative)
                          : fast ? fmt::format("ok within {:.3g}", o.tolerance.relative)
                                 : "ok";
    if (fast) verdict += fmt::format(", {:.3g} of it for fast_math", o.fast_error);
    text += fmt::format("{}: {}, {}\n", o.name, to_string(o.comparison), verdict);
  }
  return text;
}

ReferenceCheck check_outputs(const ir::Graph& graph, const std::map<std::string, HostTensor>& inputs,
                             const std::map<std::string, HostTensor>& outputs, const CheckOptions& options) {
  const std::vector<Way> all = ways(graph);
  const auto way_to = [&](const Output& o) { return all[static_cast<std::size_t>(o.node)]; };
  ReferenceCheck check;
  const std::int64_t work = work_of(graph);
  if (work <= options.most_work) {
    const std::map<std::string, ReferenceTensor> expected = interpret_reference(graph, inputs);
    for (const Output& o : graph.outputs()) {
      judge(check, o.name, find(outputs, o.name, graph.type(o.node)), expected.at(o.name), way_to(o),
            options.fast_math);
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
    judge(check, o.name, take(actual, 0, check.slices), expected.at(o.name), way_to(o), options.fast_math);
  }
  return check;
}

}  // namespace bz

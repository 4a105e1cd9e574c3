#include "ir/interpret.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "ir/interpret/deviations.h"
#include "ir/interpret/reduce.h"
#include "ir/interpret/tape.h"
#include "ir/interpret/values.h"

namespace bz {
namespace {

using interpret_detail::BufferRef;
using interpret_detail::constant_source;
using interpret_detail::iota_source;
using interpret_detail::Source;
using interpret_detail::Tape;

void check_inputs(const ir::Graph& g, const std::map<std::string, HostTensor>& inputs) {
  std::vector<std::string> declared;
  for (NodeId id : g.inputs()) {
    const std::string& name = g.node(id).as<InputAttrs>()->name;
    const auto given = inputs.find(name);
    if (given == inputs.end()) {
      throw Error(fmt::format("input {} is missing; it is {}", name, to_string(g.type(id))));
    }
    if (!(given->second.type() == g.type(id))) {
      throw Error(fmt::format("input {} is {}, got {}", name, to_string(g.type(id)),
                              to_string(given->second.type())));
    }
    declared.push_back(name);
  }
  for (const auto& [name, tensor] : inputs) {
    if (std::find(declared.begin(), declared.end(), name) != declared.end()) continue;
    throw Error(
        fmt::format("there is no input named {}; the inputs are {}", name, fmt::join(declared, ", ")));
  }
}

// Which maps are computed within a later node, and when each value is used last.
struct Schedule {
  explicit Schedule(const ir::Graph& g);
  bool inside(NodeId id) const { return root[static_cast<std::size_t>(id)] != id; }

  std::vector<bool> needed;  // for an output
  std::vector<NodeId> root;  // the node whose evaluation computes this one: itself, or a consumer
  std::vector<std::vector<NodeId>> releases;  // [id]: values used last when `id` is evaluated
};

Schedule::Schedule(const ir::Graph& g)
    : needed(static_cast<std::size_t>(g.size()), false),
      root(static_cast<std::size_t>(g.size())),
      releases(static_cast<std::size_t>(g.size())) {
  constexpr NodeId kSeveral = -2;
  std::vector<NodeId> claim(needed.size(), kNoNode), last_use(needed.size(), kNoNode);
  for (const Output& out : g.outputs()) {
    needed[static_cast<std::size_t>(out.node)] = true;
    claim[static_cast<std::size_t>(out.node)] = kSeveral;
  }
  for (NodeId id = g.size() - 1; id >= 0; --id) {
    const auto n = static_cast<std::size_t>(id);
    const Node& node = g.node(id);
    root[n] = node.kind() == NodeKind::map && claim[n] >= 0 ? claim[n] : id;
    if (!needed[n]) continue;
    releases[static_cast<std::size_t>(std::max(last_use[n], id))].push_back(id);
    for (NodeId operand : node.operands) {
      const auto x = static_cast<std::size_t>(operand);
      needed[x] = true;
      const NodeId claimed = node.kind() == NodeKind::view ? kSeveral : root[n];
      claim[x] = claim[x] == kNoNode || claim[x] == claimed ? claimed : kSeveral;
      last_use[x] = std::max(last_use[x], root[n]);
    }
  }
}

class Interpreter {
 public:
  Interpreter(const ir::Graph& g, const std::map<std::string, HostTensor>& inputs)
      : g_(g), inputs_(inputs), schedule_(g), sources_(static_cast<std::size_t>(g.size())) {
    for (const Output& out : g.outputs()) outputs_of_[out.node].push_back(out.name);
  }

  std::map<std::string, ReferenceTensor> run() {
    for (NodeId id = 0; id < g_.size(); ++id) {
      const auto n = static_cast<std::size_t>(id);
      if (!schedule_.needed[n] || schedule_.inside(id)) continue;
      sources_[n] = evaluate(id);
      const auto outputs = outputs_of_.find(id);
      if (outputs != outputs_of_.end()) {
        for (const std::string& name : outputs->second) results_[name] = read(id);
      }
      for (NodeId done : schedule_.releases[n]) sources_[static_cast<std::size_t>(done)] = {};
    }
    return std::move(results_);
  }

 private:
  const Source& source(NodeId id) const { return sources_[static_cast<std::size_t>(id)]; }

  Source evaluate(NodeId id) const {
    const Node& node = g_.node(id);
    if (const auto* a = node.as<InputAttrs>()) {
      return make_source(std::make_shared<interpret_detail::Buffer>(inputs_.at(a->name)), node.type.shape);
    }
    if (const auto* a = node.as<ConstantAttrs>()) return constant_source(a->value, node.type.shape);
    if (const auto* a = node.as<IotaAttrs>()) return iota_source(node.type.dtype, node.type.shape, a->axis);
    if (const auto* a = node.as<ReduceAttrs>()) return evaluate_reduce(*a, node);
    if (node.kind() == NodeKind::map) return evaluate_map(id);
    const Source& x = source(node.operands[0]);
    if (const auto* a = node.as<PadAttrs>()) return pad(*a, node.type.shape, x);
    if (auto view = strided_view(node, x)) return *view;
    return *strided_view(node, materialize(x));
  }

  Source evaluate_map(NodeId id) const {
    const Type& type = g_.type(id);
    Axes order(type.shape.size());
    std::iota(order.begin(), order.end(), 0);
    const auto inside = [&](NodeId x) { return x == id || schedule_.inside(x); };
    Tape tape(
        g_, std::span(&id, 1), inside, [&](NodeId x) -> const Source& { return source(x); }, order);
    check(tape.present().data == nullptr, "a map has elements that are not there");
    const std::int64_t count = type.elements();
    auto buffer = std::make_shared<interpret_detail::Buffer>(type.dtype, count);
    for (std::int64_t begin = 0; begin < count; begin += interpret_detail::kTile) {
      const std::int64_t run = std::min(interpret_detail::kTile, count - begin);
      tape.run(begin, run);
      copy(tape.result(0), buffer->array().at(begin), run);
    }
    return make_source(std::move(buffer), type.shape);
  }

  Source evaluate_reduce(const ReduceAttrs& attrs, const Node& node) const {
    const Type& operand = g_.type(node.operands[0]);
    Axes order;
    std::int64_t outputs = 1, reduced = 1;
    for (int axis = 0; axis < operand.rank(); ++axis) {
      if (std::binary_search(attrs.axes.begin(), attrs.axes.end(), axis)) continue;
      order.push_back(axis);
      outputs *= operand.shape[static_cast<std::size_t>(axis)];
    }
    for (int axis : attrs.axes) {
      order.push_back(axis);
      reduced *= operand.shape[static_cast<std::size_t>(axis)];
    }
    const auto inside = [&](NodeId x) { return schedule_.inside(x); };
    Tape tape(
        g_, node.operands, inside, [&](NodeId x) -> const Source& { return source(x); }, order);
    BufferRef result = interpret_detail::reduce(attrs, tape, static_cast<int>(node.operands.size()),
                                                operand.dtype, node.type.dtype, outputs, reduced);
    return make_source(std::move(result), node.type.shape);
  }

  ReferenceTensor read(NodeId id) const {
    ReferenceTensor out;
    out.type = g_.type(id);
    const Source copy = materialize(source(id));
    if (is_float(out.type.dtype)) {
      out.f = copy.data->take_floats();
    } else {
      out.i = copy.data->take_integers();
    }
    return out;
  }

  const ir::Graph& g_;
  const std::map<std::string, HostTensor>& inputs_;
  const Schedule schedule_;
  std::vector<Source> sources_;
  std::map<NodeId, std::vector<std::string>> outputs_of_;
  std::map<std::string, ReferenceTensor> results_;
};

}  // namespace

std::map<std::string, ReferenceTensor> interpret_reference(const ir::Graph& g,
                                                           const std::map<std::string, HostTensor>& inputs) {
  check_inputs(g, inputs);
  const std::optional<ir::Graph> corrected = interpret_detail::corrected_deviations(g);
  return Interpreter(corrected ? *corrected : g, inputs).run();
}

std::map<std::string, HostTensor> interpret(const ir::Graph& g,
                                            const std::map<std::string, HostTensor>& inputs) {
  std::map<std::string, HostTensor> out;
  for (const auto& [name, reference] : interpret_reference(g, inputs)) {
    HostTensor tensor(reference.type);
    const bool floating = is_float(reference.type.dtype);
    for (std::int64_t k = 0; k < tensor.elements(); ++k) {
      const auto i = static_cast<std::size_t>(k);
      tensor.set(k, floating ? Scalar::of(reference.type.dtype, reference.f[i])
                             : Scalar::of_int(reference.type.dtype, reference.i[i]));
    }
    out.emplace(name, std::move(tensor));
  }
  return out;
}

}  // namespace bz

#include <braze/executable.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "frontends/cpp/executable_state.h"
#include "frontends/cpp/tuner.h"
#include "runtime/arguments.h"

namespace bz {
namespace {

std::vector<PlanBuffer> arguments_of(const ir::Graph& graph) {
  std::vector<PlanBuffer> arguments;
  for (NodeId id : graph.inputs()) {
    arguments.push_back({graph.node(id).as<InputAttrs>()->name, PlanBuffer::Kind::input, graph.type(id)});
  }
  for (const Output& o : graph.outputs()) {
    arguments.push_back({o.name, PlanBuffer::Kind::output, graph.type(o.node)});
  }
  return arguments;
}

// The tensor given for an input, checked.
const HostTensor& tensor_for(const PlanBuffer& input, const Executable::Tensors& tensors) {
  const auto found = tensors.find(input.name);
  if (found == tensors.end()) {
    throw Error(fmt::format("input {} is missing; it is {}", input.name, to_string(input.type)));
  }
  if (!(found->second.type() == input.type)) {
    throw Error(fmt::format("input {} is {}, got {}", input.name, to_string(input.type),
                            to_string(found->second.type())));
  }
  return found->second;
}

void check_names(const std::vector<PlanBuffer>& arguments, const Executable::Tensors& tensors) {
  std::vector<std::string> names;
  for (const PlanBuffer& b : arguments) {
    if (b.kind == PlanBuffer::Kind::input) names.push_back(b.name);
  }
  for (const auto& [name, tensor] : tensors) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw Error(names.empty() ? fmt::format("there is no input named {}; the program has none", name)
                              : fmt::format("there is no input named {}; the inputs are {}", name,
                                            fmt::join(names, ", ")));
  }
}

}  // namespace

ir::Graph copy_graph(DType dtype, std::int64_t elements) {
  ir::Graph graph("copy");
  graph.output("y", graph.input("x", {dtype, {elements}}));
  return graph;
}

CompileOptions compile_options(const ir::Graph& graph, const Device& device, const Options& options) {
  if (options.tune && options.target)
    throw Error("tuning measures on the device, it cannot be for another target");
  CompileOptions compile;
  compile.target = options.target ? *options.target : device.target();
  compile.schedule = options.schedule;
  compile.fast_math = options.fast_math;
  compile.disabled_passes = options.disabled_passes;
  if (options.tune) compile.measured = tune(graph, compile, device.runtime(), options.progress);
  return compile;
}

// ---- launching ----

Executable::State::State(const ir::Graph& graph, const Device& on, const Options& options)
    : arguments(arguments_of(graph)),
      device(on),
      variants(graph, compile_options(graph, on, options), on.shared_runtime()) {}

void* Executable::State::temporary(StreamHandle stream, std::size_t argument) {
  const auto [at, fresh] = temporaries_.try_emplace({stream, argument});
  if (fresh) at->second = DeviceBuffer(device.runtime(), arguments[argument].bytes());
  return at->second.get();
}

void Executable::State::copy(const Type& type, void* from, void* to, StreamHandle stream) {
  const std::pair key{type.dtype, type.elements()};
  auto found = copiers_.find(key);
  if (found == copiers_.end()) {
    const ir::Graph graph = copy_graph(key.first, key.second);
    Variants copier(graph, compile_options(graph, device, {}), device.shared_runtime());
    found = copiers_.emplace(key, std::move(copier)).first;
  }
  found->second.run(std::array{from, to}, stream);
}

void Executable::State::launch(std::span<void* const> addresses, StreamHandle stream) {
  Plan layout;  // number of arguments, null pointers, alignment to elements and overlaps
  layout.name = variants.widest().graph.name();
  layout.buffers = arguments;
  layout.alignment = 1;
  bind_arguments(layout, addresses, InPlace::allowed);

  std::vector<void*> actual(addresses.begin(), addresses.end());
  std::vector<std::size_t> copied_back;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const PlanBuffer& b = arguments[i];
    if (b.bytes() == 0) {
      actual[i] = nullptr;
      continue;
    }
    const auto begin = addresses.begin(), end = begin + static_cast<std::ptrdiff_t>(i);
    if (b.kind != PlanBuffer::Kind::output || std::find(begin, end, addresses[i]) == end) continue;
    actual[i] = temporary(stream, i);  // an output on its input
    copied_back.push_back(i);
  }
  variants.run(actual, stream);
  for (std::size_t i : copied_back) copy(arguments[i].type, actual[i], addresses[i], stream);
}

// ---- the public class ----

Executable::Executable(std::shared_ptr<State> state) : state_(std::move(state)) {}

Executable::Tensors Executable::run(const Tensors& inputs) {
  check_names(state_->arguments, inputs);
  runtime::Device& device = state_->device.runtime();
  std::vector<DeviceBuffer> buffers;
  std::vector<void*> addresses;
  for (const PlanBuffer& b : state_->arguments) {
    const HostTensor* tensor = b.kind == PlanBuffer::Kind::input ? &tensor_for(b, inputs) : nullptr;
    buffers.emplace_back(device, b.bytes());
    addresses.push_back(buffers.back().get());
    if (tensor != nullptr) device.copy_in(addresses.back(), tensor->data(), b.bytes());
  }
  state_->launch(addresses, nullptr);
  device.synchronize();

  Tensors outputs;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const PlanBuffer& b = state_->arguments[i];
    if (b.kind != PlanBuffer::Kind::output) continue;
    HostTensor tensor(b.type);
    device.copy_out(tensor.data(), addresses[i], b.bytes());
    outputs.emplace(b.name, std::move(tensor));
  }
  return outputs;
}

void Executable::launch(std::span<void* const> addresses, StreamHandle stream) {
  state_->launch(addresses, stream);
}

const Compilation& Executable::compilation() const { return state_->variants.widest(); }
const Device& Executable::device() const { return state_->device; }
std::string Executable::explain() const { return compilation().explain(); }
std::string Executable::explain_json() const { return compilation().explain_json(); }

std::string Executable::dump(Stage stage) const {
  return bz::dump(compilation(), state_->variants.options(), stage);
}

std::string dump(const Compilation& c, CompileOptions options, Stage stage) {
  if (stage != Stage::ptx || !c.target.sim) return c.dump(stage);
  // The simulator runs no PTX: show that of the GPU whose limits it has.
  options.target = *parse_target(fmt::format("sm_{}", c.target.sm));
  return compile(c.graph, options).dump(stage);
}

Executable compile(const ir::Graph& graph, const Device& device, const Options& options) {
  auto state = std::make_shared<Executable::State>(graph, device, options);
  // A program for another target is there to be looked at.
  if (!options.target) state->variants.program(kWidestAlignment);
  return Executable(std::move(state));
}

Executable compile(const Graph& graph, const Device& device, const Options& options) {
  return compile(graph.ir(), device, options);
}

}  // namespace bz

#include "harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ir/verify.h"
#include "support/error.h"

namespace bz::end_to_end {
namespace {

// A device for each seed: opening one starts its threads.
runtime::Device& device_of(std::uint64_t seed) {
  static std::map<std::uint64_t, std::unique_ptr<runtime::Device>> devices;
  const std::uint64_t order = seed % 3;  // 0: ascending
  auto& device = devices[order];
  if (!device) device = open_sim({.seed = order, .workers = 2});
  return *device;
}

int largest_element(const ir::Graph& g) {
  int bytes = 1;
  for (const NodeId id : g.inputs()) bytes = std::max(bytes, size_of(g.type(id).dtype));
  for (const Output& o : g.outputs()) bytes = std::max(bytes, size_of(g.type(o.node).dtype));
  return bytes;
}

void require_bools(const std::string& name, const HostTensor& t) {
  if (t.type().dtype != DType::boolean) return;
  const auto* bytes = static_cast<const unsigned char*>(t.data());
  const auto* wrong = std::find_if(bytes, bytes + t.bytes(), [](unsigned char b) { return b > 1; });
  if (wrong == bytes + t.bytes()) return;
  throw Error(fmt::format("output {}: element {} of bool is the byte {}", name, wrong - bytes, *wrong));
}

// Without the dump of a kernel that follows an error of ours.
std::string brief(const std::exception& e) {
  const std::string text = e.what();
  return dynamic_cast<const InternalError*>(&e) == nullptr ? text : text.substr(0, text.find('\n'));
}

std::vector<Problem> judge_outputs(const ir::Graph& g, const Options& options, const Tensors& got,
                                   const Tensors& inputs) {
  const auto expected = interpret_reference(g, inputs);
  const std::vector<std::int64_t> lengths = reduction_lengths(g);
  std::vector<Problem> wrong;
  for (const Output& o : g.outputs()) {
    const HostTensor& actual = got.at(o.name);
    const ReferenceTensor& reference = expected.at(o.name);
    std::string why;
    if (options.judge) {
      why = options.judge(o.name, actual, reference);
    } else {
      const Comparison c = compare(actual, reference);
      Tolerance t = default_tolerance(c.dtype, lengths[static_cast<std::size_t>(o.node)]);
      t.absolute *= options.tolerance_scale;
      t.relative *= options.tolerance_scale;
      if (!within(c, t)) why = to_string(c);
    }
    if (!why.empty()) wrong.push_back({o, std::move(why)});
  }
  return wrong;
}

}  // namespace

std::unique_ptr<runtime::Device> gpu() {
  std::string why_not;
  std::unique_ptr<runtime::Device> device = best_device(&why_not);
  if (device->kind() == "cuda") return device;
  WARN("not run: " << why_not);
  return nullptr;
}

Tensors complete_inputs(const ir::Graph& g, const Options& options) {
  Tensors all = options.inputs;
  for (const NodeId id : g.inputs()) {
    const std::string& name = g.node(id).as<InputAttrs>()->name;
    // By name, so that a part of the graph gets the same data.
    std::uint64_t hash = options.seed;
    for (const char c : name) hash = hash * 1000003 + static_cast<unsigned char>(c);
    if (!all.contains(name)) all.emplace(name, random_tensor(g.type(id), hash));
  }
  return all;
}

Compilation compile_for_sim(const ir::Graph& g, const Options& options) {
  return compile_for(options.target ? *options.target : *parse_target("sim"), g, options);
}

Compilation compile_for(const Target& target, const ir::Graph& g, const Options& options) {
  CompileOptions compile_options;
  compile_options.target = target;
  compile_options.schedule = options.schedule;
  compile_options.disabled_passes = options.disabled;
  compile_options.fast_math = options.fast_math;
  if (options.misaligned) compile_options.alignment = largest_element(g);
  return compile(g, compile_options);
}

Tensors run(const Compilation& c, const Tensors& inputs, const Options& options) {
  runtime::Device& device = options.device != nullptr ? *options.device : device_of(options.seed);
  const std::unique_ptr<Program> program = device.load(c.plan);
  const std::int64_t shift = options.misaligned ? c.plan.alignment : 0;
  std::vector<DeviceBuffer> memory;
  std::vector<void*> arguments;
  for (const PlanBuffer& b : c.plan.buffers) {
    if (b.kind == PlanBuffer::Kind::temporary) continue;
    memory.emplace_back(device, b.bytes() + shift);
    arguments.push_back(static_cast<std::byte*>(memory.back().get()) + shift);
    if (b.kind == PlanBuffer::Kind::input)
      device.copy_in(arguments.back(), inputs.at(b.name).data(), b.bytes());
  }
  program->run(arguments, nullptr);
  device.synchronize();
  Tensors results;
  std::size_t k = 0;
  for (const PlanBuffer& b : c.plan.buffers) {
    if (b.kind == PlanBuffer::Kind::temporary) continue;
    if (b.kind == PlanBuffer::Kind::output) {
      HostTensor t(b.type);
      device.copy_out(t.data(), arguments[k], b.bytes());
      require_bools(b.name, t);
      results.emplace(b.name, std::move(t));
    }
    ++k;
  }
  return results;
}

std::vector<std::int64_t> reduction_lengths(const ir::Graph& g) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(g.size()), 1);
  for (NodeId id = 0; id < g.size(); ++id) {
    auto& length = lengths[static_cast<std::size_t>(id)];
    for (const NodeId o : g.node(id).operands)
      length = std::max(length, lengths[static_cast<std::size_t>(o)]);
    if (g.node(id).as<ReduceAttrs>() == nullptr) continue;
    const std::int64_t results = std::max<std::int64_t>(1, g.type(id).elements());
    length *= std::max<std::int64_t>(1, g.type(g.node(id).operands[0]).elements() / results);
  }
  return lengths;
}

ir::Graph with_outputs(const ir::Graph& g, const std::vector<Output>& outputs) {
  std::vector<bool> needed(static_cast<std::size_t>(g.size()), false);
  for (const Output& o : outputs) needed[static_cast<std::size_t>(o.node)] = true;
  for (NodeId id = g.size(); id-- > 0;) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    for (const NodeId o : g.node(id).operands) needed[static_cast<std::size_t>(o)] = true;
  }
  ir::Graph part(g.name());
  std::vector<NodeId> to(static_cast<std::size_t>(g.size()), kNoNode);
  for (NodeId id = 0; id < g.size(); ++id) {
    if (!needed[static_cast<std::size_t>(id)]) continue;
    std::vector<NodeId> operands;
    for (const NodeId o : g.node(id).operands) operands.push_back(to[static_cast<std::size_t>(o)]);
    to[static_cast<std::size_t>(id)] = part.copy(g, id, std::move(operands));
  }
  for (const Output& o : outputs) part.output(o.name, to[static_cast<std::size_t>(o.node)]);
  return part;
}

std::vector<Problem> problems(const ir::Graph& g, const Options& options) {
  const Tensors inputs = complete_inputs(g, options);
  try {
    return judge_outputs(g, options, run(compile_for_sim(g, options), inputs, options), inputs);
  } catch (const std::exception& e) {
    std::vector<Problem> all;
    if (g.outputs().size() > 1) {
      for (const Output& o : g.outputs()) {
        for (const Problem& p : problems(with_outputs(g, {o}), options)) all.push_back({o, p.what});
      }
    }
    if (all.empty()) all.push_back({{}, brief(e)});
    return all;
  }
}

bool check(const ir::Graph& g, const Options& options) {
  CHECK_NOTHROW(verify_or_throw(g, "the test"));
  const std::vector<Problem> wrong = problems(g, options);
  if (wrong.empty()) return true;
  std::string text;
  for (const Problem& p : wrong) {
    text += p.output.node == kNoNode ? p.what + "\n" : fmt::format("output {}: {}\n", p.output.name, p.what);
  }
  const Output& first = wrong.front().output;
  const std::string program = print(first.node == kNoNode ? g : with_outputs(g, {first}));
  FAIL_CHECK(fmt::format("{}schedule '{}', {}aligned, seed {}\n{}", text, options.schedule,
                         options.misaligned ? "mis" : "", options.seed, program));
  return false;
}

void check_all_ways(const ir::Graph& g, Options options) {
  if (!check(g, options)) return;
  options.misaligned = true;
  options.seed += 1;
  check(g, options);
}

HostTensor tensor(const Type& type, const std::vector<double>& values) {
  HostTensor t(type);
  bz::check(t.elements() == static_cast<std::int64_t>(values.size()), "as many values as elements");
  for (std::size_t k = 0; k < values.size(); ++k)
    t.set(static_cast<std::int64_t>(k), Scalar::of(type.dtype, values[k]));
  return t;
}

std::vector<double> values(const HostTensor& t) {
  std::vector<double> v;
  for (std::int64_t k = 0; k < t.elements(); ++k) v.push_back(t.value(k));
  return v;
}

std::vector<double> result_of(const std::string& text, const Tensors& inputs) {
  const ir::Graph g = parse(text);
  Options options;
  options.inputs = inputs;
  return values(run(compile_for_sim(g), complete_inputs(g, options)).at(g.outputs().at(0).name));
}

void require_near(const std::vector<double>& got, const std::vector<double>& expected, double relative) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    INFO("element " << k << ": " << got[k] << ", expected " << expected[k]);
    if (std::isnan(expected[k])) {
      CHECK(std::isnan(got[k]));
    } else if (std::isinf(expected[k]) || expected[k] == 0) {
      CHECK(got[k] == expected[k]);
    } else {
      CHECK(std::fabs(got[k] - expected[k]) <= relative * std::fabs(expected[k]));
    }
  }
}

}  // namespace bz::end_to_end

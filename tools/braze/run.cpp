// run: a program on given or random data, optionally checked.
#include <braze/executable.h>
#include <braze/reference.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/interpret.h"
#include "ir/npy.h"
#include "tools/braze/commands.h"
#include "tools/braze/devices.h"
#include "tools/braze/program.h"
#include "tools/braze/write_file.h"

namespace bz::cli {
namespace {

using Tensors = std::map<std::string, HostTensor>;

// Random elements of an input; those of larger tensors repeat with this odd period.
constexpr std::int64_t kRandomElements = (1 << 24) - 3;

std::map<std::string, std::string> assignments(const std::vector<std::string>& texts,
                                               const std::string& flag) {
  std::map<std::string, std::string> all;
  for (const std::string& text : texts) {
    const auto [name, value] = split_assignment(text, flag);
    if (!all.emplace(name, value).second) throw UsageError(fmt::format("{} {} is given twice", flag, name));
  }
  return all;
}

void check_names(const std::map<std::string, std::string>& given, const std::vector<std::string>& known,
                 std::string_view what) {
  for (const auto& [name, path] : given) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Error(known.empty() ? fmt::format("there is no {0} named {1}; the program has none", what, name)
                              : fmt::format("there is no {0} named {1}; the {0}s are {2}", what, name,
                                            fmt::join(known, ", ")));
  }
}

HostTensor random_input(const Type& type, std::uint64_t seed) {
  if (type.elements() <= kRandomElements) return random_tensor(type, seed);
  const HostTensor block = random_tensor({type.dtype, {kRandomElements}}, seed);
  HostTensor tensor(type);
  auto* to = static_cast<char*>(tensor.data());
  for (std::size_t at = 0; at < tensor.bytes(); at += block.bytes()) {
    std::memcpy(to + at, block.data(), std::min(block.bytes(), tensor.bytes() - at));
  }
  return tensor;
}

Tensors make_inputs(const ir::Graph& graph, const std::map<std::string, std::string>& files,
                    std::uint64_t seed) {
  Tensors inputs;
  std::uint64_t number = 0;
  for (NodeId id : graph.inputs()) {
    const std::string& name = graph.node(id).as<InputAttrs>()->name;
    const Type& type = graph.type(id);
    const auto file = files.find(name);
    HostTensor tensor = file == files.end() ? random_input(type, seed * 1000003 + number)
                                            : read_npy(file->second, type.dtype);
    ++number;
    if (!(tensor.type() == type)) {
      throw Error(fmt::format("input {} is {}, {} has {}", name, to_string(type), file->second,
                              to_string(tensor.type())));
    }
    inputs.emplace(name, std::move(tensor));
  }
  return inputs;
}

Tensors compute(const ir::Graph& graph, const Tensors& inputs, const RunFlags& flags, std::ostream& err) {
  if (flags.device == "interp") return interpret(graph, inputs);
  const Options options = device_options(flags.program, flags.tune, err);
  return compile(graph, open_device(flags.device), options).run(inputs);
}

std::string summary(const std::string& name, const HostTensor& t) {
  constexpr std::int64_t kShown = 6;
  std::vector<std::string> first;
  for (std::int64_t i = 0; i < std::min(kShown, t.elements()); ++i) first.push_back(to_string(t.get(i)));
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest, total = 0;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    const double v = t.value(i);
    lowest = std::isnan(v) || v < lowest ? v : lowest;
    highest = std::isnan(v) || v > highest ? v : highest;
    total += v;
  }
  for (double* v : {&lowest, &highest, &total}) *v = std::isnan(*v) ? std::abs(*v) : *v;  // no "-nan"
  std::string text = fmt::format("{}: {}", name, to_string(t.type()));
  if (t.elements() == 0) return text + "\n";
  text += fmt::format(", min {:.6g}, max {:.6g}, mean {:.6g}: [{}{}]\n", lowest, highest,
                      total / static_cast<double>(t.elements()), fmt::join(first, ", "),
                      t.elements() > kShown ? ", ..." : "");
  return text;
}

}  // namespace

void run(const RunFlags& flags, std::ostream& out, std::ostream& err) {
  const std::map<std::string, std::string> given = assignments(flags.inputs, "--in");
  const std::map<std::string, std::string> wanted = assignments(flags.outputs, "--out");
  const ir::Graph graph = load_program(flags.program);
  std::vector<std::string> input_names, output_names;
  for (NodeId id : graph.inputs()) input_names.push_back(graph.node(id).as<InputAttrs>()->name);
  for (const Output& o : graph.outputs()) output_names.push_back(o.name);
  check_names(given, input_names, "input");
  check_names(wanted, output_names, "output");
  std::map<std::string, std::string> file_of;
  for (const auto& [name, path] : wanted) {
    if (const auto [other, fresh] = file_of.emplace(path, name); !fresh)
      throw UsageError(fmt::format("--out {} is given for outputs {} and {}", path, other->second, name));
  }

  const Tensors inputs = make_inputs(graph, given, flags.seed);
  const Tensors outputs = compute(graph, inputs, flags, err);

  std::string text;
  if (wanted.empty()) {
    for (const std::string& name : output_names) text += summary(name, outputs.at(name));
  }
  if (flags.check) {
    CheckOptions options;
    options.seed = flags.seed;
    options.fast_math = flags.program.fast_math;
    const ReferenceCheck check = check_outputs(graph, inputs, outputs, options);
    if (!check.ok()) throw Error("the result is wrong\n" + check.text());
    text += check.text();
  }
  std::vector<std::pair<std::string, const HostTensor*>> files;
  for (const auto& [name, path] : wanted) files.emplace_back(path, &outputs.at(name));
  write_tensors(files);
  out << text;
}

}  // namespace bz::cli

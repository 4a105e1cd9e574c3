#include "trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <sstream>

#include "compiler/pass.h"
#include "enclosure.h"
#include "random_graph.h"
#include "shrink.h"

namespace bz::end_to_end {
namespace {

constexpr std::string_view kMark = "# trial ";

Target target_of(const runtime::Device* device, const Trial& trial) {
  Target target = device != nullptr ? device->target() : *parse_target("sim");
  if (trial.wide) target.multiprocessors = 100000;
  // Programs here are small: as if they did not fit, loads have hints.
  if (trial.seed % 3 == 0) target.l2_bytes = 0;
  return target;
}

Options options_of(const Trial& trial, runtime::Device* device) {
  Options options;
  options.seed = trial.seed;
  options.misaligned = trial.misaligned;
  options.disabled = trial.disabled;
  options.schedule = trial.schedule;
  options.device = device;
  return options;
}

Scalar special_value(DType t, Dice& dice) {
  static constexpr double kFloats[] = {
      kNan, kInf,  -kInf,  0.0,  -0.0,  0x1p-149, -0x1p-149, 1e-40, 0x1p-126,  1e-30,
      1e30, -1e30, 1.7e38, 3e38, -3e38, 65504,    1e-7,      -6e-8, 88.8,      -104,
      0.5,  2.5,   -1.5,   1,    -1,    16777217, 1e10,      -1e5,  0x1p-1074, 1e300};
  static constexpr std::int64_t kIntegers[] = {std::numeric_limits<std::int64_t>::min(),
                                               std::numeric_limits<std::int64_t>::max(),
                                               std::numeric_limits<std::int32_t>::min(),
                                               std::numeric_limits<std::int32_t>::max(),
                                               0,
                                               1,
                                               -1,
                                               1000000007};
  return is_float(t) ? Scalar::of(t, dice.pick(kFloats)) : Scalar::of_int(t, dice.pick(kIntegers));
}

bool compiles(const ir::Graph& g, const CompileOptions& options) {
  try {
    compile(g, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What is wrong, without the values: a program that is made smaller must keep its fault, not find another.
std::string kind_of(const std::string& wrong) { return wrong.substr(0, wrong.find_first_of(":[\n")); }

// The same trial with less in it, while it fails.
Trial simplified(Trial trial, const std::function<bool(const Trial&)>& fails) {
  const auto without = [&](auto clear) {
    Trial less = trial;
    clear(less);
    if (fails(less)) trial = std::move(less);
  };
  without([](Trial& t) { t.random_schedule = false; });
  without([](Trial& t) { t.misaligned = false; });
  without([](Trial& t) { t.wide = false; });
  without([](Trial& t) { t.disabled.clear(); });
  without([](Trial& t) { t.special = 0; });
  return trial;
}

}  // namespace

Trial random_trial(std::uint64_t seed) {
  Dice dice(seed + 77);
  Trial t;
  t.seed = seed;
  if (dice.one_in(3)) {
    static constexpr int kShares[] = {2, 16, 200, 200, 1000};
    t.special = dice.pick(kShares);
  }
  t.misaligned = dice.one_in(4);
  t.wide = dice.one_in(4);
  t.random_schedule = dice.one_in(2);
  if (dice.one_in(4)) {
    for (const std::string& pass : pass_names()) {
      if (dice.one_in(2)) t.disabled.push_back(pass);
    }
  }
  return t;
}

Trial with_schedule(Trial trial, const ir::Graph& g, runtime::Device* device) {
  if (!trial.random_schedule) return trial;
  Dice dice(trial.seed);
  CompileOptions options;
  options.target = target_of(device, trial);
  options.disabled_passes = trial.disabled;
  options.last = Stage::schedule;
  for (const CompiledKernel& k : compile(g, options).kernels) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      static constexpr std::string_view kKeep[] = {"nothing", "registers", "shared"};
      // The other stages of a kernel follow the one that is forced.
      const compiler::Region& stage = k.group.stages[dice.below(k.group.stages.size())];
      static constexpr std::string_view kParameters[] = {"memory", "shared", "registers"};
      const std::string one =
          !stage.reduced.empty() && dice.one_in(3)
              ? fmt::format(
                    "lanes=reduced,vector={},reduced={},unroll={},gang={},lag={},prefetch={},parameters={},"
                    "align={},keep=shared",
                    1 << dice.below(4), 32 << dice.below(3), 1 << dice.below(5), 2 << dice.below(4),
                    1 + dice.below(4), 1 << dice.below(3), dice.pick(kParameters), 16 << dice.below(4))
          : stage.reduced.empty() && dice.one_in(2)
              ? fmt::format("lanes=kept,vector={},kept={},unroll={},tile={}", 1 << dice.below(5),
                            1 << dice.below(9), 1 << dice.below(4), 1 << dice.below(8))
              : fmt::format("lanes={},vector={},kept={},reduced={},unroll={},cluster={},{}{}keep={}",
                            dice.one_in(2) ? "reduced" : "kept", 1 << dice.below(4), 1 << dice.below(7),
                            1 << dice.below(9), 1 << dice.below(4), dice.one_in(3) ? 1 << dice.below(5) : 1,
                            dice.one_in(3) ? fmt::format("prefetch={},", 1 << dice.below(4)) : "",
                            dice.one_in(3) ? fmt::format("spill={},", 1 + dice.below(12)) : "",
                            dice.pick(kKeep));
      options.schedule = fmt::format("{}{}:{};", trial.schedule, stage.name, one);
      if (!compiles(g, options)) continue;
      trial.schedule = options.schedule;
      break;
    }
  }
  return trial;
}

std::string to_string(const Trial& t) {
  std::string text = fmt::format("{}seed={}", kMark, t.seed);
  if (t.special != 0) text += fmt::format(" special={}", t.special);
  if (t.misaligned) text += " misaligned";
  if (t.wide) text += " wide";
  if (!t.disabled.empty()) text += fmt::format(" disable={}", fmt::join(t.disabled, ","));
  if (!t.schedule.empty()) text += " schedule=" + t.schedule;
  return text;
}

Trial parse_trial(const std::string& line) {
  if (!line.starts_with(kMark)) throw Error(fmt::format("expected '{}...', got '{}'", kMark, line));
  Trial t;
  std::istringstream words(line.substr(kMark.size()));
  for (std::string word; words >> word;) {
    const std::string key = word.substr(0, word.find('=')), value = word.substr(word.find('=') + 1);
    if (key == "seed") {
      t.seed = std::stoull(value);
    } else if (key == "special") {
      t.special = std::stoi(value);
    } else if (key == "misaligned") {
      t.misaligned = true;
    } else if (key == "wide") {
      t.wide = true;
    } else if (key == "schedule") {
      t.schedule = value;
    } else if (key == "disable") {
      std::istringstream names(value);
      for (std::string name; std::getline(names, name, ',');) t.disabled.push_back(name);
    } else {
      throw Error(fmt::format("a trial has no '{}'", word));
    }
  }
  return t;
}

Tensors inputs_of(const ir::Graph& g, const Trial& trial) {
  Tensors inputs = complete_inputs(g, options_of(trial, nullptr));
  if (trial.special == 0) return inputs;
  for (auto& [name, tensor] : inputs) {
    std::uint64_t hash = trial.seed;
    for (const char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
    Dice dice(hash);
    if (dice.one_in(3)) continue;
    for (std::int64_t k = 0; k < tensor.elements(); ++k) {
      if (dice.one_in(trial.special)) tensor.set(k, special_value(tensor.type().dtype, dice));
    }
  }
  return inputs;
}

std::string attempt(const ir::Graph& g, const Trial& trial, runtime::Device* device) {
  const Tensors inputs = inputs_of(g, trial);
  Tensors got;
  try {
    const Options options = options_of(trial, device);
    got = run(compile_for(target_of(device, trial), g, options), inputs, options);
  } catch (const std::exception& e) {
    return e.what();
  }
  for (const auto& [name, expected] : enclose(g, inputs, Arithmetic::own)) {
    if (const std::string wrong = outside(expected, got.at(name)); !wrong.empty()) return name + wrong;
  }
  const auto reference = interpret_reference(g, inputs);
  for (const auto& [name, expected] : enclose(g, inputs, Arithmetic::reference)) {
    if (const std::string wrong = outside(expected, reference.at(name)); !wrong.empty())
      return "interpreter: " + name + wrong;
  }
  return "";
}

std::string report(const ir::Graph& g, Trial trial, const std::string& wrong, runtime::Device* device) {
  const std::string kind = kind_of(wrong);
  const auto outcome = [&](const ir::Graph& program, const Trial& t) {
    try {
      return attempt(program, with_schedule(t, program, device), device);
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
  };
  trial = simplified(trial, [&](const Trial& less) { return kind_of(outcome(g, less)) == kind; });
  const ir::Graph small =
      shrink(g, [&](const ir::Graph& candidate) { return kind_of(outcome(candidate, trial)) == kind; });
  const std::string what = outcome(small, trial);
  return fmt::format("shrunk: {}\n{}\n{}", what.substr(0, what.find('\n')),
                     to_string(with_schedule(trial, small, device)), print(small));
}

}  // namespace bz::end_to_end

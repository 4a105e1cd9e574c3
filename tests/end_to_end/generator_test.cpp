// Random programs: their text, the graph passes and the compiled kernels all mean what the interpreter says.
//
//   BRAZE_SEED=17 braze-tests "random programs*"     one program
//   BRAZE_GRAPHS=100000 braze-tests "random*"        more of them
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "compiler/pass.h"
#include "harness.h"
#include "ir/verify.h"
#include "random_graph.h"
#include "shrink.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

std::vector<std::uint64_t> seeds(std::uint64_t usual) {
  if (const char* one = std::getenv("BRAZE_SEED")) return {std::strtoull(one, nullptr, 10)};
  if (const char* number = std::getenv("BRAZE_GRAPHS")) usual = std::strtoull(number, nullptr, 10);
  std::vector<std::uint64_t> all;
  for (std::uint64_t k = 1; k <= usual; ++k) all.push_back(k);
  return all;
}

using References = std::map<std::string, ReferenceTensor>;

// How far each element of each output moves under noise of the size of roundings.
class Sensitivity {
 public:
  Sensitivity(const ir::Graph& g, const Tensors& inputs, const References& expected)
      : noisy_(with_noise(g)), inputs_(inputs), expected_(expected) {
    for (const auto& [name, t] : expected) {
      moved_[name].assign(static_cast<std::size_t>(t.type.elements()), 0);
    }
  }

  void run(std::uint64_t trials) {
    for (; trials > 0; --trials, ++trial_) {
      Tensors in = inputs_;
      for (const NodeId id : noisy_.inputs()) {
        const std::string& name = noisy_.node(id).as<InputAttrs>()->name;
        if (is_noise(name)) in.emplace(name, noise_tensor(noisy_.type(id), trial_, name));
      }
      for (const auto& [name, t] : interpret_reference(noisy_, in)) {
        std::vector<double>& moved = moved_.at(name);
        const ReferenceTensor& expected = expected_.at(name);
        for (std::size_t i = 0; i < moved.size(); ++i) {
          const double a = t.value(static_cast<std::int64_t>(i)),
                       b = expected.value(static_cast<std::int64_t>(i));
          const double by = a == b || (std::isnan(a) && std::isnan(b)) ? 0 : std::fabs(a - b);
          moved[i] = std::isnan(by) ? kInf : std::max(moved[i], by);
        }
      }
    }
  }
  double moved(const std::string& output, std::int64_t i) const {
    return moved_.at(output)[static_cast<std::size_t>(i)];
  }

 private:
  const ir::Graph noisy_;
  const Tensors& inputs_;
  const References& expected_;
  std::map<std::string, std::vector<double>> moved_;
  std::uint64_t trial_ = 0;
};

// Whether f32 can hold every intermediate result: the interpreter's float64 holds more.
bool stays_in_range(const ir::Graph& g, const Tensors& inputs) {
  ir::Graph all = g;
  for (NodeId id = 0; id < all.size(); ++id) {
    if (is_float(all.type(id).dtype)) all.output("node" + std::to_string(id), id);
  }
  for (const auto& [name, t] : interpret_reference(all, inputs)) {
    for (const double v : t.f) {
      if (std::isfinite(v) && (std::fabs(v) > 1e12 || (v != 0 && std::fabs(v) < 1e-25))) return false;
    }
  }
  return true;
}

// A float wider than its storage: results of 16 bits, and casts to them, may be one of theirs apart.
double spacing(DType t) {
  switch (t) {
    case DType::f64: return 0x1p-48;
    case DType::f32: return 0x1p-19;
    case DType::f16: return 0x1p-9;
    case DType::bf16: return 0x1p-6;
    default: return 0;
  }
}

// Elements that differ by more than rounding explains; `got(name, i)` is the value under test.
template <class Got>
std::string difference(const References& expected, Sensitivity& sensitivity, bool exact_arithmetic,
                       const Got& got) {
  for (int attempt = 0;; ++attempt) {
    std::string wrong;
    for (const auto& [name, t] : expected) {
      for (std::int64_t i = 0; i < t.type.elements() && wrong.empty(); ++i) {
        const double a = got(name, i), b = t.value(i);
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double relative = exact_arithmetic ? 1e-11 : spacing(t.type.dtype);
        const double moved = sensitivity.moved(name, i);
        const double allowed = relative * (is_float(t.type.dtype) ? std::fabs(b) + 1e-3 : 0) + 16 * moved;
        if (std::fabs(a - b) <= allowed || moved == kInf) continue;
        // Past the range of 16 bits.
        if (std::isinf(a) && std::fabs(b) >= 65504 && t.type.dtype == DType::f16) continue;
        wrong = fmt::format("{}[{}] is {}, expected {} ({} under noise)", name, i, a, b, moved);
      }
    }
    if (wrong.empty() || attempt == 2) return wrong;
    // Perhaps it is a step that a rounding jumps over, and no noise so far did.
    sensitivity.run(attempt == 0 ? 12 : 60);
  }
}

// Nothing, or what is wrong with the program.
using Trial = std::function<std::string(const ir::Graph& g)>;

Tensors inputs_of(const ir::Graph& g) { return complete_inputs(g, {}); }

// Random schedules for the kernels that can have them; the others keep what was chosen.
std::string random_schedules(const ir::Graph& g, std::uint64_t seed) {
  Dice dice(seed);
  CompileOptions options;
  options.target = *parse_target("sim");
  options.last = Stage::schedule;
  std::string text;
  for (const CompiledKernel& k : compile(g, options).kernels) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const compiler::Schedule s{.lanes_reduced = dice.one_in(2),
                                 .vector = 1 << dice.below(4),
                                 .threads_kept = 1 << dice.below(7),
                                 .threads_reduced = 1 << dice.below(9),
                                 .unroll = 1 << dice.below(4),
                                 .keep = static_cast<compiler::Keep>(dice.below(3))};
      // The other stages of a kernel follow the one that is forced.
      const compiler::Region& region = k.group.stages[dice.below(k.group.stages.size())];
      if (compiler::refuse(region, s, options.target)) continue;
      text += fmt::format("{}: {}; ", region.name, to_string(s));
      break;
    }
  }
  return text;
}

std::string simulator_trial(const ir::Graph& g, std::uint64_t seed) {
  const Tensors inputs = inputs_of(g);
  Tensors got;
  try {
    Options options;
    options.seed = seed;
    options.misaligned = seed % 4 == 0;
    if (seed % 2 == 0) options.schedule = random_schedules(g, seed);
    got = run(compile_for_sim(g, options), inputs, options);
  } catch (const std::exception& e) {
    return e.what();
  }
  if (!stays_in_range(g, inputs)) return "";
  const References expected = interpret_reference(g, inputs);
  Sensitivity sensitivity(g, inputs, expected);
  sensitivity.run(3);
  return difference(expected, sensitivity, false,
                    [&](const std::string& name, std::int64_t i) { return got.at(name).value(i); });
}

std::string passes_trial(const ir::Graph& g) {
  const Tensors inputs = inputs_of(g);
  const References expected = interpret_reference(g, inputs);
  Sensitivity sensitivity(g, inputs, expected);
  sensitivity.run(2);
  ir::Graph now = g;
  Target target = *parse_target("sim");
  target.multiprocessors = 100000;  // split what can be split
  for (const compiler::GraphPass& pass : compiler::graph_passes()) {
    try {
      now = pass.run(now, target);
      verify_or_throw(now, pass.name);
    } catch (const std::exception& e) {
      return fmt::format("{}: {}", pass.name, e.what());
    }
    const References got = interpret_reference(now, inputs);
    const std::string wrong =
        difference(expected, sensitivity, true,
                   [&](const std::string& name, std::int64_t i) { return got.at(name).value(i); });
    if (!wrong.empty()) return fmt::format("after {}: {}", pass.name, wrong);
  }
  return "";
}

void report(std::uint64_t seed, const ir::Graph& g, const Trial& trial, const std::string& wrong) {
  const ir::Graph small = shrink(g, [&](const ir::Graph& candidate) { return !trial(candidate).empty(); });
  FAIL_CHECK(fmt::format("BRAZE_SEED={}: {}\nshrunk: {}\n{}", seed, wrong, trial(small), print(small)));
}

void try_all(std::uint64_t usual, const std::function<std::string(const ir::Graph&, std::uint64_t)>& trial) {
  int failures = 0;
  for (const std::uint64_t seed : seeds(usual)) {
    const ir::Graph g = random_graph(seed);
    const std::string wrong = trial(g, seed);
    CHECK(wrong.empty());
    if (wrong.empty()) continue;
    report(
        seed, g, [&](const ir::Graph& candidate) { return trial(candidate, seed); }, wrong);
    if (++failures == 5) break;
  }
}

}  // namespace

TEST_CASE("random programs are what their text says") {
  for (const std::uint64_t seed : seeds(1000)) {
    const ir::Graph g = random_graph(seed);
    const std::string text = print(g);
    INFO("BRAZE_SEED=" << seed << "\n" << text);
    CHECK_NOTHROW(verify_or_throw(g, "the generator"));
    const ir::Graph again = parse(text);
    CHECK(same(g, again));
    CHECK(print(again) == text);
  }
}

TEST_CASE("random programs mean the same after every graph pass") {
  try_all(1000, [](const ir::Graph& g, std::uint64_t) { return passes_trial(g); });
}

TEST_CASE("most random programs have numbers that f32 holds, and results that rounding leaves alone") {
  int in_range = 0, programs = 0;
  std::int64_t elements = 0, firm = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed, ++programs) {
    const ir::Graph g = random_graph(seed);
    const Tensors inputs = inputs_of(g);
    if (!stays_in_range(g, inputs)) continue;
    ++in_range;
    const References expected = interpret_reference(g, inputs);
    Sensitivity sensitivity(g, inputs, expected);
    sensitivity.run(3);
    for (const auto& [name, t] : expected) {
      for (std::int64_t i = 0; i < t.type.elements(); ++i) {
        ++elements;
        if (!std::isnan(t.value(i)) && sensitivity.moved(name, i) <= 1e-4 * (1 + std::fabs(t.value(i))))
          ++firm;
      }
    }
  }
  INFO(in_range << " of " << programs << " programs, " << firm << " of " << elements << " elements");
  CHECK(in_range > programs * 3 / 4);
  CHECK(firm > elements * 3 / 4);
}

TEST_CASE("random programs compute what the interpreter computes") {
  try_all(500, [](const ir::Graph& g, std::uint64_t seed) { return simulator_trial(g, seed); });
}

TEST_CASE("random programs become PTX for the oldest and the newest target") {
  for (const std::string target : {"sm_75", "sm_120"}) {
    CompileOptions options;
    options.target = *parse_target(target);
    for (const std::uint64_t seed : seeds(60)) {
      INFO("BRAZE_SEED=" << seed << ", " << target);
      const Compilation c = compile(random_graph(seed + 5000), options);
      CHECK(c.plan.ptx.find(".extern .func") == std::string::npos);
    }
  }
}

TEST_CASE("a failing program is shrunk to what makes it fail") {
  const auto has_exp = [](const ir::Graph& g) {
    for (NodeId id = 0; id < g.size(); ++id) {
      if (g.node(id).op_name() == "exp") return true;
    }
    return false;
  };
  const ir::Graph big = parse(
      "graph b { %x = input f32[6, 70] %y = softmax %x {axes = [1]} %z = tanh %y"
      " %s = sum %z {axes = [0]} output %s output %y }");
  const ir::Graph small = shrink(big, has_exp);
  INFO(print(small));
  CHECK(has_exp(small));
  CHECK(small.size() == 2);
  CHECK(small.outputs().size() == 1);
  CHECK(small.type(0).elements() == 1);
}

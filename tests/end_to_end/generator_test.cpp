// Random programs: their text, the graph passes, the interpreter and the compiled kernels all mean the same. What
// they may compute is an enclosure of every element (enclosure.h), not a tolerance.
//
//   braze-tests "[random]"                           the usual few hundred
//   BRAZE_RANDOM=1..20000 braze-tests "random programs compute*"
//   BRAZE_RANDOM=17 braze-tests "random programs run on a GPU"
//
// A program that fails is printed with its number, made small, as the text of a file for found/.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/pass.h"
#include "compiler/simplify/index_operands.h"
#include "enclosure.h"
#include "ir/verify.h"
#include "random_graph.h"
#include "shrink.h"
#include "trial.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// The numbers of BRAZE_RANDOM, or the first `usual`.
std::vector<std::uint64_t> seeds(std::uint64_t usual) {
  std::uint64_t first = 1, last = usual;
  if (const char* range = std::getenv("BRAZE_RANDOM")) {
    char* end = nullptr;
    first = last = std::strtoull(range, &end, 10);
    if (std::string_view(end).starts_with("..")) last = std::strtoull(end + 2, &end, 10);
    if (*end != 0 || end == range)
      throw Error(fmt::format("BRAZE_RANDOM is '{}', expected N or N..M", range));
  }
  std::vector<std::uint64_t> all;
  for (std::uint64_t k = first; k <= last; ++k) all.push_back(k);
  return all;
}

// The interpreter on the graph after each pass, held against the enclosure of the graph before all.
std::string passes_attempt(const ir::Graph& g, const Trial& trial) {
  const Tensors inputs = inputs_of(g, trial);
  const auto expected = enclose(g, inputs, Arithmetic::reference);
  ir::Graph now = index_operands(g);
  Target target = *parse_target("sim");
  target.multiprocessors = 100000;  // split what can be split
  for (const compiler::GraphPass& pass : compiler::graph_passes()) {
    try {
      now = pass.run(now, target);
      verify_or_throw(now, pass.name);
    } catch (const std::exception& e) {
      return fmt::format("{}: {}", pass.name, e.what());
    }
    const auto got = interpret_reference(now, inputs);
    for (const auto& [name, e] : expected) {
      if (const std::string wrong = outside(e, got.at(name)); !wrong.empty())
        return fmt::format("after {}: {}{}", pass.name, name, wrong);
    }
  }
  return "";
}

void try_passes(std::uint64_t seed) {
  const ir::Graph g = random_graph(seed);
  const Trial trial = random_trial(seed);
  const std::string wrong = passes_attempt(g, trial);
  if (wrong.empty()) return;
  const ir::Graph small =
      shrink(g, [&](const ir::Graph& candidate) { return !passes_attempt(candidate, trial).empty(); });
  fmt::print(stderr, "BRAZE_RANDOM={}: {}\nshrunk: {}\n{}\n{}\n", seed, wrong, passes_attempt(small, trial),
             to_string(trial), print(small));
  FAIL_CHECK("BRAZE_RANDOM=" << seed << ": " << wrong);
}

// Five failures are enough to read.
void try_all(std::uint64_t usual, runtime::Device* device) {
  const std::vector<std::uint64_t> all = seeds(usual);
  const auto start = std::chrono::steady_clock::now();
  int failures = 0;
  for (std::size_t k = 0; k < all.size() && failures < 5; ++k) {
    const ir::Graph g = random_graph(all[k]);
    const Trial trial = with_schedule(random_trial(all[k]), g, device);
    const std::string wrong = attempt(g, trial, device);
    CHECK(wrong.empty());
    if (wrong.empty()) continue;
    ++failures;
    // Not through Catch, which breaks lines.
    fmt::print(stderr, "BRAZE_RANDOM={}: {}\n", all[k], wrong.substr(0, wrong.find('\n')));
    fmt::print(stderr, "{}\n", report(g, random_trial(all[k]), wrong, device));
  }
  if (std::getenv("BRAZE_RANDOM") == nullptr) return;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  fmt::print(stderr, "{} programs, {:.1f} a second\n", all.size(),
             static_cast<double>(all.size()) / took.count());
}

}  // namespace

TEST_CASE("random programs are what their text says", "[random]") {
  for (const std::uint64_t seed : seeds(1000)) {
    const ir::Graph g = random_graph(seed);
    const std::string text = print(g);
    INFO("BRAZE_RANDOM=" << seed << "\n" << text);
    CHECK_NOTHROW(verify_or_throw(g, "the generator"));
    const ir::Graph again = parse(text);
    CHECK(same(g, again));
    CHECK(print(again) == text);
  }
}

TEST_CASE("random programs mean the same after every graph pass", "[random]") {
  for (const std::uint64_t seed : seeds(1000)) try_passes(seed);
}

TEST_CASE("most elements of random programs have narrow enclosures", "[random]") {
  std::int64_t elements = 0, narrow = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const ir::Graph g = random_graph(seed);
    for (const auto& [name, e] : enclose(g, inputs_of(g, random_trial(seed)), Arithmetic::own)) {
      elements += static_cast<std::int64_t>(e.elements.size());
      for (const Range& r : e.elements) {
        const bool wide = r.empty() || r.nan || r.hi - r.lo > 1e-4L * (1 + std::fabs(r.lo));
        narrow += wide ? 0 : 1;
      }
    }
  }
  INFO(narrow << " of " << elements << " elements");
  CHECK(narrow > elements * 3 / 4);
}

TEST_CASE("random programs compute what their enclosures hold", "[random]") { try_all(400, nullptr); }

TEST_CASE("random programs run on a GPU", "[random][gpu]") {
  const auto device = gpu();
  if (device == nullptr) return;
  try_all(200, device.get());
}

TEST_CASE("programs that once failed", "[random]") {
  for (const auto& entry : std::filesystem::directory_iterator(BRAZE_SOURCE_DIR "/tests/end_to_end/found")) {
    INFO(entry.path().string());
    std::ifstream file(entry.path());
    std::string line;
    std::getline(file, line);
    std::ostringstream program;
    program << file.rdbuf();
    CHECK(attempt(parse(program.str()), parse_trial(line)) == "");
  }
}

TEST_CASE("random programs become PTX for the oldest and the newest target", "[random]") {
  for (const std::string target : {"sm_75", "sm_120"}) {
    CompileOptions options;
    options.target = *parse_target(target);
    for (const std::uint64_t seed : seeds(60)) {
      INFO("BRAZE_RANDOM=" << seed << ", " << target);
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

// Compiles a graph for the simulator, runs it and judges every output by the float64 interpreter.
//
//   check(parse("graph g { %x = input f32[3, 5] %y = softmax %x {axes = [1]} output %y }"));
//   check(g, {.inputs = {{"x", x}}, .schedule = "lanes=reduced,reduced=32", .misaligned = true});
//
// The simulator checks what kernels do to memory and to each other (docs/simulator.md) and orders threads by
// `seed`. Many outputs in one graph cost one
// compilation; when it fails, each is compiled alone, so that the message names the one to blame.
#pragma once

#include <catch2/catch.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "runtime/runtime.h"

namespace bz::end_to_end {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Tensors = std::map<std::string, HostTensor>;
// What is wrong with an output; "" for nothing.
using Judge = std::function<std::string(const std::string& output, const HostTensor& got,
                                        const ReferenceTensor& expected)>;

struct Options {
  Tensors inputs;        // those not given are random_tensor()
  std::string schedule;  // for every kernel
  // Buffers at addresses that are multiples of the largest element's size and of nothing more.
  bool misaligned = false;
  std::uint64_t seed = 1;             // of the order of threads, and of random inputs
  Judge judge;                        // instead of default_tolerance() of dtype and reduction length
  double tolerance_scale = 1;         // times default_tolerance()
  std::vector<std::string> disabled;  // graph passes
  bool fast_math = false;
  runtime::Device* device = nullptr;  // instead of a simulator
  std::optional<Target> target = {};  // what is compiled for, instead of the simulator's own
};

// A CUDA device for a test that needs one; null, with a warning that it is not run, where there is none.
std::unique_ptr<runtime::Device> gpu();

Tensors complete_inputs(const ir::Graph& g, const Options& options);
Compilation compile_for_sim(const ir::Graph& g, const Options& options = {});
Compilation compile_for(const Target& target, const ir::Graph& g, const Options& options);
// Runs in the simulator, or on the device of the options. Outputs of bool are checked to be 0 or 1 in memory.
Tensors run(const Compilation& c, const Tensors& inputs, const Options& options = {});

// The longest chain of reductions that ends at each node, as the number of elements that meet in one of the
// node's.
std::vector<std::int64_t> reduction_lengths(const ir::Graph& g);
// The graph with only these outputs, and what they need.
ir::Graph with_outputs(const ir::Graph& g, const std::vector<Output>& outputs);

struct Problem {
  Output output;  // without a node: the outputs are right alone, and wrong together
  std::string what;
};
// One for each output that is wrong, or that cannot be compiled or run.
std::vector<Problem> problems(const ir::Graph& g, const Options& options = {});
// Fails the test with every problem and the program of the first; returns whether there was none.
bool check(const ir::Graph& g, const Options& options = {});
// The same as given, misaligned, and in another order of the threads.
void check_all_ways(const ir::Graph& g, Options options = {});

// A tensor of these values.
HostTensor tensor(const Type& type, const std::vector<double>& values);
std::vector<double> values(const HostTensor& t);
// Compiles and runs `text`, whose one output is returned.
std::vector<double> result_of(const std::string& text, const Tensors& inputs);
// Values that agree to `relative`, NaN and infinities as they are.
void require_near(const std::vector<double>& got, const std::vector<double>& expected, double relative);

}  // namespace bz::end_to_end

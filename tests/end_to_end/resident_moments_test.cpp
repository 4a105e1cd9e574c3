// Mean, variance and norms of rows that stay in registers, where the moments are taken in three sums (schedule/resident.h):
// as from one pass over the row, also where sums, differences or squares overflow.
#include <fmt/format.h>

#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

constexpr std::string_view kProgram = R"(graph g {{
  %x = input {0}[4, {1}]
  %m = mean %x {{axes = [1]}}
  %v = var %x {{axes = [1], correction = 0}}
  %y = layer_norm %x {{axes = [1], eps = 1e-05}}
  output %m
  output %v
  output %y
}})";

constexpr std::string_view kRegisters = "lanes=reduced,vector=4,reduced=32,unroll=2,keep=registers";
constexpr std::string_view kNothing = "lanes=reduced,vector=4,reduced=32,unroll=2,keep=nothing";

ir::Graph program(std::string_view type, int width) { return parse(fmt::format(kProgram, type, width)); }

HostTensor rows(int width, const std::function<double(int)>& element) {
  std::vector<double> x;
  for (int row = 0; row < 4; ++row) {
    for (int i = 0; i < width; ++i) x.push_back(element((i + 3 * row) % width));
  }
  return tensor({DType::f32, {4, width}}, x);
}

Tensors with_schedule(const ir::Graph& g, std::string_view schedule, const HostTensor& x) {
  Options options;
  options.schedule = schedule;
  return run(compile_for_sim(g, options), {{"x", x}}, options);
}

}  // namespace

TEST_CASE("moments of a domain in registers are three sums") {
  Options options;
  options.schedule = kRegisters;
  const Compilation c = compile_for_sim(program("f32", 200), options);
  const std::string text = kernel::print(c.kernels.at(0).kernel);
  CHECK(text.find("moments") == std::string::npos);
  CHECK(text.find("# phase 1: sum sum") != std::string::npos);
  options.schedule = kNothing;
  CHECK(kernel::print(compile_for_sim(program("f32", 200), options).kernels.at(0).kernel).find("moments") !=
        std::string::npos);
}

TEST_CASE("rows in registers have their mean, variance and norm") {
  for (const std::string_view type : {"f32", "bf16", "f64"}) {
    for (const int width : {2, 31, 200, 1023}) {
      Options options;
      options.schedule = kRegisters;
      INFO(type << ", width " << width);
      check_all_ways(program(type, width), options);
    }
  }
}

// Softmax of 16 bits takes exponentials relative to the largest element of each thread: of a much larger first element that would be
// infinite.
TEST_CASE("moments of exponentials that are each thread's own have no first element") {
  constexpr int kWidth = 256;
  const std::vector<std::function<double(int)>> kinds = {
      [](int i) { return i == 0 ? 0.0 : -100.0; },
      [](int i) { return -static_cast<double>(i); },
      [](int i) { return static_cast<double>(i); },
      [](int i) { return i == 0 ? -kInf : i * 0.01; },
  };
  for (const std::string_view type : {"f16", "bf16", "f32"}) {
    const ir::Graph g = parse(fmt::format(
        "graph g {{ %x = input {}[2, {}] %p = softmax %x {{axes = [1]}} %y = layer_norm %p {{axes = [1]}} "
        "%v = var %p {{axes = [1]}} output %y output %v }}",
        type, kWidth));
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      std::vector<double> x;
      for (int i = 0; i < 2 * kWidth; ++i) x.push_back(kinds[k](i % kWidth));
      for (const std::string_view schedule : {kRegisters, kNothing}) {
        Options options;
        options.schedule = schedule;
        options.inputs = {{"x", tensor(g.type(0), x)}};
        INFO(type << ", rows of kind " << k << ", " << schedule);
        check(g, options);
      }
    }
  }
}

TEST_CASE("rows in registers keep small steps on large means, whatever the first element is") {
  constexpr int kWidth = 257;
  for (const double mean : {1e4, 1e6, 1e7}) {
    for (const double first : {mean, 0.0, -mean}) {
      const auto step = [](int i) { return static_cast<double>((i * 37) % 16 - 8); };
      const HostTensor x = rows(kWidth, [&](int i) { return i == 0 ? first : mean + step(i); });
      Options options;
      options.schedule = kRegisters;
      options.inputs = {{"x", x}};
      options.tolerance_scale = 0.25;
      INFO("mean " << mean << ", first element " << first);
      check(program("f32", kWidth), options);
    }
  }
}

TEST_CASE("rows in registers have the infinities and NaN of rows read once") {
  constexpr int kWidth = 200;
  const auto one = [](int at, double value) {
    return [=](int i) { return i == at ? value : static_cast<double>(i % 7); };
  };
  const std::vector<std::function<double(int)>> kinds = {
      [](int) { return 3e38; },
      [](int) { return -3.4028234e38; },
      [](int i) { return i % 2 == 0 ? 3e38 : 1e38; },
      [](int i) { return i % 2 == 0 ? 1e30 : -1e30; },
      [](int) { return kInf; },
      [](int i) { return i % 2 == 0 ? kInf : -kInf; },
      [](int i) { return i * 1e-39; },
      [](int) { return -0.0; },
      one(0, kInf),
      one(5, -kInf),
      one(0, kNan),
      one(199, kNan),
      one(7, 3e38),
      [](int i) { return i == 0 ? 3e38 : -3e38; },  // farther from the first than all numbers
  };
  const ir::Graph g = program("f32", kWidth);
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const HostTensor x = rows(kWidth, kinds[k]);
    const Tensors got = with_schedule(g, kRegisters, x), expected = with_schedule(g, kNothing, x);
    for (const char* output : {"m", "v", "y"}) {
      INFO("rows of kind " << k << ", output " << output);
      require_near(values(got.at(output)), values(expected.at(output)), 2e-5);
    }
  }
}

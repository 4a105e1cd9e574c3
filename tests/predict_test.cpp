// The model against measurements: what was faster on an H200 (2026-11, f32) is predicted to be.
#include "compiler/schedule/predict.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "compiler/compile.h"
#include "ir/parse.h"

using namespace bz;  // NOLINT

namespace {

Compilation schedule(const std::string& text, const std::string& schedule = "") {
  CompileOptions options;
  options.target = *parse_target("sm_90");
  options.schedule = schedule;
  options.last = Stage::schedule;
  return compile(parse(text), options);
}

// Milliseconds of the last kernel.
double predicted(const std::string& text, const std::string& by_hand) {
  return 1e3 * schedule(text, by_hand).kernels.back().choices.back().seconds();
}

std::string softmax(std::int64_t rows, std::int64_t width) {
  return fmt::format("graph g {{\n %x = input f32[{}, {}]\n %y = softmax %x {{axes = [1]}}\n output %y\n}}",
                     rows, width);
}

std::string log_softmax(std::int64_t rows, std::int64_t width) {
  return fmt::format(
      "graph g {{\n %x = input f32[{}, {}]\n %y = log_softmax %x {{axes = [1]}}\n output %y\n}}", rows,
      width);
}

std::string in_registers(int threads, int cluster) {
  return fmt::format("lanes=reduced,vector=4,reduced={},unroll=4,cluster={},keep=registers", threads,
                     cluster);
}

// The tail of GroupNorm, whose statistics are inputs.
constexpr const char* kTail = R"(graph g {
  %x = input f32[128, 64, 15876]
  %m = input f32[128, 64, 1]
  %v = input f32[128, 64, 1]
  %gamma = input f32[1, 64, 1]
  %beta = input f32[1, 64, 1]
  %mb = broadcast %m {shape = [128, 64, 15876], dims = [0, 1, 2]}
  %vb = broadcast %v {shape = [128, 64, 15876], dims = [0, 1, 2]}
  %gb = broadcast %gamma {shape = [128, 64, 15876], dims = [0, 1, 2]}
  %bb = broadcast %beta {shape = [128, 64, 15876], dims = [0, 1, 2]}
  %d = sub %x, %mb
  %n = mul %d, %vb
  %s = mul %n, %gb
  %a = add %s, %bb
  %t = tanh %a
  %h = hardswish %t
  %r = add %x, %h
  %y = logsumexp %r {axes = [1]}
  output %y
})";

std::string tail(int vector, int unroll) {
  return fmt::format("lanes=kept,vector={},kept=128,unroll={}", vector, unroll);
}

void check_order(const std::string& text, const std::vector<std::string>& fastest_first) {
  for (std::size_t i = 1; i < fastest_first.size(); ++i) {
    INFO(fastest_first[i - 1] << " before " << fastest_first[i]);
    CHECK(predicted(text, fastest_first[i - 1]) < predicted(text, fastest_first[i]));
  }
}

// Within a part of what was measured, in milliseconds.
void check_near(double predicted, double measured) {
  INFO(measured << " ms measured");
  CHECK(predicted == Approx(measured).epsilon(0.25));
}

}  // namespace

TEST_CASE("predict: rows in the registers of a cluster") {
  // Two blocks a multiprocessor, then one.
  check_order(softmax(4096, 65536), {in_registers(256, 4), in_registers(512, 2)});
  check_order(softmax(682, 393216), {in_registers(256, 16), in_registers(512, 8)});
  check_order(log_softmax(682, 393216), {in_registers(256, 16), in_registers(512, 8)});
  check_near(predicted(softmax(4096, 65536), in_registers(256, 4)), 0.520);
  check_near(predicted(softmax(4096, 65536), in_registers(256, 8)), 0.522);
  check_near(predicted(softmax(4096, 65536), in_registers(512, 2)), 0.553);
  check_near(predicted(log_softmax(682, 393216), in_registers(256, 16)), 0.558);
  check_near(predicted(log_softmax(682, 393216), in_registers(512, 8)), 0.581);
  check_near(predicted(softmax(682, 393216), in_registers(256, 16)), 0.541);
  check_near(
      predicted(softmax(262144, 1024), "lanes=reduced,vector=4,kept=8,reduced=32,unroll=4,keep=registers"),
      0.516);
}

TEST_CASE("predict: rows that registers and shared memory keep together") {
  check_near(predicted(softmax(256, 1048576),
                       "lanes=reduced,vector=4,kept=1,reduced=512,unroll=4,cluster=16,prefetch=1,spill=16,"
                       "keep=registers"),
             0.655);
  check_near(
      predicted(log_softmax(256, 1048576),
                "lanes=reduced,vector=4,reduced=512,unroll=4,cluster=16,prefetch=1,spill=16,keep=registers"),
      0.612);
  check_near(predicted(softmax(1024, 262144),
                       "lanes=reduced,vector=4,reduced=256,unroll=4,cluster=8,spill=16,keep=registers"),
             0.544);
}

TEST_CASE("predict: moments alone are three sums where a block keeps the row") {
  const Compilation c =
      schedule("graph g { %x = input f32[65536, 4096] %y = var %x {axes = [1]} output %y }");
  CHECK(c.kernels.at(0).choices.at(0).schedule.keep == compiler::Keep::registers);
}

TEST_CASE("predict: rows that no cluster keeps are read again") {
  const Compilation c = schedule(softmax(128, 1 << 21));
  CHECK(c.kernels.at(0).choices.at(0).schedule.keep == compiler::Keep::nothing);
  check_near(predicted(softmax(256, 1048576), "lanes=reduced,vector=4,reduced=512,unroll=4,keep=nothing"),
             0.795);
}

namespace {

compiler::Schedule chosen(const std::string& shape, std::int64_t axis, const std::string& type) {
  return schedule(fmt::format("graph g {{ %x = input {}{} %y = softmax %x {{axes = [{}]}} output %y }}", type,
                              shape, axis))
      .kernels.at(0)
      .choices.at(0)
      .schedule;
}

}  // namespace

TEST_CASE("predict: short rows have vectors that divide them, and threads that load sectors") {
  for (const std::int64_t width : {12, 21, 37, 50, 64, 100, 128, 150, 770}) {
    for (const auto& [type, bytes] : {std::pair{"f32", 4}, {"bf16", 2}, {"f16", 2}}) {
      const compiler::Schedule s = chosen(fmt::format("[1000000, {}]", width), 1, type);
      INFO(type << " " << width << ": " << to_string(s));
      CHECK(s.keep == compiler::Keep::registers);
      if (bytes == 2 || width <= 128) CHECK(width % s.vector == 0);
      CHECK(std::int64_t{s.vector} * s.threads_reduced * bytes >= std::min<std::int64_t>(8, width * bytes));
      if (width <= 128) CHECK(threads_of(s) == 128);
    }
  }
}

TEST_CASE("predict: columns that no block keeps are those of clusters") {
  CHECK(chosen("[16, 64, 4096]", 1, "f32").cluster == 1);
  CHECK(chosen("[16, 1024, 4096]", 1, "f32").cluster == 8);
  CHECK(chosen("[16, 1024, 4095]", 1, "f32").cluster == 8);
  CHECK(chosen("[32, 1024, 4096]", 1, "bf16").cluster == 4);
  CHECK(chosen("[4, 4096, 4096]", 1, "f16").cluster == 16);
  CHECK(chosen("[8192, 8192]", 0, "f32").keep == compiler::Keep::registers);
}

TEST_CASE("predict: what is listed can be forced by hand") {
  // With an odd inner extent there are no vectors, and many elements to spill; rows of millions are more than can be.
  for (const std::string& program :
       {std::string("graph g { %x = input f32[132, 1201, 2, 1001] %y = var %x {axes = [1, 3]} output %y }"),
        std::string("graph g { %x = input bf16[512, 8388608] %y = softmax %x {axes = [1]} output %y }"),
        softmax(256, 1048576), log_softmax(682, 393216), softmax(8794, 30522)}) {
    for (const CompiledKernel& k : schedule(program).kernels) {
      for (const compiler::Choice& choice : k.choices) {
        for (const compiler::Candidate& c : choice.candidates) {
          INFO(to_string(c.schedule));
          CHECK(compiler::parse_schedule(to_string(c.schedule)) == c.schedule);
        }
      }
    }
  }
}

TEST_CASE("predict: columns") {
  check_order(kTail, {tail(2, 4), tail(2, 2)});
  check_order(kTail, {tail(2, 8), tail(4, 8)});
}

TEST_CASE("predict: blocks of as many threads where vectors are more than an int counts") {
  for (const char* n : {"1048576", "17179869184"}) {
    INFO(n << " elements");
    const Compilation c = schedule(fmt::format("graph g {{ %x = input f32[{}] %y = exp %x output %y }}", n));
    CHECK(threads_of(c.kernels.at(0).choices.at(0).schedule) == 256);
  }
}

TEST_CASE("predict: long chains of pointwise operations are bound by their instructions") {
  const auto chain = [](int operations) {
    std::string text = "graph g {\n %v0 = input f32[8192, 8192]\n";
    for (int i = 0; i < operations; ++i)
      text += fmt::format(" %v{} = {} %v{}\n", i + 1, i % 2 == 0 ? "sin" : "tanh", i);
    return text + fmt::format(" output %v{}\n}}", operations);
  };
  const double few = predicted(chain(2), ""), many = predicted(chain(40), "");
  CHECK(few < 0.2);
  CHECK(many > 1);
}

TEST_CASE("predict: fast_math takes the arithmetic away from rows of 16 bits") {
  const ir::Graph g =
      parse("graph g {\n %x = input bf16[131072, 4096]\n %y = logsumexp %x {axes = [1]}\n output %y\n}");
  CompileOptions options;
  options.target = *parse_target("sm_90");
  options.last = Stage::schedule;
  const double exact = compile(g, options).kernels.at(0).choices.at(0).seconds();
  options.fast_math = true;
  CHECK(compile(g, options).kernels.at(0).choices.at(0).seconds() < 0.9 * exact);
}

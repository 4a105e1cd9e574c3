// Rows that blocks anywhere on the device share (`gang`).
#include <fmt/format.h>

#include "harness.h"
#include "ir/kernel.h"
#include "support/error.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

std::string rows(std::string_view type, std::int64_t count, std::int64_t width, std::string_view statements) {
  return fmt::format(
      "graph g {{ %x = input {0}[{1}, {2}] %gamma = input {0}[{2}] %beta = input {0}[{2}] {3} }}", type,
      count, width, statements);
}

constexpr std::string_view kPrograms[] = {
    "%y = layer_norm %x, %gamma, %beta {axes = [1]} output %y",
    "%y = rms_norm %x, %gamma {axes = [1]} output %y",
    "%y = log_softmax %x {axes = [1]} output %y",
    // Of 16 bits exponentials are relative to what a thread has found.
    "%y = softmax %x {axes = [1]} output %y",
    // Several states of several components, and one number a row.
    "%m = max %x {axes = [1], keepdims = true} %s = sum %x {axes = [1], keepdims = true} %d = sub %x, %m "
    "%y = mul %d, %s output %y output %m",
};

// Programs of several exchanges, and how many.
struct Chain {
  std::string_view statements;
  int exchanges;
};
constexpr Chain kChains[] = {
    // The maximum is needed after the first alone, and the tangents, which are held in place of x, after both.
    {"%m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %t = tanh %d "
     "%s = sum %t {axes = [1], keepdims = true} %y = div %t, %s output %y",
     2},
    // x and the maximum after both.
    {"%m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %q = square %d "
     "%s = sum %q {axes = [1], keepdims = true} %r = div %x, %s %y = add %r, %m output %y output %s",
     2},
    // What the first has found is dead after the second.
    {"%m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %q = square %d "
     "%s = sum %q {axes = [1], keepdims = true} %y = div %x, %s output %y",
     2},
    {"%m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %t = tanh %d %v = var %t {axes = [1], "
     "keepdims = true} "
     "%e = mul %t, %v %n = min %e {axes = [1], keepdims = true} %y = sub %e, %n output %y",
     3},
};

CompiledKernel compiled(const std::string& text, const std::string& schedule) {
  CompileOptions options;
  options.target = *parse_target("sim");
  options.schedule = schedule;
  options.last = Stage::kernel;
  return compile(parse(text), options).kernels.at(0);
}

std::string refusal(const std::string& text, const std::string& schedule) {
  try {
    compile_for_sim(parse(text), {.schedule = schedule});
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("rows are right that a gang shares") {
  std::uint64_t seed = 1;
  for (const std::string_view program : kPrograms) {
    for (const std::string_view type : {"f32", "bf16"}) {
      for (const std::int64_t count : {2, 3, 23}) {
        for (const std::int64_t width : {64, 1000, 4096}) {
          const std::string vector = type == "f32" ? "4" : "8";
          for (const std::string_view form : {"reduced=32,unroll=16,gang=2,prefetch=2,parameters=memory",
                                              "reduced=64,unroll=2,gang=4,lag=1,prefetch=1",
                                              "reduced=32,unroll=4,gang=64,lag=3,prefetch=4"}) {
            Options options;
            options.seed = seed++;
            options.schedule = fmt::format("lanes=reduced,vector={},{},keep=shared", vector, form);
            INFO(program << " of " << type << ", " << count << " x " << width << ", " << options.schedule);
            check(parse(rows(type, count, width, program)), options);
          }
        }
      }
    }
  }
}

TEST_CASE("rows of several exchanges are right that a gang shares") {
  std::uint64_t seed = 1;
  for (const Chain& chain : kChains) {
    for (const std::string_view type : {"f32", "bf16"}) {
      for (const int lag : {1, 2, 3, 4}) {
        Options options;
        options.seed = seed++;
        options.schedule =
            fmt::format("lanes=reduced,vector=4,reduced=32,unroll=4,gang=2,lag={},prefetch={},keep=shared",
                        lag, 1 + lag % 2);
        const std::string text = rows(type, 23, 1000, chain.statements);
        INFO(text << ", " << options.schedule);
        check(parse(text), options);
        CHECK_THAT(kernel::print(compiled(text, options.schedule).kernel),
                   Catch::Contains(fmt::format("and {} more in turns", chain.exchanges * (lag + 1))));
      }
    }
  }
  // Of f32 what is stored in 16 bits has its exponentials in place of its elements.
  const std::string text =
      "graph g { %x = input f32[9, 1000] %s = softmax %x {axes = [1]} %y = cast %s {dtype = bf16} output %y "
      "}";
  const std::string schedule = "lanes=reduced,vector=4,reduced=32,unroll=4,gang=2,prefetch=2,keep=shared";
  Options options;
  options.schedule = schedule;
  check(parse(text), options);
  CHECK_THAT(kernel::print(compiled(text, schedule).kernel), Catch::Contains("own0_0["));
}

TEST_CASE("softmax of f32 by a gang is right, whatever is in a row") {
  constexpr std::int64_t kWidth = 1024;
  const double largest = std::numeric_limits<float>::max();
  // What one element of a row is, and all others, of which the threads of one block have none or some.
  const std::vector<std::pair<double, double>> kinds = {
      {0, -kInf},      {-kInf, 0},       {-kInf, -kInf}, {kInf, 0},  {0, kNan}, {largest, -largest},
      {-largest, 3.5}, {100, 0},         {0, 100},       {-90, 0},   {-200, 0}, {1e-40, -1e-40},
      {kInf, -kInf},   {largest, -kInf}, {88.5, -15.25}, {-5.5, 0.1}};
  std::vector<double> x, expected;
  for (const auto& [one, others] : kinds) {
    for (std::int64_t i = 0; i < kWidth; ++i) x.push_back(round_to(DType::f32, i == 517 ? one : others));
    const double m = std::max(one, others), of_one = std::exp(one - m), of_others = std::exp(others - m);
    const double sum = of_one + of_others * (kWidth - 1);
    const bool is_nan = std::isnan(one) || std::isnan(others) || std::isinf(m);
    for (std::int64_t i = 0; i < kWidth; ++i)
      expected.push_back(is_nan ? kNan : (i == 517 ? of_one : of_others) / sum);
  }
  const auto rows = static_cast<std::int64_t>(kinds.size());
  const ir::Graph g = parse(fmt::format(
      "graph g {{ %x = input f32[{}, {}] %y = softmax %x {{axes = [1]}} output %y }}", rows, kWidth));
  for (const std::string_view form :
       {"reduced=32,unroll=4,gang=4,prefetch=2", "reduced=64,gang=2,prefetch=1"}) {
    Options options;
    options.schedule = fmt::format("lanes=reduced,vector=4,{},keep=shared", form);
    INFO(options.schedule);
    const std::vector<double> got = values(
        run(compile_for_sim(g, options), {{"x", tensor({DType::f32, {rows, kWidth}}, x)}}, options).at("y"));
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i / kWidth, i % kWidth);
      if (std::isnan(expected[i])) {
        REQUIRE(std::isnan(got[i]));
      } else {
        REQUIRE(std::abs(got[i] - expected[i]) <= 6e-7 * expected[i] + 0x1p-148);
      }
    }
  }
}

TEST_CASE("a gang's last group has the vectors that are left") {
  std::uint64_t seed = 1;
  for (const std::string_view type : {"f32", "bf16"}) {
    for (const std::int64_t width : {513, 600, 700, 1030, 1230, 1700, 1793}) {
      for (const std::string_view form : {"unroll=2,gang=2", "unroll=4,gang=2", "unroll=2,gang=4"}) {
        Options options;
        options.seed = seed++;
        options.schedule = fmt::format(
            "lanes=reduced,vector=4,reduced=32,{},prefetch=2,parameters=shared,keep=shared", form);
        INFO(type << ", " << width << ", " << options.schedule);
        check(parse(rows(type, 37, width, kPrograms[0])), options);
      }
    }
  }
}

TEST_CASE("a gang's vectors of 8 elements of 4 bytes lie in two pieces, also those that are left over") {
  std::uint64_t seed = 1;
  for (const std::string_view program : kPrograms) {
    for (const std::int64_t width : {1025, 1100, 1153, 2048}) {
      for (const std::string_view form : {"reduced=64,unroll=1,parameters=memory", "reduced=32,unroll=2"}) {
        Options options;
        options.seed = seed++;
        options.schedule = fmt::format("lanes=reduced,vector=8,{},gang=2,prefetch=2,keep=shared", form);
        INFO(program << ", " << width << ", " << options.schedule);
        check(parse(rows("f32", 37, width, program)), options);
      }
    }
  }
}

TEST_CASE("other threads of a gang have a few vectors that are left over") {
  std::uint64_t seed = 1;
  const auto has_others = [](std::string_view type, std::int64_t width, std::string_view program,
                             const std::string& schedule) {
    const CompiledKernel k = compiled(rows(type, 37, width, program), schedule);
    CHECK(k.kernel.shared_bytes() == compiler::shared_bytes(k.group.stages.at(0), k.choices.at(0).schedule));
    return k.kernel.block == 32 + 3 * 32;
  };
  for (const std::string_view type : {"f32", "bf16"}) {
    for (const std::string_view program : kPrograms) {
      // 256 elements of all threads at once: up to 128 more are left over.
      for (const std::int64_t width : {511, 513, 543, 1025, 1151, 1153}) {
        for (const std::string_view form :
             {"unroll=2,parameters=memory,align=16", "unroll=1,parameters=shared,align=32",
              "unroll=8,parameters=registers,align=64", "unroll=4,parameters=memory"}) {
          Options options;
          options.seed = seed++;
          options.schedule =
              fmt::format("lanes=reduced,vector=4,reduced=32,{},gang=2,prefetch=2,keep=shared", form);
          if (refusal(rows(type, 37, width, program), options.schedule).find("load nothing alike") !=
              std::string::npos)
            continue;
          INFO(program << " of " << type << ", " << width << ", " << options.schedule);
          check(parse(rows(type, 37, width, program)), options);
          const std::int64_t left = width % 256;
          if (form.find("align=16") != std::string_view::npos)
            CHECK(has_others(type, width, program, options.schedule) == (left == 255 || left <= 125));
        }
      }
    }
  }
}

TEST_CASE("a gang's block has the shared memory that was counted") {
  std::vector<std::string_view> programs(std::begin(kPrograms), std::end(kPrograms));
  for (const Chain& chain : kChains) programs.push_back(chain.statements);
  for (const std::string_view program : programs) {
    for (const std::string_view type : {"f32", "bf16"}) {
      for (const std::string_view form :
           {"reduced=32,unroll=2,gang=2,lag=3,prefetch=2", "reduced=64,unroll=8,gang=4,prefetch=1"}) {
        const std::string schedule = fmt::format("lanes=reduced,vector=4,{},keep=shared", form);
        const CompiledKernel k = compiled(rows(type, 9, 1000, program), schedule);
        INFO(program << " of " << type << ", " << schedule);
        CHECK(k.kernel.shared_bytes() ==
              compiler::shared_bytes(k.group.stages.at(0), k.choices.at(0).schedule));
      }
    }
  }
}

TEST_CASE("a gang's block keeps its parameters wherever rows begin") {
  for (const std::string_view parameters : {"shared", "registers"}) {
    for (const std::int64_t width : {1000, 1001, 1002, 1023}) {
      Options options;
      options.schedule = fmt::format(
          "lanes=reduced,vector=4,reduced=32,unroll=16,gang=4,prefetch=2,parameters={},keep=shared",
          parameters);
      INFO(width << ", " << parameters);
      check(parse(rows("f32", 37, width, kPrograms[0])), options);
    }
    // Rows lie farther apart than they are long.
    Options options;
    options.schedule = fmt::format(
        "lanes=reduced,vector=2,reduced=32,gang=2,prefetch=1,parameters={},unroll=4,keep=shared", parameters);
    check(parse("graph g { %x0 = input f32[40, 65] %g = input f32[64] "
                "%x = slice %x0 {starts = [0, 0], stops = [40, 64], steps = [1, 1]} "
                "%y = rms_norm %x, %g {axes = [1]} output %y }"),
          options);
  }
  // The order of the blocks is not that of the rows.
  CHECK_THAT(
      refusal("graph g { %x0 = input f32[3, 2100, 1001] %w = input f32[2100, 1001] %g = input f32[1001] "
              "%x = add %x0, %w %y = rms_norm %x, %g {axes = [2]} output %y }",
              "lanes=reduced,vector=4,reduced=32,unroll=8,gang=2,prefetch=1,parameters=shared,keep=shared"),
      Catch::EndsWith("rows are not aligned, so that a thread is elsewhere in each of them"));
}

TEST_CASE("rows of one number have that mean, however large it is") {
  const ir::Graph g = parse(
      "graph g { %x = input f32[3, 2100] %m = mean %x {axes = [1]} "
      "%v = var %x {axes = [1]} %y = layer_norm %x {axes = [1]} output %m output %v output %y }");
  for (const double value : {3.4028234663852886e38, -3.4028234663852886e38, 3e38, 1e25, 0.1, 1e-40}) {
    const double stored = round_to(DType::f32, value);
    const HostTensor x = tensor({DType::f32, {3, 2100}}, std::vector<double>(6300, stored));
    for (const std::string_view schedule :
         {"lanes=reduced,vector=4,reduced=64,unroll=4,keep=registers",
          "lanes=reduced,vector=4,reduced=32,unroll=4,cluster=2,keep=registers",
          "lanes=reduced,vector=4,reduced=64,unroll=2,keep=nothing",
          "lanes=reduced,vector=4,reduced=32,unroll=4,gang=4,prefetch=1,keep=shared"}) {
      Options options;
      options.schedule = schedule;
      INFO(stored << ", " << schedule);
      const Tensors got = run(compile_for_sim(g, options), {{"x", x}}, options);
      CHECK(values(got.at("m")) == std::vector<double>(3, stored));
      CHECK(values(got.at("v")) == std::vector<double>(3, 0));
      CHECK(values(got.at("y")) == std::vector<double>(6300, 0));
    }
  }
}

TEST_CASE("a gang is refused with the reason") {
  const auto why = [](std::string_view rest, std::string_view program = kPrograms[0],
                      std::string_view type = "f32") {
    return refusal(rows(type, 9, 1000, program), fmt::format("lanes=reduced,vector=4,{}", rest));
  };
  CHECK_THAT(why("reduced=32,gang=2,prefetch=1,keep=registers"),
             Catch::EndsWith("with keep=shared and prefetch=1 or more"));
  CHECK_THAT(why("reduced=32,gang=2,keep=shared"),
             Catch::EndsWith("with keep=shared and prefetch=1 or more"));
  CHECK_THAT(why("reduced=1,gang=2,prefetch=1,keep=shared"),
             Catch::EndsWith("1 threads that share a domain do not fill warps of 32"));
  CHECK_THAT(why("reduced=32,gang=2,cluster=2,prefetch=1,keep=shared"),
             Catch::EndsWith("the blocks of a gang are no clusters"));
  CHECK_THAT(why("reduced=32,kept=2,gang=2,prefetch=1,keep=shared"),
             Catch::EndsWith("the threads of a gang's block are all of one domain"));
  CHECK_THAT(why("reduced=32,gang=2,prefetch=1,keep=shared", "%y = sum %x {axes = [1]} output %y"),
             Catch::EndsWith("no phase follows the last exchange, and a gang's would some turns later"));
  CHECK_THAT(why("reduced=32,gang=2,prefetch=1,keep=shared", kPrograms[1], "f64"),
             Catch::EndsWith("sum of f64 is exchanged, a gang exchanges words of 4 bytes"));
  for (const std::string_view lag : {"0", "9"})
    CHECK_THAT(why(fmt::format("reduced=32,gang=2,lag={},prefetch=1,keep=shared", lag)),
               Catch::Contains(fmt::format("lag={} is not", lag)));
  CHECK_THAT(why("reduced=32,lag=3,keep=registers"),
             Catch::EndsWith("lag=3 is of the blocks of a gang, and there is none"));
  for (const std::string_view align : {"8", "48", "256"})
    CHECK_THAT(why(fmt::format("reduced=32,align={},gang=2,prefetch=1,keep=shared", align)),
               Catch::EndsWith(fmt::format("align={} is not a power of two from 16 to 128", align)));
  CHECK_THAT(why("reduced=32,tile=16,gang=2,prefetch=1,keep=shared"),
             Catch::EndsWith("a tile has all of its elements in one block, not in those of a gang"));
  CHECK_THAT(
      refusal(rows("f32", 9, 1001, kPrograms[0]),
              "lanes=reduced,vector=4,reduced=256,unroll=4,gang=64,prefetch=1,parameters=shared,keep=shared"),
      Catch::Contains("rows of every 32th gang begin alike where 32 elements do, and there is room for"));
  CHECK_THAT(why("reduced=32,gang=3,prefetch=1,keep=shared"),
             Catch::EndsWith("gang=3 is not a power of two from 1 to 128"));
  CHECK_THAT(why("reduced=32,unroll=1,gang=2,prefetch=1,parameters=registers,keep=shared"),
             Catch::EndsWith("parameters stay in registers where they are handled together"));
}

TEST_CASE("how long rows are divided into gangs, with as much under way as a block has room for") {
  const auto chosen = [](std::string_view type, std::int64_t width, std::string_view program,
                         std::string_view target = "sm_90") {
    CompileOptions options;
    options.target = *parse_target(target);
    options.last = Stage::schedule;
    const compiler::Schedule s =
        compile(parse(rows(type, (std::int64_t{1} << 28) / width, width, program)), options)
            .kernels.at(0)
            .schedules()
            .at(0);
    return s.gang == 1 ? std::string()
                       : fmt::format("{} {} {}", s.gang, s.lag, s.prefetch) +
                             (s.align == 128 ? "" : fmt::format(" {}", s.align));
  };
  const std::string_view layer_norm = kPrograms[0], rms_norm = kPrograms[1], log_softmax = kPrograms[2];
  CHECK(chosen("f32", 1 << 16, layer_norm).empty());
  CHECK(chosen("f32", 1 << 18, layer_norm) == "32 4 2");
  CHECK(chosen("f32", 393216, layer_norm) == "64 4 4");
  CHECK(chosen("f32", 1000000, rms_norm) == "128 4 2");
  // Rows of a gang begin alike at as much of a line as 132 blocks allow.
  CHECK(chosen("f32", 65535, layer_norm) == "8 3 2 64");
  CHECK(chosen("bf16", 65535, layer_norm) == "4 2 2 64");
  CHECK(chosen("bf16", 30522, layer_norm) == "4 2 2");
  CHECK(chosen("bf16", 1 << 15, layer_norm) == "4 2 2");
  CHECK(chosen("bf16", 40001, layer_norm).empty());
  CHECK(chosen("f32", 1 << 20, "%s = softmax %x {axes = [1]} %y = mul %s, %gamma output %y") == "128 3 2");
  CHECK(chosen("bf16", 1 << 16, layer_norm) == "4 2 2");
  CHECK(chosen("bf16", 393216, layer_norm) == "64 3 4");
  CHECK(chosen("bf16", 1 << 20, log_softmax) == "128 3 2");
  CHECK(chosen("bf16", 2000000, rms_norm) == "128 3 2");
  CHECK(chosen("bf16", 1 << 16, log_softmax).empty());
}

TEST_CASE("long rows are for gangs on a GPU, with threads that exchange beside the others") {
  CompileOptions options;
  options.target = *parse_target("sm_90");
  options.last = Stage::kernel;
  const Compilation c = compile(parse(rows("f32", 256, 1 << 20, kPrograms[0])), options);
  const kernel::Kernel& k = c.kernels.at(0).kernel;
  CHECK(k.gang);
  CHECK(k.cluster == 128);
  CHECK(k.block == 128 + 64);
  CHECK(c.plan.kernels.at(0).gang);
}

TEST_CASE("a shuffle may be for some warps, not for some lanes") {
  kernel::Kernel k = compiled(rows("f32", 9, 256, kPrograms[1]),
                              "lanes=reduced,vector=4,reduced=32,gang=2,prefetch=1,keep=shared")
                         .kernel;
  CHECK(kernel::verify(k).empty());
  // The bound of the warp that posts no longer falls between warps.
  int changed = 0;
  const std::function<void(kernel::Block&)> narrow = [&](kernel::Block& block) {
    for (kernel::Stmt& s : block) {
      if (auto* f = std::get_if<kernel::For>(&s.op)) narrow(f->body);
      if (auto* t = std::get_if<kernel::Turns>(&s.op)) narrow(t->body);
      if (auto* i = std::get_if<kernel::If>(&s.op)) narrow(i->body);
      auto* inside = std::get_if<kernel::Inside>(&s.op);
      if (inside == nullptr || inside->bounds.size() != 1 || inside->bounds[0].lo != 32 ||
          inside->bounds[0].hi != 64)
        continue;
      inside->bounds[0].hi = 63;
      ++changed;
    }
  };
  narrow(k.body);
  REQUIRE(changed > 0);
  CHECK_THAT(fmt::format("{}", kernel::verify(k).at(0)), Catch::Contains("a shuffle under a condition"));
}

// Faults that softmaxes, norms and reductions of other projects had, as small inputs with their right
// answers. Numerics, and shapes and addresses; fusion and compile time are in fusion_cases_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

Type f32(Shape s) { return {DType::f32, std::move(s)}; }

std::string rows_program(std::string_view statements, std::int64_t rows, std::int64_t width,
                         DType t = DType::f32) {
  return fmt::format("graph p {{ %x = input {}[{}, {}] {} output y = %y }}", name(t), rows, width,
                     statements);
}

std::vector<double> of_rows(std::string_view statements, std::int64_t rows, std::int64_t width,
                            const std::vector<double>& x, DType t = DType::f32) {
  return result_of(rows_program(statements, rows, width, t), {{"x", tensor({t, {rows, width}}, x)}});
}

std::vector<double> of_vector(std::string_view statements, const std::vector<double>& x,
                              DType t = DType::f32) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::string text =
      fmt::format("graph p {{ %x = input {}[{}] {} output y = %y }}", name(t), n, statements);
  return result_of(text, {{"x", tensor({t, {n}}, x)}});
}

std::string message_of(const std::string& text) {
  try {
    parse(text, {.file = "case.braze", .sizes = {}});
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("logsumexp of a row that is all -inf is -inf") {
  require_near(of_rows("%y = logsumexp %x {axes = [1]}", 2, 2, {1, 2, -kInf, -kInf}), {2.3132617, -kInf},
               1e-7);
}

TEST_CASE("idle lanes do not count as zeros: rows far below 0 of every width") {
  for (const std::int64_t width : {1, 2, 3, 17, 31, 32, 33}) {
    HostTensor x = random_tensor(f32({5, width}), 3);
    for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, Scalar::of(DType::f32, x.value(i) * 5 - 200));
    const std::string text =
        "%a = logsumexp %x {axes = [1]} %b = softmax %x {axes = [1]} %m = max %x {axes = [1]} "
        "output %a output %b output %m %y = log_softmax %x {axes = [1]}";
    Options options;
    options.inputs["x"] = x;
    INFO("width " << width);
    check_all_ways(parse(rows_program(text, 5, width)), options);
  }
}

TEST_CASE("max and argmax find the first NaN, wherever it is") {
  require_near(of_rows("%y = max %x {axes = [1]}", 2, 2, {kNan, kInf, kInf, kNan}), {kNan, kNan}, 0);
  require_near(of_rows("%y = argmax %x {axes = [1]}", 2, 2, {kNan, kInf, kInf, kNan}), {0, 1}, 0);
  require_near(of_rows("%y = argmin %x {axes = [1]}", 2, 2, {kNan, -kInf, -kInf, kNan}), {0, 1}, 0);
  for (const std::int64_t width : {64, 1025}) {
    // Row r has NaN at r, and further on in some.
    HostTensor x = random_tensor(f32({width, width}), 8);
    for (std::int64_t r = 0; r < width; ++r) {
      x.set(r * width + r, Scalar::of(DType::f32, kNan));
      if (r % 3 == 0) x.set(r * width + width - 1, Scalar::of(DType::f32, kNan));
    }
    Options options;
    options.inputs["x"] = x;
    const ir::Graph g =
        parse(rows_program("%m = max %x {axes = [1]} %n = min %x {axes = [1]} output %m output %n "
                           "%y = argmax %x {axes = [1]} %z = argmin %x {axes = [1]} output %z",
                           width, width));
    check(g, options);
    const Tensors got = run(compile_for_sim(g), options.inputs);
    for (std::int64_t r = 0; r < width; ++r) {
      if (std::isnan(got.at("m").value(r)) && got.at("y").value(r) == static_cast<double>(r)) continue;
      FAIL_CHECK(fmt::format("row {} of {}: {} at {}", r, width, got.at("m").value(r), got.at("y").value(r)));
    }
  }
}

TEST_CASE("log_softmax subtracts the maximum before the logarithm") {
  require_near(of_rows("%y = log_softmax %x {axes = [1]}", 1, 3, {-1e7, -1e7, -1e7 + 1}),
               {-1.5514447, -1.5514447, -0.5514447}, 1e-6);
}

TEST_CASE("layer_norm of a large mean and of a constant row") {
  require_near(of_rows("%y = layer_norm %x {eps = 1e-05}", 2, 4,
                       {40000, 40001, 40002, 40003, 40000, 40000, 40000, 40000}),
               {-1.341635, -0.447212, 0.447212, 1.341635, 0, 0, 0, 0}, 2e-6);
}

TEST_CASE("layer_norm keeps small steps on large means") {
  for (const std::int64_t width : {16, 41, 1536}) {
    HostTensor x(f32({4, width}));
    const double means[] = {0, 100, 1e3, 1e4};
    for (std::int64_t i = 0; i < x.elements(); ++i) {
      x.set(i, Scalar::of(DType::f32, means[i / width] + static_cast<double>(i % width) * 1e-3));
    }
    Options options;
    options.inputs["x"] = x;
    INFO("width " << width);
    check_all_ways(parse(rows_program("%y = layer_norm %x", 4, width)), options);
  }
}

TEST_CASE("tanh saturates, keeps the sign of zero and NaN") {
  std::vector<double> x = {0.0, -0.0, kNan}, expected = {0.0, -0.0, kNan}, of_fourth = {0.0, 0.0, kNan};
  for (const double v : {9.02, 15.0, 44.5, 88.8, 1e10, kInf}) {
    for (const double sign : {1.0, -1.0}) {
      x.push_back(sign * v);
      expected.push_back(sign);
      of_fourth.push_back(1);
    }
  }
  const std::vector<double> alone = of_vector("%y = tanh %x", x);
  require_near(alone, expected, 1e-7);
  CHECK(!std::signbit(alone[0]));
  CHECK(std::signbit(alone[1]));
  require_near(of_vector("%s = square %x %t = square %s %y = tanh %t", x), of_fourth, 1e-7);
}

TEST_CASE("16-bit means and softmaxes accumulate in f32") {
  require_near(of_vector("%y = mean %x", std::vector<double>(100, 1000), DType::f16), {1000}, 0);
  require_near(of_vector("%y = mean %x", std::vector<double>(70000, 1), DType::bf16), {1}, 0);
  require_near(of_vector("%y = softmax %x {axes = [0]}", std::vector<double>(512, 3), DType::bf16),
               std::vector<double>(512, 1.0 / 512), 0);
}

TEST_CASE("equal values of every type have their mean, and norms of them are zero") {
  for (const DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    INFO(name(t));
    for (const std::int64_t width : {2, 31, 512, 4099}) {
      const std::vector<double> x(static_cast<std::size_t>(width), 1000);
      require_near(of_vector("%y = mean %x", x, t), {1000}, 0);
      require_near(of_vector("%y = var %x", x, t), {0}, 0);
      require_near(of_rows("%y = layer_norm %x", 1, width, x, t), std::vector<double>(x.size(), 0), 0);
      require_near(of_rows("%y = rms_norm %x", 1, width, x, t), std::vector<double>(x.size(), 1), 1e-7);
    }
    const std::vector<double> x(512, -300);
    require_near(of_vector("%y = softmax %x {axes = [0]}", x, t), std::vector<double>(512, 1.0 / 512), 0);
  }
}

TEST_CASE("max and min of infinities in every type, and of the limits of integers") {
  for (const DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    INFO(name(t));
    for (const std::size_t width : {1, 2, 33, 1025}) {
      const std::vector<double> low(width, -kInf), high(width, kInf);
      require_near(of_vector("%y = max %x", low, t), {-kInf}, 0);
      require_near(of_vector("%y = min %x", high, t), {kInf}, 0);
      require_near(of_vector("%y = argmax %x {axes = [0]}", low, t), {0}, 0);
      require_near(of_vector("%y = argmin %x {axes = [0]}", high, t), {0}, 0);
    }
  }
  for (const DType t : {DType::i32, DType::i64}) {
    const double lowest = t == DType::i32 ? -0x1p31 : -0x1p63;
    INFO(name(t));
    require_near(of_vector("%y = max %x", {lowest, lowest, lowest}, t), {lowest}, 0);
    require_near(of_vector("%y = argmax %x {axes = [0]}", {lowest, lowest, lowest}, t), {0}, 0);
  }
}

TEST_CASE("compiled max and min of infinities and of one element") {
  require_near(of_vector("%y = max %x", {-kInf, -kInf}), {-kInf}, 0);
  require_near(of_vector("%y = max %x", {-1}), {-1}, 0);
  require_near(of_vector("%y = min %x", {kInf, kInf}), {kInf}, 0);
}

TEST_CASE("inverse functions are not cancelled: intermediate results overflow") {
  require_near(of_vector("%s = square %x %y = sqrt %s", {1e20}), {kInf}, 0);
  require_near(of_vector("%s = exp %x %y = log %s", {89}), {kInf}, 0);
}

TEST_CASE("hardswish where its formula changes") {
  const float above = std::nextafter(-3.0f, 0.0f), below = std::nextafter(-3.0f, -4.0f);
  const float more = std::nextafter(3.0f, 4.0f), less = std::nextafter(3.0f, 0.0f);
  const std::vector<double> y = of_vector("%y = hardswish %x", {-3, below, above, 3, more, less, 0, -1});
  require_near(
      y,
      {0, 0, static_cast<double>(above) * (static_cast<double>(above) + 3) / 6, 3, more, less, 0, -1.0 / 3},
      3e-7);
}

TEST_CASE("hardswish errs by less than two units in the last place") {
  std::vector<double> x;
  for (float v = -3.0f; v < -2.99f; v = std::nextafter(v, 0.0f)) x.push_back(v);
  for (int i = -3500; i <= 3500; ++i) x.push_back(static_cast<float>(i) * 0.001f);
  for (float v = 1e-30f; v < 1; v *= 1.7f) x.insert(x.end(), {v, -v});
  const std::vector<double> y = of_vector("%y = hardswish %x", x);
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double right = x[i] * std::clamp((x[i] + 3) / 6, 0.0, 1.0);
    if (right == 0) {
      CHECK(y[i] == 0);
    } else {
      most = std::max(most, std::fabs(y[i] - right) / std::ldexp(1.0, std::ilogb(right) - 23));
    }
  }
  CHECK(most < 1.6);
}

TEST_CASE("subnormal numbers are kept") {
  const double tiny = Scalar::of(DType::f32, 1e-40).f;
  for (const std::string_view statement : {"%y = add %x, 0", "%y = mul %x, 1", "%y = max %x, 0",
                                           "%y = sum %x", "%d = mul %x, 2 %y = mul %d, 0.5"}) {
    INFO(statement);
    require_near(of_vector(statement, {tiny}), {tiny}, 0);
  }
}

TEST_CASE("empty tensors: nothing is launched, and nothing is wrong, twice") {
  for (const std::string text :
       {"graph e { %x = input f32[0, 128] %y = layer_norm %x output %y }",
        "graph e { %x = input f32[4, 0] %y = softmax %x {axes = [1]} output %y }",
        "graph e { %x = input f32[0] %z = input f32[0] %y = add %x, %z output %y }",
        "graph e { %x = input f32[0, 5] %y = sum %x {axes = [1]} output %y }",
        "graph e { %x = input f32[3, 0, 2] %y = argmax %x {axes = [2]} output %y }"}) {
    INFO(text);
    const ir::Graph g = parse(text);
    const Compilation c = compile_for_sim(g);
    CHECK(c.plan.kernels.empty());
    for (int round = 0; round < 2; ++round) {
      const Tensors y = run(c, complete_inputs(g, {}));
      CHECK(y.at("y").elements() == 0);
    }
  }
}

TEST_CASE("compiled reductions of no elements") {
  const auto empty_rows = [](std::string_view op, DType t) {
    return of_rows(fmt::format("%y = {} %x {{axes = [1]}}", op), 3, 0, {}, t);
  };
  require_near(empty_rows("sum", DType::f32), {0, 0, 0}, 0);
  require_near(empty_rows("prod", DType::f32), {1, 1, 1}, 0);
  require_near(empty_rows("mean", DType::f32), {kNan, kNan, kNan}, 0);
  require_near(empty_rows("any", DType::boolean), {0, 0, 0}, 0);
  require_near(empty_rows("all", DType::boolean), {1, 1, 1}, 0);
  require_near(empty_rows("logsumexp", DType::f32), {-kInf, -kInf, -kInf}, 0);
  for (const std::string op : {"max", "min", "argmax", "argmin"}) {
    const std::string message = message_of(rows_program(fmt::format("%y = {} %x {{axes = [1]}}", op), 3, 0));
    INFO(message);
    CHECK(contains(message, op));
    CHECK(contains(message, "axis 1"));
  }
}

TEST_CASE("axes count from the end, and are checked for range and duplicates") {
  check(parse(rows_program("%y = softmax %x {axes = [-1]}", 3, 7)));
  for (const std::string op : {"sum", "softmax", "logsumexp"}) {
    const std::string range = message_of(rows_program(fmt::format("%y = {} %x {{axes = [2]}}", op), 3, 7));
    const std::string twice =
        message_of(rows_program(fmt::format("%y = {} %x {{axes = [1, -1]}}", op), 3, 7));
    INFO(range << "\n" << twice);
    CHECK(contains(range, "axis 2 is out of range for rank 2"));
    CHECK(contains(twice, "axes 1 and -1 are the same axis for rank 2"));
  }
}

TEST_CASE("reductions over axes that are not neighbours, of six dimensions") {
  std::string text = "graph axes { %x = input f32[3, 2, 4, 3, 2, 5]\n";
  int k = 0;
  for (const std::string op : {"sum", "max", "logsumexp", "var"}) {
    for (const std::string keepdims : {"true", "false"}) {
      text += fmt::format("%y{0} = {1} %x {{axes = [0, 2, 5], keepdims = {2}}} output %y{0}\n", k++, op,
                          keepdims);
    }
  }
  check_all_ways(parse(text + "%s = softmax %x {axes = [0, 2, 5]} output %s }"));
}

TEST_CASE("every width, on addresses aligned to their elements only") {
  for (const std::int64_t width : {1, 7, 31, 127, 129, 1021, 4095, 4097, 30522, 65535}) {
    for (const DType t : {DType::f32, DType::f16}) {
      if (t == DType::f16 && width != 129 && width != 4097 && width != 65535) continue;
      Options options;
      options.misaligned = true;
      INFO(name(t) << ", width " << width);
      check(parse(rows_program("%y = softmax %x {axes = [1]} %s = add %x, 1 output %s", 3, width, t)),
            options);
    }
  }
  const ir::Graph wide = parse(rows_program("%y = softmax %x {axes = [1]}", 3, 30522));
  check(wide);
}

TEST_CASE("rows of every width shared by clusters, on addresses aligned to their elements only") {
  constexpr std::string_view kRows =
      "%y = log_softmax %x {axes = [1]} %m = argmax %x {axes = [1]} %v = var %x {axes = [1]} output %m "
      "output %v";
  int k = 0;
  for (const std::int64_t width : {5, 129, 4095, 4097, 8191}) {
    for (const int cluster : {2, 4, 16}) {
      const DType t = k % 2 == 0 ? DType::f32 : DType::f16;
      Options options;
      options.misaligned = k % 3 != 0;
      options.seed = static_cast<std::uint64_t>(k++);
      options.schedule =
          fmt::format("lanes=reduced,vector={},reduced=32,unroll=2,cluster={},keep={}", 1 << k % 4, cluster,
                      width > 1000 && cluster < 16 ? "nothing" : "registers");
      INFO(name(t) << ", width " << width << ", " << options.schedule);
      check(parse(rows_program(kRows, 3, width, t)), options);
    }
  }
}

TEST_CASE("rows and columns of every width read ahead, on addresses aligned to their elements only") {
  constexpr std::string_view kRows =
      "%b = input {0}[{1}] %c = add %x, %b %y = softmax %c {{axes = [1]}} %v = var %x {{axes = [1]}} output "
      "%v";
  constexpr std::string_view kSums = "%s = sum %x {axes = [1]} %y = neg %s";
  constexpr std::string_view kColumns = "%y = logsumexp %x {axes = [0]}";
  int k = 0;
  for (const std::int64_t width : {5, 64, 129, 1000, 4097}) {
    for (const std::string_view schedule :
         {"lanes=reduced,vector={},kept=2,reduced=64,unroll=2,prefetch=1,keep=registers",
          "lanes=reduced,vector={},kept=1,reduced=128,unroll=1,prefetch=1,keep=registers",
          "lanes=reduced,vector={},kept=1,reduced=64,unroll=1,cluster=4,prefetch=1,keep=registers",
          "lanes=reduced,vector={},kept=4,reduced=8,unroll=2,prefetch=4,keep=nothing",
          "lanes=reduced,vector={},kept=1,reduced=64,unroll=1,cluster=2,prefetch=2,keep=nothing",
          "lanes=kept,vector=1,kept=32,reduced={},unroll=1,prefetch=2,keep=nothing"}) {
      const DType t = k % 2 == 0 ? DType::f32 : DType::bf16;
      Options options;
      options.misaligned = k % 3 == 1;
      options.seed = static_cast<std::uint64_t>(k++);
      const bool resident = schedule.ends_with("registers"), columns = schedule.starts_with("lanes=kept");
      options.schedule = fmt::format(fmt::runtime(schedule), columns ? 4 : t == DType::f32 ? 4 : 8);
      if (resident && width > 2000) options.schedule.replace(options.schedule.find("unroll="), 8, "unroll=4");
      INFO(name(t) << ", width " << width << ", " << options.schedule);
      const std::string rows = fmt::format(kRows, name(t), width);
      check(parse(rows_program(resident ? rows : std::string(columns ? kColumns : kSums), 11, width, t)),
            options);
    }
  }
}

TEST_CASE("parameters stay in shared memory of blocks that take turns") {
  // One is needed by the first phase, two by the last.
  constexpr std::string_view kRows =
      "%b = input {0}[{1}] %gamma = input {0}[{1}] %beta = input {0}[{1}] %c = add %x, %b "
      "%y = layer_norm %c, %gamma, %beta {{axes = [1]}}";
  int k = 0;
  for (const std::int64_t width : {32, 1000, 4096}) {
    for (const std::string_view form : {"kept=1,reduced=128,unroll=1", "kept=2,reduced=32,unroll=2",
                                        "kept=1,reduced=64,unroll=2,cluster=4"}) {
      const DType t = k % 2 == 0 ? DType::f32 : DType::bf16;
      Options options;
      options.misaligned = k % 3 == 1;
      options.seed = static_cast<std::uint64_t>(k++);
      options.schedule = fmt::format("lanes=reduced,vector={},{},prefetch=1,parameters=shared,keep=registers",
                                     t == DType::f32 ? 4 : 8, form);
      INFO(name(t) << ", width " << width << ", " << options.schedule);
      check(parse(rows_program(fmt::format(kRows, name(t), width), 11, width, t)), options);
    }
  }
  const auto refusal = [](const std::string& rows, std::int64_t width, std::string_view rest) {
    Options options;
    options.schedule = fmt::format("lanes=reduced,vector=4,reduced=128,{}", rest);
    try {
      compile_for_sim(parse(rows_program(rows, 11, width, DType::f32)), options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  constexpr std::string_view kAll = "prefetch=1,parameters=shared,keep=registers";
  const std::string odd = fmt::format(kRows, "f32", 1001), even = fmt::format(kRows, "f32", 1000);
  CHECK_THAT(refusal(odd, 1001, kAll),
             Catch::EndsWith("rows are not aligned, so that a thread is elsewhere in each of them"));
  CHECK_THAT(refusal(even, 1000, "parameters=shared,keep=registers"),
             Catch::EndsWith("with prefetch=1, or of gangs"));
  CHECK_THAT(refusal("%y = softmax %x {axes = [1]}", 1000, kAll),
             Catch::EndsWith("domains load nothing alike along their lanes"));
  CHECK_THAT(refusal(even, 1000, "prefetch=3"),
             Catch::EndsWith("prefetch=3 is not 0 or a power of two from 1 to 16"));
  CHECK(refusal(even, 1000, "prefetch=0,spill=0,keep=registers").empty());
  CHECK_THAT(refusal(even, 1000, "parameters=fast"),
             Catch::EndsWith("parameters=fast is none of memory, shared, registers"));
}

TEST_CASE("rows of every width that registers and shared memory keep together") {
  // Softmax takes exponentials out of the registers too; the variance of a sum has a load beside the one that is copied.
  constexpr std::string_view kPrograms[] = {"%y = softmax %x {{axes = [1]}} %v = neg %y output %v",
                                            "%b = input {0}[{1}] %c = add %x, %b %y = log_softmax %c {{axes "
                                            "= [1]}} %v = layer_norm %x {{axes = [1]}} output %v"};
  int k = 0;
  for (const std::int64_t width : {520, 1000, 1021, 2049}) {
    for (const std::string_view schedule :
         {"lanes=reduced,vector={},kept=1,reduced=32,unroll=1,spill=1,keep=registers",
          "lanes=reduced,vector={},kept=2,reduced=32,unroll=2,spill=2,keep=registers",
          "lanes=reduced,vector={},kept=1,reduced=32,unroll=1,cluster=2,spill=1,keep=registers",
          "lanes=reduced,vector={},kept=1,reduced=32,unroll=1,prefetch=1,spill=2,keep=registers",
          "lanes=reduced,vector=1,kept=1,reduced=64,unroll=2,cluster=2,prefetch=1,spill=3,keep=registers",
          "lanes=reduced,vector=1,kept=2,reduced=64,unroll=4,cluster=2,spill=4,keep=registers"}) {
      for (const std::string_view program : kPrograms) {
        const DType t = k % 2 == 0 ? DType::f32 : DType::bf16;
        Options options;
        options.misaligned = k % 3 == 1;
        options.seed = static_cast<std::uint64_t>(k++);
        options.schedule = fmt::format(fmt::runtime(schedule), t == DType::f32 ? 4 : 8);
        INFO(name(t) << ", width " << width << ", " << options.schedule);
        check(parse(rows_program(fmt::format(fmt::runtime(program), name(t), width), 5, width, t)), options);
      }
    }
  }
}

// Where rows that are not aligned begin late, few threads have any of the last vector.
TEST_CASE("warps without any of the last vector that is spilled do without it") {
  // Whether it is copied under a condition.
  const auto skips = [](std::int64_t width) {
    CompileOptions options;
    options.target = *parse_target("sim");
    options.last = Stage::kernel;
    options.schedule = "lanes=reduced,vector=8,reduced=64,unroll=2,spill=2,keep=registers";
    const ir::Graph g = parse(rows_program("%y = softmax %x {axes = [1]}", 9, width, DType::bf16));
    const std::string text = kernel::print(compile(g, options).kernels.at(0).kernel);
    return contains(text.substr(0, text.find("commit copies")), "  if v");
  };
  // From anywhere in a line of 64 elements: in four vectors of 64 threads and a few elements more, and in four and a half.
  CHECK(skips(2047));
  CHECK_FALSE(skips(2300));
  std::uint64_t seed = 1;
  for (const std::int64_t width : {1535, 2047, 2048, 2052, 2300}) {
    for (const std::string_view rest : {"unroll=2,spill=2", "unroll=1,spill=3", "unroll=2,kept=2,spill=2",
                                        "unroll=1,cluster=2,spill=1", "unroll=1,prefetch=1,spill=2"}) {
      for (const std::string_view program :
           {"%y = softmax %x {axes = [1]}", "%y = log_softmax %x {axes = [1]}",
            "%y = layer_norm %x {axes = [1]}"}) {
        Options options;
        options.seed = seed++;
        options.schedule = fmt::format("lanes=reduced,vector=8,reduced=64,{},keep=registers", rest);
        INFO(program << " of " << width << ", " << options.schedule);
        check(parse(rows_program(program, 9, width, DType::bf16)), options);
      }
    }
  }
}

TEST_CASE("stages over different axes of every width, on addresses aligned to their elements only") {
  for (const std::int64_t width : {1, 5, 16, 33}) {
    for (const DType t : {DType::f32, DType::f16}) {
      const ir::Graph g = parse(fmt::format(
          "graph p {{ %x = input {}[40, 8, {}, 3] %n = group_norm %x {{groups = 4}} %t = tanh %n %r = add "
          "%x, %t "
          "%y = logsumexp %r {{axes = [1]}} %m = argmax %r {{axes = [2, 3]}} output %y output %m }}",
          name(t), width));
      INFO(name(t) << ", width " << width);
      check_all_ways(g);
    }
  }
}

TEST_CASE("more rows than a grid's second dimension could hold") {
  check(parse(rows_program("%y = layer_norm %x", 70001, 8)));
  check(parse("graph r { %x = input f32[70001, 2, 3] %y = sum %x {axes = [1]} output %y }"));
}

TEST_CASE("groups that do not divide the channels are an error that names both") {
  for (const int groups : {0, -1, 3}) {
    const std::string message = message_of(fmt::format(
        "graph g {{ %x = input f32[2, 4, 3]\n%y = group_norm %x {{groups = {}}} output %y }}", groups));
    INFO(message);
    CHECK(contains(message, "case.braze:2: error: "));
    CHECK(contains(message, "4 channels"));
    CHECK(contains(message, fmt::format("{} groups", groups)));
  }
}

TEST_CASE("no block has more than 1024 threads, however long the rows") {
  for (const std::int64_t width : {5120, 30733, 1000000}) {
    const ir::Graph g = parse(rows_program("%y = logsumexp %x {axes = [1]}", 2, width));
    for (const PlanKernel& k : compile_for_sim(g).plan.kernels) CHECK(k.block <= 1024);
    INFO("width " << width);
    check(g);
  }
}

// Chains of dependent reductions, as people write them: how many kernels and passes they become, and what they give. And
// every reduction at every level at which partial results are combined.
#include <fmt/format.h>

#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// ---- chains --------------------------------------------------------------------------------------------------------

struct Chain {
  std::string_view name;
  std::string_view
      statements;  // of %x, %w, %v: f32[rows, width], %mask: bool[rows, width], %label: i32[rows, 1]
  int passes;      // over the domain of its one kernel, when nothing is kept
};

constexpr Chain kChains[] = {
    {"softmax of scaled and masked scores", R"(
       %q = mul %x, 0.125 %a = add %q, %w %b = select %mask, -inf, %a %y = softmax %b {axes = [1]} output %y)",
     2},
    {"softmax with a temperature", "%t = div %x, 0.7 %y = softmax %t {axes = [1]} output %y", 2},
    // x / T would be rounded before the maximum is taken away: another number where x is large.
    {"a temperature after the maximum", R"(
       %m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %t = div %d, 0.7 %e = exp %t
       %s = sum %e {axes = [1], keepdims = true} %y = div %e, %s output %y)",
     3},
    {"logsumexp", R"(
       %m = max %x {axes = [1], keepdims = true} %n = neg %m %d = add %n, %x %e = exp %d
       %s = sum %e {axes = [1], keepdims = true} %l = log %s %y = add %l, %m output %y)",
     1},
    {"the maximum as -min(-x)", R"(
       %n = neg %x %k = min %n {axes = [1], keepdims = true} %m = neg %k %d = sub %x, %m %e = exp %d
       %s = sum %e {axes = [1], keepdims = true} %y = div %e, %s output %y)",
     2},
    {"softmin", R"(
       %m = min %x {axes = [1], keepdims = true} %d = sub %m, %x %e = exp %d
       %s = sum %e {axes = [1], keepdims = true} %y = div %e, %s output %y)",
     2},
    {"exp(-(max x - x))", R"(
       %m = max %x {axes = [1], keepdims = true} %d = sub %m, %x %n = neg %d %e = exp %n
       %s = sum %e {axes = [1]} %y = reshape %m {shape = [9]} output %s output %y)",
     1},
    {"weighted means", R"(
       %m = max %x {axes = [1]} %k = reshape %m {shape = [9, 1]} %d = sub %x, %k %e = exp %d
       %s = sum %e {axes = [1]} %a = mul %e, %w %t = sum %a {axes = [1]} %b = mul %v, %e %u = sum %b {axes = [1]}
       %y = div %t, %s %z = div %u, %s output %y output %z)",
     1},
    {"a weighted sum alone", R"(
       %m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %e = exp %d %a = mul %e, %w
       %y = sum %a {axes = [1]} output %y)",
     1},
    {"weights in the gradient of a softmax", R"(
       %m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %e = exp %d
       %s = sum %e {axes = [1], keepdims = true} %a = mul %e, %w %t = sum %a {axes = [1], keepdims = true}
       %p = div %e, %s %k = div %t, %s %c = sub %w, %k %y = mul %p, %c output %y)",
     2},
    {"guarded weights beside the exponentials", R"(
       %m = max %x {axes = [1], keepdims = true} %i = isinf %m %g = select %i, 0, %m %d = sub %x, %g %e = exp %d
       %s = sum %e {axes = [1], keepdims = true} %a = mul %e, %w %t = sum %a {axes = [1], keepdims = true}
       %p = add %e, %s %y = sub %p, %t output %y)",
     2},
    // p * log p holds the sum.
    {"entropy", R"(
       %p = softmax %x {axes = [1]} %l = log_softmax %x {axes = [1]} %q = mul %p, %l %s = sum %q {axes = [1]}
       %y = neg %s output %y)",
     2},
    {"log_softmax at a label", R"(
       %l = log_softmax %x {axes = [1]} %i = iota i32[9, 300] {axis = 1} %h = eq %i, %label
       %p = select %h, %l, 0 %y = sum %p {axes = [1]} output %y)",
     2},
    {"mean and variance", R"(
       %m = mean %x {axes = [1], keepdims = true} %d = sub %x, %m %q = mul %d, %d %y = mean %q {axes = [1]}
       %z = reshape %m {shape = [9]} output %y output %z)",
     1},
    {"sample variance and deviation", R"(
       %t = sum %x {axes = [1], keepdims = true} %m = div %t, 300 %d = sub %x, %m %q = pow %d, 2
       %s = sum %q {axes = [1]} %u = div %s, 299 %y = sqrt %u output %u output %y)",
     1},
    {"E[x^2] - E[x]^2 as written", R"(
       %q = mul %x, %x %a = mean %q {axes = [1]} %m = mean %x {axes = [1]} %b = mul %m, %m %y = sub %a, %b output %y)",
     1},
    {"normalisation by rsqrt", R"(
       %m = mean %x {axes = [1], keepdims = true} %d = sub %x, %m %q = mul %d, %d
       %u = mean %q {axes = [1], keepdims = true} %e = add %u, 1e-5 %r = rsqrt %e %y = mul %d, %r output %y)",
     2},
    {"normalisation by a deviation", R"(
       %m = mean %x {axes = [1], keepdims = true} %d = sub %x, %m %q = mul %d, %d
       %u = mean %q {axes = [1], keepdims = true} %e = add %u, 1e-5 %r = sqrt %e %y = div %d, %r output %y)",
     2},
    {"cosine similarity", R"(
       %a = mul %x, %w %b = mul %x, %x %c = mul %w, %w %s = sum %a {axes = [1]} %t = sum %b {axes = [1]}
       %u = sum %c {axes = [1]} %p = mul %t, %u %r = sqrt %p %y = div %s, %r output %y)",
     1},
    {"L2 normalisation, clamped", R"(
       %q = mul %x, %x %s = sum %q {axes = [1], keepdims = true} %n = sqrt %s %c = max %n, 1e-12 %y = div %x, %c
       output %y)",
     2},
    {"L1 normalisation", R"(
       %a = abs %x %s = sum %a {axes = [1], keepdims = true} %y = div %x, %s output %y)",
     2},
    {"masked mean", R"(
       %m = cast %mask {dtype = f32} %a = mul %x, %m %s = sum %a {axes = [1]} %n = sum %m {axes = [1]}
       %y = div %s, %n output %y)",
     1},
    {"root mean square", "%q = mul %x, %x %m = mean %q {axes = [1]} %y = sqrt %m output %y", 1},
    {"softmax of a norm", "%n = layer_norm %x {axes = [1]} %y = softmax %n {axes = [1]} output %y", 3},
};

ir::Graph graph_of(const Chain& chain) {
  return parse(
      fmt::format("graph chain {{ %x = input f32[9, 300] %w = input f32[9, 300] %v = input f32[9, 300] "
                  "%mask = input bool[9, 300] %label = input i32[9, 1] {} }}",
                  chain.statements));
}

// ---- levels --------------------------------------------------------------------------------------------------------

struct Level {
  std::string_view name;
  std::string_view schedule;
};

// Where partial results of a row meet; each schedule has one level more than another that works.
constexpr Level kLevels[] = {
    {"serial", "lanes=reduced,vector=1,kept=32,reduced=1,unroll=1"},
    {"unrolled", "lanes=reduced,vector=1,kept=32,reduced=1,unroll=4"},
    {"vector", "lanes=reduced,vector=4,kept=32,reduced=1,unroll=1"},
    {"lanes of a warp", "lanes=reduced,vector=1,kept=4,reduced=8,unroll=1"},
    {"warp", "lanes=reduced,vector=2,kept=1,reduced=32,unroll=2"},
    {"warps of a block", "lanes=reduced,vector=1,kept=2,reduced=128,unroll=1"},
    {"more warps than lanes", "lanes=reduced,vector=1,kept=16,reduced=64,unroll=1"},
    {"a whole block", "lanes=reduced,vector=4,kept=1,reduced=1024,unroll=1"},
    {"blocks of a cluster", "lanes=reduced,vector=1,kept=1,reduced=32,cluster=2,unroll=1"},
    {"a whole cluster", "lanes=reduced,vector=2,kept=2,reduced=64,cluster=8,unroll=1"},
    {"columns of a cluster", "lanes=kept,vector=1,kept=32,reduced=4,cluster=4,unroll=1"},
    {"columns of more blocks than threads", "lanes=kept,vector=1,kept=32,reduced=2,cluster=8,unroll=1"},
    {"columns of several threads a warp", "lanes=kept,vector=2,kept=8,reduced=16,cluster=8,unroll=1"},
    {"turns of a block", "lanes=reduced,vector=4,kept=1,reduced=64,unroll=1,prefetch=2"},
    {"turns of warps", "lanes=reduced,vector=1,kept=2,reduced=16,unroll=1,prefetch=1"},
    {"turns of a cluster", "lanes=reduced,vector=1,kept=1,reduced=32,cluster=2,unroll=1,prefetch=1"},
    {"columns", "lanes=kept,vector=2,kept=32,reduced=1,unroll=2"},
    {"columns of a block", "lanes=kept,vector=1,kept=32,reduced=8,unroll=1"},
    {"more columns than threads", "lanes=kept,vector=4,kept=32,reduced=2,unroll=1"},
};

// The reductions that users write, each as itself, and those the compiler makes, as the programs they are made of.
std::string statements_of(const MonoidInfo& row) {
  switch (row.kind) {
    case Monoid::max_sumexp:
      return R"(%m = max %x {axes = [1], keepdims = true} %i = isinf %m %p = select %i, 0, %m %d = sub %x, %p
                %e = exp %d %s = sum %e {axes = [1]} %a = mul %e, %w %t = sum %a {axes = [1]}
                %b = mul %e, %v %u = sum %b {axes = [1]} %l = reshape %m {shape = [9]}
                output %l output %s output %t output %u)";
    case Monoid::moments:
      return R"(%c = mean %x {axes = [1], keepdims = true} %f = sub %x, %c %q = mul %f, %f
                %r = sum %q {axes = [1]} %l = reshape %c {shape = [9]} output %l output %r)";
    case Monoid::any:
    case Monoid::all: return fmt::format("%h = lt %x, %w %l = {} %h {{axes = [1]}} output %l", row.text);
    case Monoid::prod: return "%h = mul %x, 0.5 %k = add %h, 1 %l = prod %k {axes = [1]} output %l";
    case Monoid::sum:
    case Monoid::max:
    case Monoid::min:
    case Monoid::argmax:
    case Monoid::argmin: return fmt::format("%l = {} %x {{axes = [1]}} output %l", row.text);
  }
  throw InternalError("unknown monoid");
}

// Rows that are hard to combine: of infinities, with one NaN, nothing but one number, near values, far apart.
HostTensor difficult_rows(const Type& type, double huge = 3) {
  HostTensor x = random_tensor(type, 5);
  const std::int64_t width = type.shape[1];
  const auto set = [&](std::int64_t row, std::int64_t i, double v) {
    x.set(row * width + i, Scalar::of(type.dtype, v));
  };
  for (std::int64_t i = 0; i < width; ++i) {
    set(0, i, -kInf);
    set(3, i, 1000);
    set(4, i, i + 1 == width ? 2.5 : -kInf);
    set(5, i, -200 + 0.25 * static_cast<double>(i % 7));
    set(6, i, 4 * i < 3 * width ? huge : -huge);
  }
  set(1, width / 2, kNan);
  set(2, width - 1, kInf);
  return x;
}

// Weights that are infinite, 0 and NaN, beside elements of -inf among others.
HostTensor difficult_weights(const Type& type) {
  HostTensor w = random_tensor(type, 6);
  const std::int64_t width = type.shape[1];
  w.set(0, Scalar::of(type.dtype, kInf));                       // of -inf: NaN
  w.set(4 * width + width / 2, Scalar::of(type.dtype, -kInf));  // the same beside a number
  w.set(7 * width + width / 3, Scalar::of(type.dtype, kInf));   // inf
  w.set(8 * width + width - 1, Scalar::of(type.dtype, kNan));   // NaN
  w.set(5 * width, Scalar::of(type.dtype, 0));
  return w;
}

}  // namespace

TEST_CASE("chains of reductions become one kernel of as few passes as their results allow") {
  for (const Chain& chain : kChains) {
    INFO(chain.name);
    Options options;
    options.schedule = "lanes=reduced,vector=2,reduced=64,keep=nothing";
    const Compilation c = compile_for_sim(graph_of(chain), options);
    INFO(print(c.simplified));
    REQUIRE(c.kernels.size() == 1);
    CHECK(c.kernels[0].group.stages[0].phases() == chain.passes);
  }
}

TEST_CASE("chains of reductions give what they say, with the domain kept and without") {
  for (const Chain& chain : kChains) {
    INFO(chain.name);
    const ir::Graph g = graph_of(chain);
    for (const std::string_view keep : {"nothing", "registers", "shared"}) {
      if (keep != "nothing" && chain.passes == 1) continue;
      Options options;
      options.schedule = fmt::format("lanes=reduced,vector=2,reduced=64,keep={}", keep);
      check(g, options);
    }
  }
}

TEST_CASE("weights that are infinite or NaN, and rows of -inf, give what the program as written gives") {
  const Type type{DType::f32, {9, 300}};
  for (const Chain& chain : kChains) {
    if (chain.name.find("weight") == std::string_view::npos) continue;
    INFO(chain.name);
    for (const std::string_view keep : {"nothing", "registers"}) {
      if (keep != "nothing" && chain.passes == 1) continue;
      Options options;
      options.schedule = fmt::format("lanes=reduced,vector=2,reduced=64,unroll=2,keep={}", keep);
      options.inputs["x"] = difficult_rows(type);
      options.inputs["w"] = difficult_weights(type);
      check(graph_of(chain), options);
    }
  }
}

TEST_CASE("every reduction is right at every level of combination") {
  for (const std::int64_t width : {5, 300}) {
    const Type type{DType::f32, {9, width}};
    for (const Level& level : kLevels) {
      for (const MonoidInfo& row : monoids()) {
        INFO(row.text << ", " << level.name << ", width " << width);
        Options options;
        options.schedule = level.schedule;
        // A plain sum of such numbers is infinite or NaN by the order of the summands.
        options.inputs["x"] = difficult_rows(type, row.kind == Monoid::moments ? 3e38 : 3);
        options.inputs["w"] = difficult_weights(type);
        check(parse(fmt::format("graph levels {{ %x = input f32[9, {0}] %w = input f32[9, {0}] "
                                "%v = input f32[9, {0}] {1} }}",
                                width, statements_of(row))),
              options);
      }
    }
  }
}

TEST_CASE("a variance whose squares overflow is infinite") {
  for (const std::string_view values : {"3e38", "2e38", "1e25"}) {
    for (const std::int64_t width : {2, 3, 8, 257}) {
      const ir::Graph g = parse(
          fmt::format("graph v {{ %x = input f32[2, {}] %y = var %x {{axes = [1]}} output %y }}", width));
      const double large = std::strtod(values.data(), nullptr);
      HostTensor x(g.type(g.inputs()[0]));
      for (std::int64_t i = 0; i < width; ++i) {
        x.set(i, Scalar::of(DType::f32, i % 2 == 0 ? large : -large));
        x.set(width + i, Scalar::of(DType::f32, large));
      }
      for (const std::string_view schedule : {"", "lanes=reduced,vector=1,kept=32,reduced=1",
                                              "lanes=reduced,vector=4,kept=1,reduced=64,unroll=2"}) {
        INFO(values << ", width " << width << ", schedule " << schedule);
        Options options;
        options.schedule = schedule;
        CHECK(end_to_end::values(run(compile_for_sim(g, options), {{"x", x}}, options).at("y")) ==
              std::vector<double>{kInf, 0});
      }
    }
  }
}

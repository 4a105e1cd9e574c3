// Reductions at every level of the machine: all axis patterns, types, lengths and schedules.
#include <fmt/format.h>

#include <array>
#include <span>

#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

bool applies(const MonoidInfo& row, DType t) {
  const bool logical = row.kind == Monoid::any || row.kind == Monoid::all;
  return row.user && logical == (t == DType::boolean);
}

void add_reductions(ir::Graph& g, NodeId x, const Axes& axes, bool keepdims, const std::string& prefix) {
  for (const MonoidInfo& row : monoids()) {
    if (!applies(row, g.type(x).dtype)) continue;
    g.output(fmt::format("{}{}", prefix, row.text), g.reduce(row.kind, x, axes, keepdims));
  }
}

constexpr std::string_view kPipelines[] = {
    "%y = softmax %x {axes = [1]}",
    "%y = logsumexp %x {axes = [1]}",
    "%y = layer_norm %x",
    "%y = argmax %x {axes = [1]}",
    "%d = sub %x, 1 %y = sum %d {axes = [1], keepdims = true}",
};

ir::Graph pipeline(std::string_view statements, DType t, std::int64_t rows, std::int64_t width) {
  return parse(
      fmt::format("graph p {{ %x = input {}[{}, {}] {} output y = %y }}", name(t), rows, width, statements));
}

// The schedule if the program's kernel can have it, or nothing: what is refused is refused with a reason.
bool serves(const ir::Graph& g, const std::string& schedule) {
  CompileOptions options;
  options.target = *parse_target("sim");
  options.schedule = schedule;
  options.last = Stage::schedule;
  try {
    compile(g, options);
    return true;
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("cannot have schedule") != std::string::npos);
    return false;
  }
}

std::vector<std::string> forced_schedules() {
  std::vector<std::string> all;
  constexpr std::string_view kKeeps[] = {"nothing", "registers", "shared"};
  std::size_t k = 0;
  for (const bool along : {true, false}) {
    for (const int vector : {1, 2, 4}) {
      for (const int reduced : {1, 2, 16, 32, 64, 256, 1024}) {
        // Not the whole product: every unroll comes up with every keep, and both with all others.
        const int kept = reduced < 32 ? 32 / reduced : reduced <= 256 ? 1 + static_cast<int>(k % 2) : 1;
        all.push_back(fmt::format("lanes={},vector={},kept={},reduced={},unroll={},keep={}",
                                  along ? "reduced" : "kept", vector, kept, reduced, 1 << k % 4,
                                  kKeeps[k % 3]));
        ++k;
      }
    }
  }
  return all;
}

// Rows that are all -inf, hold one NaN, one +inf, a large constant, and ordinary ones.
HostTensor difficult_rows(const Type& type) {
  HostTensor x = random_tensor(type, 5);
  const std::int64_t width = type.shape[1];
  const auto set = [&](std::int64_t row, std::int64_t i, double v) {
    if (row < type.shape[0]) x.set(row * width + i, Scalar::of(type.dtype, v));
  };
  for (std::int64_t i = 0; i < width; ++i) {
    set(0, i, -kInf);
    set(3, i, 1000);
    set(4, i, i + 1 == width ? 2.5 : -kInf);
    set(5, i, -200 + 0.25 * static_cast<double>(i % 7));
  }
  set(1, width / 2, kNan);
  set(2, width - 1, kInf);
  return x;
}

// Of softmax, whose elements are less than the tolerance of `check`.
std::string within_one_ulp(const std::string&, const HostTensor& got, const ReferenceTensor& expected) {
  const Comparison c = compare(got, expected);
  return c.max_ulp <= 1 ? std::string() : to_string(c);
}

}  // namespace

TEST_CASE("every reduction over every pattern of axes, with and without keepdims") {
  const Axes patterns[] = {{0}, {2}, {5}, {0, 2, 5}, {1, 3}, {3, 4}, {4, 5}, {0, 1}, {0, 1, 2, 3, 4, 5}, {1}};
  for (const DType t : kAllDTypes) {
    ir::Graph g("patterns");
    const NodeId x = g.input("x", {t, {2, 3, 4, 1, 3, 5}});
    std::size_t k = 0;
    for (const Axes& axes : patterns) {
      add_reductions(g, x, axes, k % 2 == 1, fmt::format("p{}_{}_", k, fmt::join(axes, "")));
      ++k;
      if (axes.size() == 3) add_reductions(g, x, axes, true, "keepdims_");
    }
    INFO(name(t));
    check_all_ways(g);
  }
}

TEST_CASE("every reduction of every type at every length, along rows and along columns") {
  std::size_t k = 0;
  for (const std::int64_t n : {1, 2, 3, 31, 32, 33, 64, 1000, 1025, 5000}) {
    ir::Graph g("lengths");
    for (const DType t : kAllDTypes) {
      if (t != DType::f32 && k++ % 2 == 0 && n > 3) continue;  // each in turn
      const std::string type = std::string(name(t)) + "_";
      add_reductions(g, g.input(type + "rows", {t, {3, n}}), {1}, false, type + "rows_");
      add_reductions(g, g.input(type + "columns", {t, {n, 3}}), {0}, false, type + "columns_");
    }
    INFO("length " << n);
    Options options;
    options.misaligned = n % 2 == 1;
    options.seed = static_cast<std::uint64_t>(n);
    check(g, options);
  }
}

TEST_CASE(
    "every reduction of every type by the blocks of a cluster, which go over one domain or over several") {
  // One warp a block and many; as many blocks as lanes of a domain and more; and columns, of which a thread has several.
  constexpr std::string_view kRows[] = {
      "vector=4,kept=1,reduced=32,cluster=2", "vector=4,kept=2,reduced=64,cluster=4",
      "vector=8,kept=4,reduced=8,cluster=8", "vector=4,kept=1,reduced=64,unroll=2,cluster=16"};
  constexpr std::string_view kColumns[] = {"vector=1,kept=32,reduced=2,cluster=2",
                                           "vector=4,kept=4,reduced=16,unroll=2,cluster=16"};
  int ahead = 0;
  std::uint64_t seed = 0;
  std::size_t k = 0;
  for (const DType t : kAllDTypes) {
    for (const bool along : {true, false}) {
      ir::Graph g("shared");
      // More domains than the three clusters that stay and take turns.
      const NodeId x = g.input("x", along ? Type{t, {21, 300}} : Type{t, {100, 200}});
      add_reductions(g, x, {along ? 1 : 0}, false, "");
      k += along ? 1 : 0;
      for (const std::string_view form : along ? std::span<const std::string_view>(kRows) : kColumns) {
        if (k++ % 2 == 0) continue;  // every second, the others with the next type
        for (const std::string_view prefetch : {"", ",prefetch=1"}) {
          Options options;
          options.schedule = fmt::format("lanes={},{}{}", along ? "reduced" : "kept", form, prefetch);
          options.seed = seed++;
          INFO(name(t) << ", " << options.schedule);
          if (!serves(g, options.schedule)) {
            CHECK(!prefetch.empty());
            continue;
          }
          ahead += prefetch.empty() ? 0 : 1;
          check(g, options);
        }
      }
    }
  }
  CHECK(ahead > 0);
}

TEST_CASE("every reduction of 70000 elements") {
  for (const DType t : kAllDTypes) {
    ir::Graph g("long");
    add_reductions(g, g.input("x", {t, {70000}}), {0}, false, "");
    INFO(name(t));
    check(g);
  }
}

TEST_CASE("every schedule gives the same values, on rows of all kinds") {
  const std::vector<std::string> schedules = forced_schedules();
  int served = 0;
  std::size_t k = 0;
  for (const std::string_view statements : kPipelines) {
    for (const std::string& schedule : schedules) {
      const std::int64_t widths[] = {5, 37, 128,
                                     1028};  // shorter than the threads, odd, a power of two, long
      const std::int64_t width = widths[k++ % std::size(widths)];
      const DType t = k % 5 == 0 ? DType::f16 : DType::f32;
      const ir::Graph g = pipeline(statements, t, 7, width);
      if (!serves(g, schedule)) continue;
      ++served;
      Options options;
      options.schedule = schedule;
      options.inputs["x"] = difficult_rows({t, {7, width}});
      options.seed = k;
      options.misaligned = k % 3 == 0;
      INFO(statements << ", width " << width);
      check(g, options);
    }
  }
  CHECK(served > 75);
}

TEST_CASE("extrema of 16-bit elements that are taken two at a time, with a special value in each place") {
  constexpr std::int64_t kWidth = 64;
  // What stands among ordinary elements of one sign, or among zeros of the other.
  struct Row {
    double others, special;
  };
  constexpr Row kRows[] = {{1.5, kNan}, {-1.5, kInf}, {1.5, -kInf},
                           {-0.0, 0.0}, {0.0, -0.0},  {-kInf, -65504}};
  const std::int64_t rows = kWidth * static_cast<std::int64_t>(std::size(kRows));
  for (const DType t : {DType::bf16, DType::f16}) {
    HostTensor x{{t, {rows, kWidth}}};
    for (std::int64_t r = 0; r < rows; ++r) {
      const Row& row = kRows[r / kWidth];
      for (std::int64_t i = 0; i < kWidth; ++i)
        x.set(r * kWidth + i, Scalar::of(t, i == r % kWidth ? row.special : row.others));
    }
    ir::Graph g = parse(
        fmt::format("graph p {{ %x = input {}[{}, {}] %a = max %x {{axes = [1]}} %i = min %x {{axes = [1]}} "
                    "%l = logsumexp %x {{axes = [1]}} %s = softmax %x {{axes = [1]}} "
                    "output a = %a output i = %i output l = %l output s = %s }}",
                    name(t), rows, kWidth));
    for (const std::string_view vector : {"2", "8"}) {
      Options options;
      options.schedule = fmt::format("lanes=reduced,vector={},kept=8,reduced=4", vector);
      options.inputs["x"] = x;
      INFO(name(t) << ", vectors of " << vector);
      check(g, options);
    }
  }
}

// What a pivot that a thread follows has to come through: maxima that rise in each chunk or come last, chunks of nothing but -inf, pivots
// too far out for 16-bit elements to be taken without a difference.
HostTensor wandering_rows(DType t, std::int64_t width) {
  HostTensor x{{t, {9, width}}};
  const auto last = width - 1;
  for (std::int64_t i = 0; i < width; ++i) {
    const double at = static_cast<double>(i), noise = static_cast<double>(i * 37 % 101) / 25;
    const double rows[] = {at / 8,
                           -at / 8,
                           i == last ? 500.0 : noise,
                           i < width / 2 ? -kInf : noise - 3,
                           i % 3 == 0 ? -kInf : 6000 + noise * 8,
                           -30000 - 64 * noise,
                           i == width / 2 ? kInf : at,
                           i == last ? kNan : noise,
                           i == last ? -50000.0 : -kInf};
    for (std::int64_t r = 0; r < 9; ++r) x.set(r * width + i, Scalar::of(t, round_to(t, rows[r])));
  }
  return x;
}

TEST_CASE("exponentials relative to a pivot that a thread follows") {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::string_view statements :
         {"%y = logsumexp %x {axes = [1]}", "%y = softmax %x {axes = [1]}",
          "%y = log_softmax %x {axes = [1]}"}) {
      for (const std::int64_t width : {2048, 2051}) {
        const std::string vector = t == DType::f32 ? "4" : "8";
        for (const std::string& rest :
             {std::string("kept=2,reduced=16,unroll=2,keep=nothing"),
              std::string("reduced=64,unroll=4,keep=nothing"),
              std::string("reduced=32,unroll=2,cluster=2,keep=nothing"),
              std::string("reduced=64,unroll=2,keep=registers"),
              std::string("reduced=32,unroll=2,cluster=2,spill=2,keep=registers")}) {
          const ir::Graph g = pipeline(statements, t, 9, width);
          Options options;
          options.schedule = fmt::format("lanes=reduced,vector={},{}", vector, rest);
          if (!serves(g, options.schedule)) continue;
          options.inputs["x"] = wandering_rows(t, width);
          INFO(name(t) << ", " << statements << ", width " << width << ", " << options.schedule);
          check(g, options);
        }
      }
    }
  }
}

TEST_CASE("16-bit softmax whose exponentials and sum are needed otherwise too, on rows with infinities") {
  for (const std::string_view outputs :
       {"output p = %p", "output p = %p output s = %s", "output p = %p output e = %e",
        "%t = mul %s, 1e-39 %q = div %e, %t output p = %p output q = %q",
        "%l = log %s %r = sum %p {axes = [1]} output r = %r output l = %l"}) {
    const ir::Graph g =
        parse(fmt::format("graph p {{ %x = input bf16[9, 1024] %m = max %x {{axes = [1], keepdims = true}} "
                          "%d = sub %x, %m %e = exp %d %s = sum %e {{axes = [1], keepdims = true}} "
                          "%p = div %e, %s {} }}",
                          outputs));
    for (const std::string_view schedule : {"lanes=reduced,vector=8,reduced=32,unroll=2,keep=registers",
                                            "lanes=reduced,vector=8,reduced=32,unroll=2,keep=nothing"}) {
      Options options;
      options.schedule = schedule;
      options.inputs["x"] = wandering_rows(DType::bf16, 1024);
      INFO(outputs << ", " << schedule);
      check(g, options);
    }
  }
}

TEST_CASE("softmax that is stored in 16 bits is right to their precision, however small") {
  for (const DType t : {DType::bf16, DType::f16}) {
    for (const std::int64_t width : {1024, 1027, 4096}) {
      for (const std::string_view rest :
           {"reduced=32,unroll=2,keep=registers", "reduced=64,unroll=1,keep=registers",
            "reduced=32,unroll=2,cluster=2,keep=registers", "reduced=32,unroll=2,spill=2,keep=registers",
            "reduced=32,unroll=2,cluster=2,spill=1,keep=registers",
            "reduced=32,unroll=1,spill=14,keep=registers",
            "reduced=64,unroll=1,cluster=2,spill=3,keep=registers"}) {
        const ir::Graph g = pipeline("%y = softmax %x {axes = [1]}", t, 9, width);
        Options options;
        options.schedule = fmt::format("lanes=reduced,vector=8,{}", rest);
        if (!serves(g, options.schedule)) continue;
        options.judge = within_one_ulp;
        INFO(name(t) << ", width " << width << ", " << options.schedule);
        check(g, options);
        options.inputs["x"] = wandering_rows(t, width);
        check(g, options);
      }
    }
  }
}

TEST_CASE("softmax in 16 bits of what does not vary along the lanes") {
  for (const std::string_view body :
       {"%i = iota bf16[512, 64] {axis = 0} %y = softmax %i {axes = [0]} output %y",
        "%i = iota f32[512, 64] {axis = 0} %j = mul %i, 0.01 %c = cast %j {dtype = bf16} %y = softmax %c "
        "{axes = [0]} "
        "output %y"}) {
    for (const int vector : {1, 2, 4}) {
      Options options;
      options.schedule =
          fmt::format("lanes=kept,vector={},kept=4,reduced=32,unroll=2,keep=registers", vector);
      options.judge = within_one_ulp;
      INFO(body << ", " << options.schedule);
      check(parse(fmt::format("graph g {{ {} }}", body)), options);
    }
  }
}

TEST_CASE("what is spilled is right where a shared place is taken again") {
  const ir::Graph g = parse(
      "graph g { %x = input f32[3, 1024] %a = cast %x {dtype = f64} %s = softmax %a {axes = [1]} "
      "%c = cast %s {dtype = f32} %t = exp %c %u = sum %t {axes = [1], keepdims = true} %y = div %t, %u "
      "%m = max %s {axes = [1], keepdims = true} %n = sub %s, %m %o = exp %n output %y output %o }");
  for (const std::string_view rest : {"unroll=1,spill=2", "unroll=1,spill=4", "unroll=2,spill=4"}) {
    Options options;
    options.schedule = fmt::format("lanes=reduced,vector=4,reduced=32,{},keep=registers", rest);
    INFO(rest);
    check(g, options);
  }
}

TEST_CASE("vectors of views whose elements follow each other by twos and fours alone") {
  for (const std::string_view view :
       {"%x = input {0}[6, 2112, 3] %v = slice %x {{starts = [0, 0, 1], stops = [6, 2112, 3], steps = [1, 1, "
        "1]}}",
        "%x = input {0}[6, 33, 32, 8] %v = slice %x {{starts = [0, 0, 0, 4], stops = [6, 33, 32, 8], steps = "
        "[1, 1, 1, 1]}}",
        "%x = input {0}[6, 33, 64, 2] %v = permute %x {{perm = [0, 2, 1, 3]}}",
        "%x = input {0}[6, 33, 32, 4] %v = permute %x {{perm = [0, 2, 1, 3]}}"}) {
    for (const DType t : {DType::bf16, DType::f16, DType::f32}) {
      const ir::Graph g =
          parse(fmt::format("graph g {{ {} %r = reshape %v {{shape = [6, 4224]}} %y = log_softmax %r {{axes "
                            "= [1]}} output %y }}",
                            fmt::format(fmt::runtime(view), name(t))));
      INFO(view << " of " << name(t));
      check(g, {});
      Options options;
      options.schedule = "lanes=reduced,vector=8,reduced=32,unroll=2,keep=nothing";
      check(g, options);
    }
  }
}

TEST_CASE("what softmax lacks to 1 is not made of scaled exponentials") {
  HostTensor x{{DType::f32, {4, 1024}}};
  for (std::int64_t i = 0; i < 4 * 1024; ++i)
    x.set(i, Scalar::of(DType::f32,
                        i % 1024 == 100 + i / 1024 ? 18.0 + 0.37 * static_cast<double>(i / 1024) : 0));
  for (const std::string_view rest : {"%q = sub 1, %p %s = sqrt %q", "%s = log %p", "%s = sub %p, 1"}) {
    const ir::Graph g =
        parse(fmt::format("graph g {{ %x = input f32[4, 1024] %p = softmax %x {{axes = [1]}} {} %y = cast %s "
                          "{{dtype = bf16}} output %y }}",
                          rest));
    Options options;
    options.schedule = "lanes=reduced,vector=4,reduced=64,unroll=2,keep=registers";
    options.inputs["x"] = x;
    INFO(rest);
    const Tensors out = run(compile_for_sim(g, options), options.inputs, options);
    for (std::int64_t i = 0; i < 4 * 1024; ++i) {
      const double y = out.at("y").value(i);
      CHECK_FALSE(std::isnan(y));
      if (rest.find("sqrt") == std::string_view::npos) CHECK(y <= 0);
    }
  }
}

// Exponentials relative to the thread's own maximum would differ in their last bits.
TEST_CASE("equal elements of a row have equal softmax where that is seen") {
  struct Program {
    std::string_view statements;
    std::function<double(double)> expected;  // of whether an element is one of the smaller ones
  };
  const Program programs[] = {
      {"%m = min %p {axes = [1], keepdims = true} %e = eq %p, %m %y = cast %e {dtype = f16}",
       [](double small) { return small; }},
      {"%m = min %p {axes = [1], keepdims = true} %d = sub %p, %m %g = gt %d, 0 %y = cast %g {dtype = f16}",
       [](double small) { return 1 - small; }},
      {"%a = argmin %p {axes = [1], keepdims = true} %f = cast %a {dtype = f16} %z = mul %x, 0 %y = add %z, "
       "%f",
       [](double) { return 0.0; }},
  };
  HostTensor x{{DType::f16, {8, 1024}}};
  const auto is_small = [](std::int64_t i) { return i % 1024 % 97 != 13; };
  for (std::int64_t i = 0; i < 8 * 1024; ++i)
    x.set(i, Scalar::of(DType::f16, is_small(i) ? 0.25 : 1 + 0.5 * static_cast<double>(i / 1024)));
  for (const auto& [statements, expected] : programs) {
    const ir::Graph g = parse(fmt::format(
        "graph g {{ %x = input f16[8, 1024] %p = softmax %x {{axes = [1]}} {} output %y }}", statements));
    const bool is_exchanged_in_words = statements.find("argmin") == std::string_view::npos;
    for (const std::string_view schedule :
         {"", "lanes=reduced,vector=8,reduced=64,unroll=2,keep=registers",
          "lanes=reduced,vector=4,reduced=32,unroll=4,gang=2,prefetch=2,keep=shared"}) {
      if (schedule.find("gang") != std::string_view::npos && !is_exchanged_in_words) continue;
      Options options;
      options.schedule = schedule;
      options.inputs["x"] = x;
      INFO(statements << ", " << schedule);
      const Tensors out = run(compile_for_sim(g, options), options.inputs, options);
      for (std::int64_t i = 0; i < 8 * 1024; ++i)
        REQUIRE(out.at("y").value(i) == expected(is_small(i) ? 1 : 0));
    }
  }
}

TEST_CASE("exponentials down columns, relative to pivots that lanes follow") {
  for (const DType t : {DType::f32, DType::bf16}) {
    const HostTensor rows = wandering_rows(t, 515);
    HostTensor x{{t, {515, 9}}};
    for (std::int64_t i = 0; i < 515; ++i) {
      for (std::int64_t r = 0; r < 9; ++r) x.set(i * 9 + r, rows.get(r * 515 + i));
    }
    const ir::Graph g =
        parse(fmt::format("graph p {{ %x = input {}[515, 9] %y = logsumexp %x {{axes = [0]}} "
                          "%z = softmax %x {{axes = [0]}} output y = %y output z = %z }}",
                          name(t)));
    for (const std::string_view schedule :
         {"lanes=kept,vector=1,kept=32,reduced=4,unroll=8", "lanes=kept,vector=1,kept=32,unroll=16"}) {
      Options options;
      options.schedule = schedule;
      options.inputs["x"] = x;
      INFO(name(t) << ", " << schedule);
      check(g, options);
    }
  }
}

TEST_CASE("columns that leave warps of the last block without any") {
  for (const std::int64_t columns : {2, 64, 66, 130, 258, 322}) {
    const ir::Graph g =
        parse(fmt::format("graph p {{ %x = input f32[37, {}] %y = logsumexp %x {{axes = [0]}} "
                          "%z = var %x {{axes = [0]}} output %y output %z }}",
                          columns));
    for (const std::string_view schedule :
         {"lanes=kept,vector=2,kept=128,unroll=4", "lanes=kept,vector=1,kept=256,unroll=8",
          "lanes=kept,vector=2,kept=64,reduced=2", "lanes=kept,vector=1,kept=32,reduced=4,cluster=4"}) {
      Options options;
      options.schedule = schedule;
      INFO(columns << " columns, " << schedule);
      check(g, options);
    }
  }
}

TEST_CASE("columns that clusters keep") {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const auto& [rows, columns] :
         {std::pair{512, 32}, {640, 34}, {1031, 35}, {2048, 66}, {4100, 16}, {520, 130}}) {
      for (const std::string_view y : {"softmax %x {axes = [0]}", "log_softmax %x {axes = [0]}",
                                       "layer_norm %x {axes = [0], eps = 1e-5}"}) {
        const ir::Graph g = parse(fmt::format("graph p {{ %x = input {}[{}, {}] %y = {} output %y }}", name(t),
                                              rows, columns, y));
        Options options;
        options.judge = t == DType::f32 ? nullptr : within_one_ulp;
        INFO(name(t) << " " << rows << " x " << columns << ", " << y);
        check(g, options);
      }
    }
  }
}

TEST_CASE("the order of threads and blocks does not change a bit") {
  for (const std::string_view statements : kPipelines) {
    const ir::Graph g = pipeline(statements, DType::f32, 5, 3000);
    const Compilation c = compile_for_sim(g);
    Options options;
    const Tensors inputs = complete_inputs(g, options);
    std::vector<Tensors> results;
    for (const std::uint64_t seed : {3, 1, 2}) {
      options.seed = seed;
      results.push_back(run(c, inputs, options));
    }
    for (const Tensors& r : results) CHECK(values(r.at("y")) == values(results[0].at("y")));
  }
}

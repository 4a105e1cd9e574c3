// Pointwise programs that are contiguous along several variables, in tiles.
#include <fmt/format.h>

#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// %x and %z are [A, B, C], %u is [C, B, A].
constexpr std::string_view kPrograms[] = {
    "%y = permute %x {perm = [2, 1, 0]} output %y",
    "%t = permute %u {perm = [2, 1, 0]} %y = max %t, %x output %y",
    // results and operands in both orders
    "%t = permute %u {perm = [2, 1, 0]} %y = max %t, %x %p = permute %y {perm = [2, 0, 1]} %q = neg %p "
    "output %y output %q",
    "%y = permute %x {perm = [2, 0, 1]} %q = permute %z {perm = [1, 2, 0]} output %y output %q",
    "%t = permute %x {perm = [1, 2, 0]} %s = permute %z {perm = [1, 2, 0]} %y = min %s, %t output %y",
    // the same data both ways
    "%t = permute %u {perm = [2, 1, 0]} %f = flip %x {axes = [2]} %g = max %f, %x %y = max %g, %t output %y",
    // views that are not whole
    "%t = permute %x {perm = [2, 1, 0]} %p = pad %t {lo = [1, 0, 3], hi = [0, 2, 1], value = 0} output %p",
    "%t = permute %x {perm = [2, 0, 1]} %r = reshape %t {shape = [C, AB]} output %r",
};

ir::Graph program(std::string_view statements, DType t, std::int64_t a, std::int64_t b, std::int64_t c) {
  return parse(
      fmt::format("graph p(A = {1}, B = {2}, C = {3}, AB = {4}) {{ %x = input {0}[A, B, C] "
                  "%z = input {0}[A, B, C] %u = input {0}[C, B, A] {5} }}",
                  name(t), a, b, c, a * b, statements));
}

std::string refusal(std::string_view schedule, std::string_view statements) {
  Options options;
  options.schedule = schedule;
  try {
    compile_for_sim(program(statements, DType::f32, 40, 3, 50), options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("tiles of every size and type, on rows of all kinds") {
  std::size_t k = 0, tiled = 0;
  for (const std::string_view statements : kPrograms) {
    for (const DType t : kAllDTypes) {
      if (t == DType::boolean && statements.find(" = m") != std::string_view::npos) continue;  // min, max
      for (const int tile : {1, 2, 16, 64}) {
        constexpr std::int64_t kSizes[] = {37, 64, 1, 90, 8};
        const ir::Graph g = program(statements, t, kSizes[k % 5], kSizes[k % 3], kSizes[(k + 1) % 5]);
        Options options;
        if (tile > 1) {
          options.schedule = fmt::format("lanes=kept,vector={},kept={},unroll={},tile={}", 1 << k % 5,
                                         32 << k % 3, 1 << k % 3, tile);
        }
        options.misaligned = k % 4 == 3;
        options.seed = ++k;
        INFO(statements << ", " << name(t) << ", " << options.schedule);
        try {
          compile_for_sim(g, options);
        } catch (const Error& e) {
          CHECK(std::string(e.what()).find("nothing is contiguous along a second") != std::string::npos);
          continue;
        }
        ++tiled;
        check(g, options);
      }
    }
  }
  CHECK(tiled > 150);
}

TEST_CASE("tiles of a bf16 input and an f32 result have vectors of their own") {
  for (const std::int64_t width : {96, 97}) {
    const ir::Graph g = parse(fmt::format(
        "graph p(R = {}, D = 130) {{ %x = input bf16[R, D] %z = input f32[D, R] %t = permute %x {{perm = [1, "
        "0]}} %c = cast %t {{dtype = f32}} %s = add %c, %z %u = permute %s {{perm = [1, 0]}} %h = cast %u "
        "{{dtype = bf16}} output %s output %h }}",
        width));
    for (const std::string_view schedule :
         {"", "lanes=kept,vector=16,kept=64,unroll=2,tile=128", "lanes=kept,vector=2,kept=128,tile=32"}) {
      Options options;
      options.schedule = schedule;
      INFO(width << ", " << schedule);
      check(g, options);
    }
  }
}

TEST_CASE("schedules with a tile that cannot serve say why") {
  constexpr std::string_view kTranspose = kPrograms[0];
  CHECK(refusal("lanes=kept,kept=32,tile=16", kTranspose).empty());
  CHECK(refusal("lanes=kept,kept=32,tile=16", "%y = exp %x output %y")
            .find("nothing is contiguous along a second") != std::string::npos);
  CHECK(refusal("lanes=kept,kept=32,tile=16", "%y = sum %x {axes = [0]} output %y")
            .find("something is reduced") != std::string::npos);
  CHECK(refusal("lanes=kept,kept=16,tile=16", kTranspose)
            .find("16 threads that share a tile do not fill warps") != std::string::npos);
  CHECK(
      refusal("lanes=kept,kept=32,tile=24", kTranspose).find("tile=24 is not a power of two from 1 to 128") !=
      std::string::npos);
  CHECK(refusal("lanes=reduced,reduced=32,tile=16", kTranspose).find("nothing is reduced") !=
        std::string::npos);
}

TEST_CASE("a tile is chosen where sectors would be moved for single elements") {
  const auto schedule = [](const ir::Graph& g) {
    const Compilation c = compile_for(*parse_target("sm_90"), g, {});
    REQUIRE(c.kernels.size() == 1);
    return c.kernels[0].choices[0].schedule;
  };
  const auto transpose = [](std::string_view type, int rows, int columns) {
    return parse(
        fmt::format("graph t {{ %x = input {}[{}, {}] %y = permute %x {{perm = [1, 0]}} output %y }}", type,
                    rows, columns));
  };
  CHECK(schedule(transpose("f32", 4096, 4096)).tile == 64);
  CHECK(schedule(transpose("bf16", 4096, 4096)).tile == 128);
  CHECK(schedule(transpose("f64", 4096, 4096)).tile == 32);
  CHECK(schedule(transpose("f32", 4096, 4096)).vector == 4);
  CHECK(schedule(transpose("f32", 4095, 4095)).vector == 1);
  // A warp meets whole sectors on both sides.
  CHECK(schedule(transpose("f32", 1 << 20, 4)).tile == 1);
  // Heads move, the elements of each stay side by side.
  CHECK(
      schedule(
          parse("graph h { %x = input f32[8, 512, 16, 64] %y = permute %x {perm = [0, 2, 1, 3]} output %y }"))
          .tile == 1);
}

// What must be one kernel, what must compile however long it is, and how the size of the code grows.
#include <fmt/format.h>

#include "harness.h"

using namespace bz;              // NOLINT
using namespace bz::compiler;    // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

std::size_t kernels_of(const ir::Graph& g) { return compile_for_sim(g).kernels.size(); }

// `steps` times `step`, a statement of {0} (the value so far) that defines {1}.
std::string repeated(std::string_view step, int steps) {
  std::string text = "graph chain { %x0 = input f32[1000]\n";
  for (int k = 0; k < steps; ++k) {
    text += fmt::format(fmt::runtime(step), fmt::format("%x{}", k), fmt::format("%x{}", k + 1)) + "\n";
  }
  return text + fmt::format("output y = %x{} }}", steps);
}

std::size_t ptx_size(const ir::Graph& g) {
  CompileOptions options;
  options.target = *parse_target("sm_90");
  return compile(g, options).plan.ptx.size();
}

}  // namespace

TEST_CASE("a reduction and the map that uses it are one kernel") {
  for (const std::string shape : {"128", "4, 32"}) {
    for (const std::string statements :
         {"%s = sum %x %q = div %x, %s %y = add %x, %q",
          "%m = mean %x {keepdims = true} %d = sub %x, %m %q = square %d %y = mean %q"}) {
      const ir::Graph g =
          parse(fmt::format("graph f {{ %x = input f32[{}] {} output %y }}", shape, statements));
      INFO(print(g));
      CHECK(kernels_of(g) == 1);
      Options options;
      // A sum near 0 makes the quotient ill-conditioned; these are far from it.
      HostTensor x = random_tensor(g.type(g.inputs()[0]), 4);
      for (std::int64_t i = 0; i < x.elements(); ++i) x.set(i, Scalar::of(DType::f32, x.value(i) + 2));
      options.inputs["x"] = x;
      check_all_ways(g, options);
    }
  }
}

TEST_CASE("a reduction with two consumers, and softmax with its row maximum as a second output") {
  check_all_ways(
      parse("graph t { %x = input f32[6, 70] %s = sum %x {axes = [1], keepdims = true}"
            " %a = mul %x, %s %b = sub %x, %s output %a output %b }"));
  const ir::Graph both = parse(
      "graph t { %x = input f32[6, 700] %m = max %x {axes = [1]}"
      " %y = softmax %x {axes = [1]} output %m output %y }");
  check_all_ways(both);
  const Tensors inputs = complete_inputs(both, {});
  const Tensors together = run(compile_for_sim(both), inputs);
  for (const Output& o : both.outputs()) {
    const ir::Graph alone = with_outputs(both, {o});
    const ReferenceTensor reference = interpret_reference(alone, inputs).at(o.name);
    const Comparison c = compare(together.at(o.name), reference);
    CHECK(within(c, default_tolerance(DType::f32, 700)));
  }
}

TEST_CASE("a column maximum and the column softmax are one kernel") {
  const ir::Graph g = parse(
      "graph c { %x = input f32[512, 64] %m = max %x {axes = [0]}"
      " %y = softmax %x {axes = [0]} output %m output %y }");
  CHECK(kernels_of(g) == 1);
  check_all_ways(g);
}

TEST_CASE("code of shared subexpressions grows linearly") {
  for (const std::string_view step :
       {"%h{1} = mul {0}, 0.5 {1} = add {0}, %h{1}", "%h{1} = tanh {0} {1} = mul {0}, %h{1}"}) {
    std::string named(step);
    for (std::size_t at = named.find("%h{1}"); at != std::string::npos; at = named.find("%h{1}", at)) {
      named.replace(at, 5, "%\"h{1}\"");
    }
    const ir::Graph one = parse(repeated(named, 1)), twenty = parse(repeated(named, 20)),
                    forty = parse(repeated(named, 40));
    const std::size_t base = ptx_size(one);
    const double growth =
        static_cast<double>(ptx_size(forty) - base) / static_cast<double>(ptx_size(twenty) - base);
    INFO(step << ": " << growth << " times");
    CHECK(growth < 2.4);
    CHECK(kernels_of(forty) == 1);
    Options options;
    options.tolerance_scale = 40;
    HostTensor x = random_tensor({DType::f32, {1000}}, 3);
    for (std::int64_t i = 0; i < 1000; ++i) x.set(i, Scalar::of(DType::f32, x.value(i) * 1e-3));
    options.inputs["x0"] = x;
    check(forty, options);
  }
}

TEST_CASE("chains of 10000 and 100000 nodes are built, printed, parsed, compiled and freed") {
  std::size_t kernels = 0;
  for (const int length : {10000, 100000}) {
    std::string text = "graph chain { %x0 = input f32[64]\n";
    for (int k = 0; k < length; ++k)
      text += fmt::format("%x{} = {} %x{}\n", k + 1, k % 2 == 0 ? "sin" : "neg", k);
    const ir::Graph g = parse(text + fmt::format("output y = %x{} }}", length));
    CHECK(same(g, parse(print(g))));
    const std::size_t count = kernels_of(g);
    CHECK(count >= 1);
    CHECK((kernels == 0 || count <= 11 * kernels));
    kernels = count;
    if (length > 10000) continue;
    Options options;
    options.tolerance_scale = 100;
    for (const Problem& p : problems(g, options)) FAIL_CHECK(p.what);
  }
}

TEST_CASE("kernels take no more parameters than every target has") {
  std::string sum = "graph sum {\n", pairs = "graph pairs {\n", chain = "graph chain { %x = input f32[50]\n";
  std::string weights = "graph weights { %x = input f32[3, 40] %s = softmax %x {axes = [1]}\n";
  for (int k = 0; k < 600; ++k) {
    sum += fmt::format("%x{0} = input f32[50] %s{0} = add %{1}, %x{0}\n", k,
                       k == 0 ? "x0" : fmt::format("s{}", k - 1));
    pairs += fmt::format("%x{0} = input f32[50] %y{0} = sin %x{0} output y{0} = %y{0}\n", k);
    chain +=
        fmt::format("%y{0} = neg %{1} output y{0} = %y{0}\n", k, k == 0 ? "x" : fmt::format("y{}", k - 1));
    weights += fmt::format(
        "%w{0} = input f32[3, 40] %p{0} = mul %s, %w{0} %y{0} = sum %p{0} {{axes = [1]}} output y{0} = "
        "%y{0}\n",
        k);
  }
  // Statistics over one axis, then over the other, again and again: stages of one kernel, of 90 inputs each.
  std::string stages =
      "graph stages { %x = input f32[64, 64, 512]\n%r = input f32[64, 1, 1]\n%y0 = mul %x, %r\n";
  for (int stage = 0; stage < 8; ++stage) {
    stages += fmt::format("%a{}_0 = mul %x, %y{}\n", stage, stage);
    for (int k = 0; k < 90; ++k) {
      stages +=
          fmt::format("%w{0}_{1} = input f32[512] %a{0}_{2} = max %a{0}_{1}, %w{0}_{1}\n", stage, k, k + 1);
    }
    stages +=
        fmt::format("%y{} = min %a{}_90 {{axes = [{}], keepdims = true}}\n", stage + 1, stage, 1 + stage % 2);
  }
  for (const std::string& text :
       {sum + "output y = %s599 }", pairs + "}", chain + "}", weights + "}", stages + "output y = %y8 }"}) {
    const ir::Graph g = parse(text);
    INFO(g.name());
    CompileOptions to_kernels;
    to_kernels.target = *parse_target("sim");
    to_kernels.last = Stage::kernel;
    std::size_t most = 0;
    for (const CompiledKernel& k : compile(g, to_kernels).kernels)
      most = std::max(most, k.kernel.buffers.size());
    CHECK(most <= 512);
    Options options;
    options.tolerance_scale = 20;
    if (g.name() != "sum" && g.name() != "chain") continue;  // much to compute
    for (const Problem& p : problems(g, options)) FAIL_CHECK(p.what);
  }
}

TEST_CASE("every value of a long chain is an output: none is computed twice") {
  constexpr int kLength = 3000;
  std::string text = "graph outputs { %y0 = input f32[50]\n";
  for (int k = 1; k <= kLength; ++k)
    text += fmt::format("%y{0} = {2} %y{1} output y{0} = %y{0}\n", k, k - 1, k % 2 == 0 ? "neg" : "sin");
  CompileOptions options;
  options.target = *parse_target("sim");
  options.last = Stage::kernel;
  const Compilation c = compile(parse(text + "}"), options);
  std::size_t computed = 0;
  for (const CompiledKernel& k : c.kernels) {
    CHECK(k.kernel.buffers.size() <= 512);
    for (const Expr& e : k.group.stages[0].exprs) computed += e.kind == Expr::Kind::map ? 1 : 0;
  }
  CHECK(computed == kLength);
}

TEST_CASE("stages of a kernel share domains among its blocks and no others") {
  const ir::Graph g = parse(
      "graph stages { %x = input f32[300, 8, 300, 300] %n = group_norm %x {groups = 8} %t = tanh %n"
      " %r = add %x, %t %y = logsumexp %r {axes = [1]} %s = var %r {axes = [2, 3]} output %y output %s }");
  bool staged = false;
  for (const std::string& name : known_targets()) {
    CompileOptions options;
    options.target = *parse_target(name);
    options.last = Stage::kernel;
    for (const CompiledKernel& k : compile(g, options).kernels) {
      if (!k.group.staged()) continue;
      staged = true;
      for (const Schedule& s : k.schedules()) {
        INFO(name << ": " << to_string(s));
        CHECK((s.cluster == 1 || s.cluster == k.kernel.cluster));
      }
    }
  }
  CHECK(staged);
}

TEST_CASE("many reductions together stay within the shared memory of every target") {
  std::string text = "graph variances { %x = input f32[500, 37]\n";
  for (int k = 0; k < 60; ++k)
    text +=
        fmt::format("%a{0} = mul %x, {1} %s{0} = sin %a{0} %v{0} = var %s{0} {{axes = [0]}}\n", k, 0.5 + k);
  for (int k = 0; k < 60; ++k) text += fmt::format("output v{0} = %v{0}\n", k);
  const ir::Graph g = parse(text + "}");
  for (const std::string& name : known_targets()) {
    CompileOptions options;
    options.target = *parse_target(name);
    options.last = Stage::kernel;
    for (const CompiledKernel& k : compile(g, options).kernels) {
      INFO(name << " " << k.kernel.name);
      CHECK(k.kernel.shared_bytes() <= options.target.max_shared_bytes);
    }
  }
  CompileOptions options;
  options.schedule = "lanes=kept,vector=16,kept=32,reduced=32";
  CHECK_THROWS_WITH(compile(g, options), Catch::Contains("bytes of shared memory for partial results"));
}

TEST_CASE("a pad after a reduction does not narrow the reduction") {
  for (const std::string_view statements :
       {"%s = softmax %x {axes = [1]} %c = slice %s {starts = [0, 0], stops = [4, 63], steps = [1, 1]}"
        " %y = pad %c {lo = [0, 1], hi = [0, 0], value = 0}",
        "%s = softmax %x {axes = [0]} %y = pad %s {lo = [1, 0], hi = [2, 3], value = -1}",
        "%s = sum %x {axes = [1], keepdims = true} %y = pad %s {lo = [0, 0], hi = [0, 63], value = -2}",
        "%s = layer_norm %x {axes = [1]} %c = slice %s {starts = [0, 5], stops = [4, 60], steps = [1, 1]}"
        " %y = pad %c {lo = [0, 4], hi = [0, 5], value = 7}"}) {
    const ir::Graph g = parse(fmt::format("graph p {{ %x = input f32[4, 64] {} output %y }}", statements));
    INFO(statements);
    check_all_ways(g);
  }
}

TEST_CASE("places in a table whose indices cannot be seen to lie inside") {
  CompileOptions options;
  options.target = *parse_target("sm_90");
  options.last = Stage::kernel;
  const Compilation c = compile(parse("graph t { %x = input f64[16, 1, 31, 17, 3, 127]"
                                      " %m = max %x {axes = [1, 4], keepdims = true} %d = sub %x, %m"
                                      " %t = permute %d {perm = [2, 5, 4, 3, 1, 0]}"
                                      " %s = sum %t {axes = [1, 4], keepdims = true}"
                                      " %y = mul %t, %s output %y }"),
                                options);
  REQUIRE(c.kernels.size() == 1);
  CHECK(c.kernels[0].group.tables.size() == 1);
}

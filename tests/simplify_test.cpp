#include <catch2/catch.hpp>

#include "compiler/simplify/index_operands.h"
#include "compiler/simplify/simplify.h"
#include "pass_testing.h"

using namespace bz;
using namespace bz::pass_testing;

namespace {

ir::Graph checked(const std::string& text, double tolerance = 0) {
  ir::Graph once = check_pass(simplify, parse(text), tolerance);
  CHECK(same(once, simplify(once)));
  return once;
}

// The line that defines the output of a one-output graph, without its name: "sub %x, %y".
std::string result_of(const ir::Graph& g) {
  const Output& o = g.outputs().front();
  std::string text = print(g), name = g.node(o.node).name;
  if (g.node(o.node).as<InputAttrs>()) return "%" + name;
  std::string start = "%" + (name.empty() ? std::to_string(o.node) : name) + " = ";
  std::size_t begin = text.find(start) + start.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Simplifies `%y = expression` for inputs a, b: f32[225], c: bool[225] and n: i32[225].
std::string simple(const std::string& lines, const std::string& type = "f32", double tolerance = 0) {
  return result_of(checked("graph g { %a = input " + type + "[225] %b = input " + type +
                               "[225] %c = input bool[225] %n = input i32[225]\n" + lines +
                               "\noutput y = %y }",
                           tolerance));
}

std::size_t count_nodes(const ir::Graph& g, const std::string& op) {
  std::size_t count = 0;
  for (NodeId id = 0; id < g.size(); ++id) count += g.node(id).op_name() == op;
  return count;
}

}  // namespace

TEST_CASE("simplify: identities of arithmetic hold for every value") {
  CHECK(simple("%y = add %a, -0") == "%a");
  CHECK(simple("%y = add %a, 0") == "add %a, 0");
  CHECK(simple("%y = sub %a, 0") == "%a");
  CHECK(simple("%y = sub %a, -0") == "add %a, 0");
  CHECK(simple("%y = sub %a, 2") == "add %a, -2");
  CHECK(simple("%y = add 2, %a") == "add %a, 2");
  CHECK(simple("%m = neg %b\n%y = add %a, %m") == "sub %a, %b");
  CHECK(simple("%m = neg %a\n%y = add %m, %b") == "sub %b, %a");
  CHECK(simple("%m = neg %b\n%y = sub %a, %m") == "add %a, %b");
  CHECK(simple("%y = sub -0, %a") == "neg %a");
  CHECK(simple("%y = sub 0, %a") == "sub 0, %a");
  CHECK(simple("%y = sub %a, %a") == "sub %a, %a");
  CHECK(simple("%y = mul %a, 1") == "%a");
  CHECK(simple("%y = mul -1, %a") == "neg %a");
  CHECK(simple("%y = mul %a, 0") == "mul %a, 0");
  CHECK(simple("%m = neg %a\n%k = neg %b\n%y = mul %m, %k") == "mul %a, %b");
  CHECK(simple("%y = div %a, 1") == "%a");
  CHECK(simple("%y = div %a, 8") == "mul %a, 0.125");
  CHECK(simple("%y = div %a, -0.5") == "mul %a, -2");
  CHECK(simple("%y = div %a, 3") == "div %a, 3");
  CHECK(simple("%y = div %a, 0") == "div %a, 0");
  CHECK(simple("%y = div 1, %a") == "reciprocal %a");
  CHECK(simple("%y = pow %a, 2") == "mul %a, %a");
  CHECK(simple("%y = pow %a, 1") == "%a");
  CHECK(simple("%y = pow %a, 0") == "constant f32[225] 1");
  CHECK(simple("%y = pow %a, 0.5") == "pow %a, 0.5");
  CHECK(simple("%m = neg %a\n%y = neg %m") == "%a");
  CHECK(simple("%m = neg %a\n%y = abs %m") == "abs %a");
  CHECK(simple("%m = abs %a\n%y = abs %m") == "abs %a");
  CHECK(simple("%m = floor %a\n%y = floor %m") == "floor %a");
  CHECK(simple("%y = max %a, %a") == "%a");
  CHECK(simple("%y = max -inf, %a") == "%a");
  CHECK(simple("%y = min %a, inf") == "%a");
  CHECK(simple("%y = max %a, 0") == "max %a, 0");
  CHECK(simple("%y = fma %b, %a, 1") == "fma %a, %b, 1");
}

TEST_CASE("simplify: no rewrite that only real numbers allow") {
  CHECK(simple("%s = mul %a, %a\n%y = sqrt %s").substr(0, 4) == "sqrt");
  CHECK(simple("%e = exp %a\n%y = log %e").substr(0, 3) == "log");
  CHECK(simple("%s = add %a, 1\n%y = add %s, 2") == "add %s, 2");
  CHECK(simple("%y = div %a, %a") == "div %a, %a");
  CHECK(simple("%c2 = lt %a, %b\n%y = not %c2").substr(0, 3) == "not");
}

TEST_CASE("simplify: what a range rules out goes") {
  CHECK(simple("%t = tanh %a\n%y = clamp %t, -3, 3") == "tanh %a");
  CHECK(simple("%t = tanh %a\n%y = clamp %t, -1, 1") == "tanh %a");
  CHECK(simple("%t = tanh %a\n%y = clamp %t, -1, 0.5").starts_with("min "));
  CHECK(simple("%t = tanh %a\n%y = clamp %t, -0.5, 1").starts_with("max "));
  CHECK(simple("%t = tanh %a\n%s = add %t, 3\n%y = clamp %s, 0, 6").starts_with("add "));
  CHECK(simple("%t = sin %a\n%s = mul %t, 2\n%y = max %s, -2").starts_with("mul "));
  CHECK(simple("%t = sin %a\n%s = mul %t, 2\n%y = max %s, -1.9").starts_with("max "));
  CHECK(simple("%t = sigmoid %a\n%y = max %t, 0") == "sigmoid %a");
  CHECK(simple("%t = exp %a\n%y = abs %t") == "exp %a");
  CHECK(simple("%t = abs %a\n%y = max %t, 0") == "abs %a");
  CHECK(simple("%t = abs %a\n%m = neg %t\n%y = min %m, -0").starts_with("neg "));
  CHECK(simple("%t = max %a, 1\n%u = min %b, 0\n%y = max %t, %u").starts_with("max "));
  CHECK(simple("%t = sigmoid %a\n%l = gt %t, 2\n%y = select %l, %a, %b") == "%b");
  CHECK(simple("%t = sigmoid %a\n%l = ne %t, 2\n%y = select %l, %a, %b") == "%a");
  CHECK(simple("%t = sigmoid %a\n%l = isinf %t\n%y = select %l, %a, %b") == "%b");
  CHECK(simple("%f = cast %n {dtype = f32}\n%l = isnan %f\n%y = select %l, %a, %b") == "%b");
}

TEST_CASE("simplify: no range that NaN or the sign of a zero breaks") {
  CHECK(simple("%y = max %a, 0") == "max %a, 0");
  CHECK(simple("%t = sqrt %a\n%y = max %t, 0").starts_with("max "));  // sqrt(-0) is -0
  CHECK(simple("%t = sigmoid %a\n%y = min %b, 2") == "min %b, 2");
  CHECK(simple("%t = tanh %a\n%u = sin %b\n%v = add %u, 4\n%y = max %t, %v")
            .starts_with("max "));  // NaN of tanh
  CHECK(simple("%t = sigmoid %a\n%l = lt %t, 2\n%y = select %l, %a, %b").starts_with("select "));
  CHECK(simple("%t = exp %a\n%u = mul %t, 0\n%y = max %u, 1").starts_with("max "));  // 0 times inf
  CHECK(simple("%t = exp %a\n%u = exp %b\n%v = sub %t, %u\n%l = isnan %v\n%y = select %l, %a, %b")
            .starts_with("select "));
}

TEST_CASE("simplify: integers wrap") {
  CHECK(simple("%y = sub %a, %a", "i32") == "constant i32[225] 0");
  CHECK(simple("%y = mul %a, 0", "i64") == "constant i64[225] 0");
  CHECK(simple("%y = add %a, 0", "i32") == "%a");
  CHECK(simple("%y = sub %a, -2147483648", "i32") == "add %a, -2147483648");
  CHECK(simple("%y = floordiv %a, 1", "i32") == "%a");
  CHECK(simple("%y = mod %a, 1", "i32") == "constant i32[225] 0");
  CHECK(simple("%y = and %n, -1") == "%n");
  CHECK(simple("%y = or %n, %n") == "%n");
  CHECK(simple("%y = xor %n, %n") == "constant i32[225] 0");
  CHECK(simple("%y = xor %n, -1") == "not %n");
  CHECK(simple("%y = and %n, 1") == "and %n, 1");
}

TEST_CASE("simplify: logic and comparisons") {
  CHECK(simple("%y = gt %a, %b") == "lt %b, %a");
  CHECK(simple("%y = ge %a, %b") == "le %b, %a");
  CHECK(simple("%y = ne %a, %a") == "isnan %a");
  CHECK(simple("%y = eq %a, %a") == "eq %a, %a");
  CHECK(simple("%y = eq %n, %n") == "constant bool[225] true");
  CHECK(simple("%m = not %c\n%y = not %m") == "%c");
  CHECK(simple("%m = eq %a, %b\n%y = not %m") == "ne %a, %b");
  CHECK(simple("%y = and %c, true") == "%c");
  CHECK(simple("%y = and %c, false") == "constant bool[225] false");
  CHECK(simple("%y = or %c, true") == "constant bool[225] true");
  CHECK(simple("%y = xor %c, true") == "not %c");
  CHECK(simple("%y = select true, %a, %b") == "%a");
  CHECK(simple("%y = select false, %a, %b") == "%b");
  CHECK(simple("%y = select %c, %a, %a") == "%a");
  CHECK(simple("%m = not %c\n%y = select %m, %a, %b") == "select %c, %b, %a");
  CHECK(simple("%t = constant bool[225] true\n%f = constant bool[225] false\n%y = select %c, %t, %f") ==
        "%c");
  CHECK(simple("%t = constant bool[225] true\n%f = constant bool[225] false\n%y = select %c, %f, %t") ==
        "not %c");
}

TEST_CASE("simplify: casts go only when they round nothing") {
  CHECK(simple("%y = cast %a {dtype = f32}") == "%a");
  CHECK(simple("%y = cast %a {dtype = f16}", "f16") == "%a");
  CHECK(simple("%s = mul %a, %b\n%y = cast %s {dtype = f16}", "f16") == "cast %s {dtype = f16}");
  CHECK(simple("%s = max %a, %b\n%y = cast %s {dtype = bf16}", "bf16") == "max %a, %b");
  CHECK(simple("%w = cast %a {dtype = f32}\n%y = cast %w {dtype = f16}", "f16") == "%a");
  CHECK(simple("%w = cast %a {dtype = f64}\n%y = cast %w {dtype = f16}") == "cast %a {dtype = f16}");
  CHECK(simple("%w = cast %a {dtype = f16}\n%y = cast %w {dtype = f32}") == "cast %w {dtype = f32}");
  CHECK(simple("%w = cast %a {dtype = f16}\n%y = cast %w {dtype = f16}") == "cast %a {dtype = f16}");
  CHECK(simple("%w = cast %n {dtype = f32}\n%y = cast %w {dtype = i32}") == "cast %w {dtype = i32}");
  CHECK(simple("%w = cast %n {dtype = f64}\n%y = cast %w {dtype = i32}") == "%n");
  CHECK(simple("%w = cast %c {dtype = bf16}\n%y = cast %w {dtype = bool}") == "%c");
}

TEST_CASE("simplify: constants are computed as the device computes them") {
  const std::string one = "%k = constant f32[225] 1\n%l = constant f32[225] 3\n";
  CHECK(simple(one + "%y = div %k, %l", "f32", 1e-7) == "constant f32[225] 0.33333334");
  CHECK(simple(one + "%9 = div %k, %l\n%y = mul %a, %9", "f32", 1e-7) == "mul %a, 0.33333334");
  CHECK(simple(one + "%y = lt %k, %l") == "constant bool[225] true");
  CHECK(simple(one + "%y = exp %k") == "exp %k");
  CHECK(simple("%i = constant f32[225] inf\n%y = sub %i, %i") == "constant f32[225] nan");
  CHECK(simple("%i = constant i32[225] 2147483647\n%y = add %i, %i") == "constant i32[225] -2");
  CHECK(simple("%i = constant f16[225] 2\n%j = constant f16[225] 3\n%y = mul %i, %j") ==
        "constant f16[225] 6");
  // 2049 is no f16: the sum stays as it is, in f32.
  CHECK(simple("%i = constant f16[225] 2048\n%j = constant f16[225] 1\n%y = add %i, %j") == "add %i, %j");
  CHECK(simple("%i = constant f32[5, 45] 2\n%9 = reshape %i {shape = [225]}\n%y = add %a, %9") ==
        "add %a, 2");
  CHECK(simple("%i = constant f32[223] 2\n%9 = pad %i {lo = [1], hi = [1], value = 2}\n%y = mul %a, %9") ==
        "mul %a, 2");
  CHECK(simple("%i = constant f32[2, 225] 2\n%y = max %i {axes = [0]}") == "constant f32[225] 2");
}

TEST_CASE("simplify: iotas") {
  CHECK(simple("%i = iota i64[225] {axis = 0}\n%y = broadcast %i {shape = [2, 225]}") ==
        "iota i64[2, 225] {axis = 1}");
  CHECK(simple("%i = iota i64[3, 4] {axis = 0}\n%y = permute %i {perm = [1, 0]}") ==
        "iota i64[4, 3] {axis = 1}");
  CHECK(simple("%i = iota i64[3, 1] {axis = 1}\n%y = add %i, %i") == "constant i64[3, 1] 0");
  CHECK(simple("%i = iota i32[3, 4] {axis = 0}\n%y = slice %i {starts = [0, 2], stops = [2, 3]}") ==
        "iota i32[2, 1] {axis = 0}");
}

TEST_CASE("simplify: views of views are one view") {
  auto view = [](const std::string& lines) {
    return result_of(
        checked("graph g { %x = input f32[2, 3, 4] %k = input f32[3, 1]\n" + lines + "\noutput y = %y }"));
  };
  CHECK(view("%y = reshape %x {shape = [2, 3, 4]}") == "%x");
  CHECK(view("%a = reshape %x {shape = [6, 4]}\n%y = reshape %a {shape = [24]}") ==
        "reshape %x {shape = [24]}");
  CHECK(view("%a = reshape %x {shape = [6, 4]}\n%y = reshape %a {shape = [2, 3, 4]}") == "%x");
  CHECK(view("%a = permute %x {perm = [2, 0, 1]}\n%y = permute %a {perm = [1, 2, 0]}") == "%x");
  CHECK(view("%a = permute %x {perm = [2, 0, 1]}\n%y = permute %a {perm = [2, 1, 0]}") ==
        "permute %x {perm = [1, 0, 2]}");
  CHECK(view("%y = permute %k {perm = [1, 0]}") == "reshape %k {shape = [1, 3]}");
  CHECK(view("%a = slice %x {starts = [0, 1, 1], stops = [2, 3, 4], steps = [1, 1, 2]}\n"
             "%y = slice %a {starts = [1, 0, 1], stops = [2, 2, 2]}") ==
        "slice %x {starts = [1, 1, 3], stops = [2, 3, 4]}");
  CHECK(view("%y = slice %x {starts = [0, 0, 0], stops = [2, 3, 4]}") == "%x");
  CHECK(view("%a = flip %x {axes = [0, 1]}\n%y = flip %a {axes = [1, 2]}") == "flip %x {axes = [0, 2]}");
  CHECK(view("%a = flip %x {axes = [0, 1]}\n%y = flip %a {axes = [0, 1]}") == "%x");
  CHECK(view("%y = flip %k {axes = [1]}") == "%k");
  CHECK(view("%y = pad %x {lo = [0, 0, 0], hi = [0, 0, 0], value = 1}") == "%x");
  CHECK(view("%a = broadcast %k {shape = [3, 4]}\n%y = broadcast %a {shape = [2, 3, 4]}") ==
        "broadcast %2 {shape = [2, 3, 4], dims = [1]}");
  CHECK(view("%y = broadcast %k {shape = [1, 3, 1]}") == "reshape %k {shape = [1, 3, 1]}");
  CHECK(view("%a = broadcast %x {shape = [5, 2, 3, 4]}\n%y = reshape %a {shape = [5, 2, 3, 1, 4]}") ==
        "broadcast %x {shape = [5, 2, 3, 1, 4], dims = [1, 2, 4]}");
  CHECK(view("%a = broadcast %x {shape = [5, 2, 3, 4]}\n%y = permute %a {perm = [1, 2, 0, 3]}") ==
        "broadcast %x {shape = [2, 3, 5, 4], dims = [0, 1, 3]}");
}

TEST_CASE("simplify: maps are computed before broadcasts and reshapes") {
  ir::Graph g = checked(R"(graph g { %x = input f32[4, 8] %m = input f32[4]
    %k = reshape %m {shape = [4, 1]}
    %b = broadcast %k {shape = [4, 8]}
    %i = isinf %b
    %q = select %i, 0, %b
    %y = sub %x, %q
    output %y })");
  CHECK(count_nodes(g, "broadcast") == 1);
  CHECK(g.size() == 7);
  for (NodeId id = 0; id < g.size(); ++id) {
    if (g.node(id).op_name() == "select") CHECK(g.type(id).shape == Shape{4});
  }
}

TEST_CASE("simplify: reductions") {
  auto reduced = [](const std::string& lines, const std::string& type) {
    // Not bitwise: the sign of a sum that is zero depends on the order of summation.
    return checked("graph g { %x = input " + type + "\n" + lines + "\noutput y = %y }", 1e-300);
  };
  CHECK(result_of(reduced("%y = max %x {axes = [1], keepdims = true}", "f32[4, 8]")) ==
        "reshape %1 {shape = [4, 1]}");
  for (const char* op : {"prod", "max", "min"}) {
    CHECK(result_of(reduced("%y = " + std::string(op) + " %x {axes = [1]}", "f32[15, 1]")) ==
          "reshape %x {shape = [15]}");
  }
  CHECK(result_of(reduced("%y = sum %x {axes = [1]}", "f32[15, 1]")) == "reshape %x {shape = [15]}");
  CHECK(result_of(reduced("%y = sum %x", "i32[]")) == "%x");
  CHECK(result_of(reduced("%n = neg %x %m = min %n {axes = [1]} %y = neg %m", "f32[15, 15]")) ==
        "max %x {axes = [1]}");
  CHECK(result_of(reduced("%n = neg %x %y = max %n {axes = [1]}", "f32[15, 15]")) == "max %n {axes = [1]}");
  CHECK(result_of(reduced("%n = neg %x %y = min %n {axes = [1]}", "i32[15, 15]")) == "min %n {axes = [1]}");
  CHECK(result_of(reduced("%y = sum %x {axes = [1]}", "f16[3, 0]")) == "constant f16[3] 0");
  CHECK(result_of(reduced("%y = prod %x {axes = [1]}", "i32[3, 0]")) == "constant i32[3] 1");
  CHECK(result_of(reduced("%y = any %x {axes = [1]}", "bool[3, 0]")) == "constant bool[3] false");
  CHECK(result_of(reduced("%y = all %x {axes = [1]}", "bool[3, 0]")) == "constant bool[3] true");
  CHECK(result_of(reduced("%y = argmax %x {axes = [1]}", "f32[3, 1]")) == "constant i64[3] 0");
}

TEST_CASE("argmax and argmin get their index operand, whatever pass is left out") {
  const auto indexed = [](const std::string& line, const std::string& type) {
    return pass_testing::check_pass(
        index_operands, parse("graph g { %x = input " + type + "\n" + line + "\noutput y = %y }"));
  };
  CHECK(result_of(indexed("%y = argmax %x {axes = [1]}", "f32[3, 8]")) == "argmax %x, %1 {axes = [1]}");
  ir::Graph both = indexed("%y = argmin %x {axes = [0, 2], keepdims = true}", "f32[3, 4, 15]");
  CHECK_THAT(print(both), Catch::Contains("argmin %x, ") && Catch::Contains(", 15\n"));
  CHECK(count_nodes(both, "iota") == 2);
}

TEST_CASE("simplify: equal computations are one node, the first one") {
  ir::Graph g = checked(R"(graph g { %x = input f32[4, 8] %y = input f32[4, 8] %unused = input f32[3]
    %a = add %x, %y @first.1
    %b = add %y, %x @second.2
    %dead = exp %x
    %m1 = max %a {axes = [1], keepdims = true}
    %m2 = max %b {axes = [1]}
    %s1 = sub %a, %m1
    %r = reshape %m2 {shape = [4, 1]}
    %n = neg %r
    %s2 = add %b, %n
    %p = mul %s1, %s2
    output %p
    output again = %p
    output x = %x })");
  CHECK(print(g) == R"(graph g {
  %x = input f32[4, 8]
  %y = input f32[4, 8]
  %unused = input f32[3]
  %a = add %x, %y @first.1
  %m2 = max %a {axes = [1]}
  %5 = broadcast %m2 {shape = [4, 8], dims = [0]}
  %s1 = sub %a, %5
  %p = mul %s1, %s1
  output %p
  output again = %p
  output %x
}
)");
}

TEST_CASE("simplify: empty tensors") {
  checked(
      "graph g { %x = input f32[0, 8] %m = max %x {axes = [1], keepdims = true} %y = sub %x, %m output %y }");
  checked("graph g { %x = input f32[0, 1] %y = broadcast %x {shape = [0, 5]} %z = exp %y output %z }");
  checked(
      "graph g { %x = input f32[1] %y = broadcast %x {shape = [0, 0]} %z = permute %y {perm = [1, 0]} output "
      "%z }");
}

TEST_CASE("simplify: long chains take linear time and no stack") {
  ir::Graph g;
  NodeId x = g.input("x", {DType::f32, {4}});
  NodeId y = g.reshape(x, {2, 2});
  for (int i = 0; i < 50000; ++i) {
    y = g.map(i % 3 == 0 ? ScalarOp::neg : ScalarOp::tanh, {y});
    y = g.map(ScalarOp::add, {y, g.constant(Scalar::of(DType::f32, i), {2, 2})});
  }
  g.output("y", y);
  ir::Graph s = simplify(g);
  CHECK(s.size() > 100000);
  CHECK(same(s, simplify(s)));
}

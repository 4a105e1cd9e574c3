#include <catch2/catch.hpp>

#include <limits>

#include "ir/parse.h"
#include "ir/print.h"

using namespace bz;

namespace {

void check_round_trip(const ir::Graph& g) {
  std::string text = print(g);
  INFO(text);
  ir::Graph again = parse(text);
  CHECK(same(g, again));
  CHECK(print(again) == text);
}

std::string error_of(const std::string& text, const ParseOptions& options = {"t.braze", {}}) {
  try {
    parse(text, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The body of a graph with one f32[4, 8] input x.
std::string with_x(const std::string& body) { return "graph g {\n%x = input f32[4, 8]\n" + body + "\n}\n"; }

}  // namespace

TEST_CASE("text: a program reads as the graph it describes") {
  ir::Graph g = parse(R"(
graph softmax(R = 4, D = 8) {  # rows
  %x = input f32[R, D]
  %m = max %x {axes = [-1], keepdims = true}   // the peak
  %d = sub %x, %m
  %e = exp %d
  %s = sum %e {axes = 1, keepdims = true}
  %y = div %e, %s
  output %y
  output peak = %m
})");
  CHECK(print(g) == R"(graph softmax {
  %x = input f32[4, 8]
  %m = max %x {axes = [1], keepdims = true}
  %2 = broadcast %m {shape = [4, 8], dims = [0, 1]}
  %d = sub %x, %2
  %e = exp %d
  %s = sum %e {axes = [1], keepdims = true}
  %6 = broadcast %s {shape = [4, 8], dims = [0, 1]}
  %y = div %e, %6
  output %y
  output peak = %m
}
)");
  CHECK(g.node(1).loc == SourceLoc{"<text>", 4});
  check_round_trip(g);
}

TEST_CASE("text: every kind of node survives the round trip") {
  ir::Graph g("all kinds");
  NodeId x = g.input("x", {DType::f32, {4, 8}});
  NodeId b = g.input("b", {DType::boolean, {8}});
  NodeId i = g.iota(DType::i64, {4, 8}, 1);
  NodeId h = g.map(ScalarOp::cast, {x}, DType::f16);
  NodeId wide = g.broadcast(b, {4, 8}, {1});
  g.map(ScalarOp::select, {wide, x, x});
  g.reshape(x, {2, -1});
  NodeId p = g.permute(x, {1, 0});
  g.slice(p, {1, 0}, {8, 4}, {3, 2});
  g.slice(p, {3, 0}, {3, 4});
  g.flip(x, {1});
  NodeId padded = g.pad(x, {0, 1}, {2, 0}, Scalar::of(DType::f32, -std::numeric_limits<double>::infinity()));
  g.reduce(Monoid::max, g.pad(x, {0, 1}, {2, 0}, std::nullopt), {1}, false);
  g.window(padded, {1, 0}, {3, 2}, {2, 1}, {1, 2});
  g.reduce(Monoid::argmax, h, {0}, true);
  g.reduce(ReduceAttrs{Monoid::argmin, {0}, false, 0, false}, {x, i});
  g.reduce(ReduceAttrs{Monoid::argmin, {0}, false, 1, false}, {x, i});
  g.reduce(Monoid::any, wide, {0, 1}, false);
  NodeId m = g.reduce(ReduceAttrs{Monoid::max_sumexp, {1}, false, 0, false}, {x});
  NodeId s = g.reduce(ReduceAttrs{Monoid::max_sumexp, {1}, false, 1, false}, {x});
  g.reduce(ReduceAttrs{Monoid::max_sumexp, {0}, false, 1, true}, {m, s});
  NodeId t = g.reduce(ReduceAttrs{Monoid::max_sumexp, {1}, false, 2, false}, {x, x});
  g.reduce(ReduceAttrs{Monoid::max_sumexp, {0}, false, 2, true}, {m, s, t});
  g.output("y", s);
  g.output("y2", s);
  check_round_trip(g);
}

TEST_CASE("text: every map in every type it takes survives the round trip") {
  for (DType t : kAllDTypes) {
    ir::Graph g;
    NodeId x = g.input("x", {t, {3}}), c = g.input("c", {DType::boolean, {3}});
    for (const ScalarOpInfo& row : scalar_ops()) {
      if (!accepts(row.op, t)) continue;
      std::vector<NodeId> operands(static_cast<std::size_t>(row.arity), x);
      if (row.op == ScalarOp::select) operands[0] = c;
      g.map(row.op, operands, DType::bf16);
    }
    check_round_trip(g);
  }
}

TEST_CASE("text: constants are exact") {
  const double inf = std::numeric_limits<double>::infinity();
  ir::Graph g;
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (double v : {0.0, -0.0, 0.1, -1.0 / 3, 1e-45, 5e-324, 6e-8, 65504.0, 3.3895313892515355e38, 1e20, inf,
                     -inf, std::numeric_limits<double>::quiet_NaN(), 16777217.0, 123456789012345680000.0}) {
      g.constant(Scalar::of(t, v), {2});
    }
  }
  for (std::int64_t v :
       {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    g.constant(Scalar::of_int(DType::i64, v));
  }
  g.constant(Scalar::of_int(DType::i32, -7));
  g.constant(Scalar::of_int(DType::boolean, 1), {0, 3});
  check_round_trip(g);
  CHECK(parse(with_x("%c = constant f64 -0")).node(1).as<ConstantAttrs>()->value ==
        Scalar::of(DType::f64, -0.0));
}

TEST_CASE("text: names are unique, and survive") {
  ir::Graph g("a graph \"quoted\"\n");
  NodeId x = g.input("x", {DType::f32, {2}});
  NodeId a = g.map(ScalarOp::exp, {x});
  NodeId b = g.map(ScalarOp::exp, {a});
  NodeId c = g.map(ScalarOp::exp, {b});
  NodeId d = g.map(ScalarOp::exp, {c});
  g.set_node_name(a, "x");
  g.set_node_name(b, "x");
  g.set_node_name(c, "3");
  g.set_node_name(d, "two words~2\\");
  g.output("x", b);
  g.output("z", c);
  CHECK_THAT(print(g), Catch::Contains("%x~3 = exp %x~2"));
  check_round_trip(g);
}

TEST_CASE("text: literals are constants of the type and shape of the other operands") {
  ir::Graph g = parse(with_x(R"(
    %h = cast %x {dtype = f16}
    %a = mul 0.1, %h
    %c = gt %x, -inf
    %s = select %c, %x, 2
    %k = clamp %x, -1, 1
    %m = max %x, 0
    output %m)"));
  CHECK_THAT(print(g), Catch::Contains("%a = mul 0.1, %h") && Catch::Contains("%c = gt %x, -inf") &&
                           Catch::Contains("%s = select %c, %x, 2") &&
                           Catch::Contains("%k = clamp %x, -1, 1") && Catch::Contains("%m = max %x, 0\n"));
  CHECK(g.node(2).as<ConstantAttrs>()->value == Scalar::of(DType::f16, 0.1));
  check_round_trip(g);
}

TEST_CASE("text: a constant stands in place only when the parser would make it there") {
  ir::Graph g;
  NodeId x = g.input("x", {DType::f32, {2}});
  NodeId shared = g.constant(Scalar::of(DType::f32, 2), {2});
  g.map(ScalarOp::mul, {x, shared});
  g.map(ScalarOp::add, {x, shared});
  NodeId early = g.constant(Scalar::of(DType::f32, 3), {2});
  NodeId e = g.map(ScalarOp::exp, {x});
  g.map(ScalarOp::add, {e, early});
  NodeId one = g.constant(Scalar::of(DType::f32, 1), {2}), two = g.constant(Scalar::of(DType::f32, 2), {2});
  g.map(ScalarOp::add, {one, two});
  NodeId lo = g.constant(Scalar::of(DType::f32, 1), {2}), hi = g.constant(Scalar::of(DType::f32, 2), {2});
  g.map(ScalarOp::clamp, {x, hi, lo});
  NodeId named = g.constant(Scalar::of(DType::f32, 1), {2});
  g.set_node_name(named, "one");
  g.map(ScalarOp::mul, {named, x});
  check_round_trip(g);
}

TEST_CASE("text: scopes") {
  ir::Graph g = parse(with_x("%e = exp %x @softmax.1/max.2\n%f = exp %e\n%h = exp %f @softmax.1"));
  CHECK(g.scopes()[static_cast<std::size_t>(g.node(1).scope)] == "softmax.1/max.2");
  CHECK(g.node(2).scope == 0);
  check_round_trip(g);
}

TEST_CASE("text: sizes") {
  const std::string text = R"(graph g(R = 4, D = R * 2) {
    %x = input f32[R, D * 2 / 4 + 1]
    %y = reshape %x {shape = [R * (-1) , 1]}
  })";
  CHECK_THAT(error_of(text), Catch::Contains("t.braze:3: error: expected an integer or a size, got '('"));
  const std::string good = R"(graph g(R = 4, D = R * 2) {
    %x = input f32[R, D * 2 / 4 + 1]
    %n = div %x, D
    %p = pad %x {lo = [R - 4, 0], hi = [0, R], value = -0}
  })";
  CHECK(parse(good).type(0).shape == Shape{4, 5});
  CHECK(parse(good).node(1).as<ConstantAttrs>()->value.f == 8);
  CHECK(parse(good, {"f", {{"R", 6}}}).type(0).shape == Shape{6, 7});
  CHECK(error_of(good, {"f", {{"Q", 6}}}) == "f:1: error: graph g has no size Q, its sizes are R, D");
  CHECK(error_of(good, {"f", {{"D", 5}}}) == "f:2: error: 10 / 4 is not an integer");
  CHECK(error_of(good, {"f", {{"R", -1}}}) == "f:1: error: size R is -1, sizes are not negative");
  CHECK_THAT(error_of(with_x(""), {"f", {{"Q", 6}}}), Catch::Contains("it declares none"));
}

TEST_CASE("text: errors say where and what") {
  auto error = [](const std::string& body) { return error_of(with_x(body)); };
  CHECK(error("%y = sofmax %x") == "t.braze:3: error: unknown operation sofmax; did you mean softmax?");
  CHECK(error("%y = reshap %x") == "t.braze:3: error: unknown operation reshap; did you mean reshape?");
  CHECK(error("\n%y = exp %z") == "t.braze:4: error: %z is not defined; did you mean %x?");
  CHECK(error("%x = exp %x") == "t.braze:3: error: %x is already defined on line 2");
  CHECK(error("%y = sum %x {axis = 1}") ==
        "t.braze:3: error: sum has no attribute axis, it takes axes, keepdims, merge");
  CHECK(error("%y = exp %x {axes = [1]}") == "t.braze:3: error: exp has no attribute axes, it takes none");
  CHECK(error("%y = exp %x, %x") == "t.braze:3: error: exp takes 1 operand, got 2");
  CHECK(error("%y = exp") == "t.braze:3: error: exp takes 1 operand, got 0");
  CHECK(error("%y = exp\n%z = exp %x") == "t.braze:3: error: exp takes 1 operand, got 0");
  CHECK(error("%y = reshape %x") == "t.braze:3: error: reshape needs the attribute shape");
  CHECK(error("%y = reshape 3 {shape = [1]}") == "t.braze:3: error: reshape takes a %name, got 3");
  CHECK(error("%y = add 1, 2") == "t.braze:3: error: add of numbers only: make one of them a `constant`");
  CHECK(error("%i = input i32[2]\n%y = mul %i, 0.5") == "t.braze:4: error: 0.5 is not a value of type i32");
  CHECK(error("%i = input i32[2]\n%y = mul %i, 3000000000") ==
        "t.braze:4: error: 3000000000 is not a value of type i32");
  CHECK(error("%y = mul %x, 1e39") == "t.braze:3: error: 1e39 is not a value of type f32");
  CHECK(error("%y = mul %x, N") == "t.braze:3: error: unknown size N, the graph declares none");
  CHECK(error("%y = input f33[2]") ==
        "t.braze:3: error: unknown type 'f33', types are f32, f16, bf16, f64, i32, i64, bool");
  CHECK(error("%y = exp %x {") ==
        "t.braze:5: error: expected '}' at the end of the graph, got the end of the text");
  CHECK(error("%y = sum %x {axes = [2]}").substr(0, 18) == "t.braze:3: error: ");
  CHECK(error("%y = input f32[3]\n%s = add %x, %y") ==
        "t.braze:4: error: cannot add f32[4,8] and f32[3]: dimension -1 is 8 on the left and 3 on the right");
  CHECK(error("%y = exp %x ; ") == "t.braze:3: error: unexpected character ';'");
  CHECK(error("%y = exp %x $").substr(0, 18) == "t.braze:3: error: ");
  CHECK(error("%y = mul %x, 4x") == "t.braze:3: error: malformed number '4x'");
  CHECK(error_of("") == "t.braze:1: error: expected 'graph', got the end of the text");
  CHECK(error_of("graph g {") ==
        "t.braze:1: error: expected '}' at the end of the graph, got the end of the text");
  CHECK(error_of("graph g {} graph h {}") ==
        "t.braze:1: error: expected nothing after the graph, got 'graph'");
  CHECK_THROWS_WITH(parse_file("no/such/file.braze"), "error: cannot read no/such/file.braze");
}

TEST_CASE("text: arbitrary bytes are refused, never more") {
  const std::string good =
      print(parse(with_x("%y = sum %x {axes = [1]} @s.1\n%z = mul %y, -0.5\noutput z = %z")));
  for (std::size_t cut = 0; cut + 2 < good.size(); ++cut) CHECK(error_of(good.substr(0, cut)) != "no error");
  std::uint32_t state = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int k = 0; k < 2; ++k) {
      state = state * 1664525u + 1013904223u;
      text[(state >> 8) % text.size()] = static_cast<char>(state >> 24);
    }
    error_of(text);  // Error or a graph
  }
}

TEST_CASE("text: a chain of 100000 nodes") {
  ir::Graph g;
  NodeId x = g.input("x", {DType::f32, {4}});
  for (int i = 0; i < 50000; ++i) {
    x = g.map(ScalarOp::mul, {x, g.constant(Scalar::of(DType::f32, 0.5), {4})});
  }
  g.output("y", x);
  CHECK(same(g, parse(print(g))));
}

TEST_CASE("text: composites expand under their scope and keep their name") {
  ir::Graph g = parse(R"(graph gn_tail(N = 2, C = 4) {
    %x = input f32[N, C, 3, 3]
    %gamma = input f32[C]
    %beta = input f32[C]
    %n = group_norm %x, %gamma, %beta {groups = C / 2, eps = 1e-05}
    %t = gelu %n {approximate = "tanh"}
    %y = logsumexp %t {axes = [1], keepdims = true}
    output %y
  })");
  const Node& y = g.node(g.outputs()[0].node);
  CHECK(y.name == "y");
  CHECK(y.type == Type{DType::f32, {2, 1, 3, 3}});
  CHECK(g.scopes()[static_cast<std::size_t>(y.scope)].substr(0, 9) == "logsumexp");
  check_round_trip(g);
  CHECK_THAT(error_of(with_x("%y = softmax %x {axis = 1}")),
             Catch::Contains("t.braze:3: error: ") && Catch::Contains("axes"));
  CHECK_THAT(error_of(with_x("%y = softmax 1")), Catch::Contains("softmax takes a %name, got 1"));
}

TEST_CASE("text: the examples parse, with their sizes and with others") {
  for (const char* name :
       {"attention_softmax", "gn_tail", "hand_written_softmax", "log_softmax_rows", "logsumexp_dim0"}) {
    ir::Graph g = parse_file(std::string(BRAZE_SOURCE_DIR) + "/examples/" + name + ".braze");
    CHECK(g.name() == name);
    CHECK(same(g, parse(print(g))));
  }
  ir::Graph small =
      parse_file(std::string(BRAZE_SOURCE_DIR) + "/examples/gn_tail.braze", {{"N", 2}, {"H", 3}});
  CHECK(small.type(small.inputs()[0]).shape == Shape{2, 64, 3, 126});
}

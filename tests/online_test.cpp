#include <catch2/catch.hpp>

#include "compiler/online/online.h"
#include "compiler/simplify/simplify.h"
#include "pass_testing.h"

using namespace bz;
using namespace bz::pass_testing;

namespace {

ir::Graph both(const ir::Graph& g) { return online(simplify(g)); }

ir::Graph checked(const std::string& text, double tolerance = 1e-11) {
  ir::Graph after = check_pass(both, parse(text), tolerance);
  CHECK(same(after, online(after)));
  CHECK(same(after, simplify(after)));
  return after;
}

int count_reductions(const ir::Graph& g, Monoid monoid) {
  int count = 0;
  for (NodeId id = 0; id < g.size(); ++id) {
    const ReduceAttrs* reduce = g.node(id).as<ReduceAttrs>();
    count += reduce && reduce->monoid == monoid;
  }
  return count;
}

// All reductions are components of one state.
bool one_state(const ir::Graph& g, Monoid monoid) {
  const ReduceAttrs* first = nullptr;
  NodeId operand = kNoNode;
  for (NodeId id = 0; id < g.size(); ++id) {
    const ReduceAttrs* reduce = g.node(id).as<ReduceAttrs>();
    if (!reduce) continue;
    if (!first) {
      first = reduce;
      operand = g.node(id).operands[0];
    }
    if (reduce->monoid != monoid || reduce->axes != first->axes || g.node(id).operands[0] != operand)
      return false;
  }
  return first != nullptr;
}

std::vector<double> run(const ir::Graph& g, const Inputs& inputs) {
  std::vector<double> out;
  auto results = interpret(g, inputs);
  const HostTensor& t = results.begin()->second;
  for (std::int64_t i = 0; i < t.elements(); ++i) out.push_back(t.value(i));
  return out;
}

HostTensor tensor(const Type& type, const std::vector<double>& values) {
  HostTensor t(type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    t.set(static_cast<std::int64_t>(i), Scalar::of(type.dtype, values[i]));
  }
  return t;
}

}  // namespace

TEST_CASE("online: softmax by hand is one state") {
  for (const char* type : {"f32", "f16", "bf16", "f64"}) {
    ir::Graph g = checked(fmt::format(R"(graph g {{ %x = input {}[15, 16]
      %m = max %x {{axes = [1], keepdims = true}}
      %d = sub %x, %m
      %e = exp %d
      %s = sum %e {{axes = [1], keepdims = true}}
      %y = div %e, %s
      output %y
      output peak = %m }})",
                                      type));
    CHECK(one_state(g, Monoid::max_sumexp));
    CHECK(count_reductions(g, Monoid::max_sumexp) == 2);
  }
}

TEST_CASE("online: every guard of the maximum, with and without kept axes") {
  const std::string head = "graph g { %x = input f32[15, 16]\n", zero = "%z = constant f32[15] 0\n";
  const std::string tail =
      "%b = broadcast %p {shape = [15, 16], dims = [0]}\n%d = sub %x, %b\n%e = exp %d\n"
      "%s = sum %e {axes = [1]}\n%l = log %s\n%y = add %l, %p\noutput %y\noutput %m }";
  for (const char* guard :
       {"%i = isinf %m\n%p = select %i, 0, %m\n", "%i = isfinite %m\n%p = select %i, %m, 0\n",
        "%i = eq %m, -inf\n%p = select %i, 0, %m\n", "%p = add %m, -0\n"}) {
    ir::Graph g = checked(head + "%m = max %x {axes = [1]}\n" + guard + tail);
    INFO(print(g));
    CHECK(one_state(g, Monoid::max_sumexp));
  }
  ir::Graph kept = checked(head + R"(
    %m = max %x {axes = [1], keepdims = true}
    %b = broadcast %m {shape = [15, 16]}
    %i = isinf %b
    %p = select %i, 0, %b
    %n = neg %p
    %d = add %n, %x
    %e = exp %d
    %s = sum %e {axes = [1]}
    output %s })");
  CHECK(one_state(kept, Monoid::max_sumexp));
  CHECK(kept.size() == 2);
}

TEST_CASE("online: sums weighted by exp(x - max x) are one state with the sum of exp") {
  const std::string head =
      "graph g { %x = input f32[15, 16] %m = max %x {axes = [1]} %b = broadcast %m {shape = [15, 16], dims = "
      "[0]}\n"
      "%d = sub %x, %b %e = exp %d %s = sum %e {axes = [1]}\n"
      "%w = input f32[15, 16] %v = input f32[16] %c = input bool[15, 16]\n";
  ir::Graph means =
      checked(head + R"(%a = mul %e, %w %t = sum %a {axes = [1]} %f = mul %v, %e %u = sum %f {axes = [1]}
      %k = cast %c {dtype = f32} %n = mul %e, %k %l = sum %n {axes = [1]}
      output %s output %t output %u output %l output again = %t })");
  CHECK(one_state(means, Monoid::max_sumexp));
  CHECK(count_reductions(means, Monoid::max_sumexp) == 5);  // the maximum guards against -inf
  CHECK(means.node(means.outputs()[1].node).operands.size() == 2);
  std::vector<std::string> names;
  for (NodeId id : means.inputs()) names.push_back(means.node(id).name);
  CHECK(names == std::vector<std::string>{"x", "w", "v", "c"});

  ir::Graph alone = checked(head + "%a = mul %w, %e %t = sum %a {axes = [1]} output %t }");
  CHECK(one_state(alone, Monoid::max_sumexp));
  ir::Graph guarded = checked(R"(graph g { %x = input f32[15, 16] %w = input f32[15, 16]
      %m = max %x {axes = [1], keepdims = true} %i = isinf %m %p = select %i, 0, %m %d = sub %x, %p %e = exp %d
      %a = mul %e, %w %t = sum %a {axes = [1]} output %t })");
  CHECK(one_state(guarded, Monoid::max_sumexp));
  CHECK(guarded.size() == 3);
  for (const char* type : {"f16", "bf16", "f64"}) {
    ir::Graph g = checked(fmt::format(R"(graph g {{ %x = input {0}[15, 16] %w = input {0}[15, 16]
      %m = max %x {{axes = [0]}} %d = sub %x, %m %e = exp %d %a = mul %e, %w %t = sum %a {{axes = [0]}}
      %s = sum %e {{axes = [0]}} %y = div %t, %s output %y }})",
                                      type));
    CHECK(one_state(g, Monoid::max_sumexp));
  }
}

TEST_CASE("online: weights that wait for the maximum stay sums") {
  const std::string head =
      "graph g { %x = input f32[15, 16] %w = input f32[15, 16] %m = max %x {axes = [1], keepdims = true}\n"
      "%d = sub %x, %m %e = exp %d %s = sum %e {axes = [1], keepdims = true}\n";
  for (const char* body :
       {"%a = mul %e, %d %t = sum %a {axes = [1]}", "%a = mul %e, %e %t = sum %a {axes = [1]}",
        "%p = div %e, %s %a = mul %e, %p %t = sum %a {axes = [1]}"}) {
    ir::Graph g = checked(head + body + "\noutput %t output %s }");
    CHECK(count_reductions(g, Monoid::max_sumexp) == 2);
    CHECK(count_reductions(g, Monoid::sum) == 1);
  }
  // Each sum's weight needs the other's maximum.
  ir::Graph crossed = checked(R"(graph g { %x = input f32[15, 16] %w = input f32[15, 16]
      %m = max %x {axes = [1], keepdims = true} %n = max %w {axes = [1], keepdims = true}
      %d = sub %x, %m %e = exp %d %f = sub %w, %n %h = exp %f
      %a = mul %e, %f %s = sum %a {axes = [1]} %b = mul %h, %d %t = sum %b {axes = [1]} output %s output %t })");
  CHECK(count_reductions(crossed, Monoid::max_sumexp) == 0);
}

TEST_CASE("online: the maximum and the difference, however they are written") {
  const char* forms[] = {
      "%n = neg %x %k = min %n {axes = [1], keepdims = true} %m = neg %k %d = sub %x, %m",
      "%m = max %x {axes = [1], keepdims = true} %k = sub %m, %x %d = neg %k",
      "%m = min %x {axes = [1], keepdims = true} %d = sub %m, %x",
      "%m = min %x {axes = [1], keepdims = true} %k = sub %x, %m %d = neg %k",
      "%n = neg %x %k = min %x {axes = [1], keepdims = true} %m = neg %k %d = sub %n, %m",
      "%m = min %x {axes = [1], keepdims = true} %i = isinf %m %p = select %i, 0, %m %d = sub %p, %x",
      "%m = min %x {axes = [1], keepdims = true} %i = eq %m, inf %p = select %i, 0, %m %d = sub %p, %x",
      "%m = max %x {axes = [1], keepdims = true} %i = ne %m, -inf %p = select %i, %m, 0 %d = sub %x, %p",
      // What a map that keeps order makes of the maximum.
      "%q = mul %x, 0.3 %k = max %x {axes = [1], keepdims = true} %m = mul %k, 0.3 %d = sub %q, %m",
      "%q = div %x, 7 %k = max %x {axes = [1], keepdims = true} %m = div %k, 7 %d = sub %q, %m",
      "%q = mul %x, 3 %r = add %q, -2 %k = max %q {axes = [1], keepdims = true} %m = add %k, -2 %d = sub %r, "
      "%m"};
  for (const char* form : forms) {
    ir::Graph g =
        checked("graph g { %x = input f32[15, 16] %w = input f32[15, 16]\n" + std::string(form) + R"(
      %e = exp %d %s = sum %e {axes = [1], keepdims = true} %a = mul %w, %e %t = sum %a {axes = [1], keepdims = true}
      %z = div %e, %s %y = mul %z, %t output %y })");
    CHECK(one_state(g, Monoid::max_sumexp));
    CHECK(count_reductions(g, Monoid::max_sumexp) == 3);
  }
  ir::Graph cast = checked(R"(graph g { %x = input f16[15, 16] %f = cast %x {dtype = f32}
      %m = max %x {axes = [1], keepdims = true} %k = cast %m {dtype = f32} %d = sub %f, %k %e = exp %d
      %s = sum %e {axes = [1]} output %s })");
  CHECK(one_state(cast, Monoid::max_sumexp));
  // Other orders, other numbers.
  for (const char* form :
       {"%q = mul %x, -0.3 %k = max %x {axes = [1], keepdims = true} %m = mul %k, -0.3 %d = sub %q, %m",
        "%q = mul %x, 0.3 %k = max %x {axes = [1], keepdims = true} %m = mul %k, 0.2 %d = sub %q, %m",
        "%m = max %x {axes = [1], keepdims = true} %k = sub %x, %m %d = div %k, 7",
        "%m = min %x {axes = [1], keepdims = true} %d = sub %x, %m"}) {
    ir::Graph g = checked("graph g { %x = input f32[15, 16]\n" + std::string(form) +
                          "\n%e = exp %d %s = sum %e {axes = [1]} output %s }");
    CHECK(count_reductions(g, Monoid::max_sumexp) == 0);
  }
}

TEST_CASE("online: softmax over several, outer and reshaped axes") {
  ir::Graph outer = checked(R"(graph g { %x = input f32[16, 15]
    %m = max %x {axes = [0]} %d = sub %x, %m %e = exp %d %s = sum %e {axes = [0]} %y = div %e, %s output %y })");
  CHECK(one_state(outer, Monoid::max_sumexp));
  ir::Graph several = checked(R"(graph g { %x = input f32[5, 3, 1, 15]
    %r = mul %x, 0.5
    %m = max %r {axes = [0, 3], keepdims = true} %d = sub %r, %m %e = exp %d %s = sum %e {axes = [0, 3]} output %s })");
  CHECK(one_state(several, Monoid::max_sumexp));
  ir::Graph whole = checked(R"(graph g { %x = input f32[15, 15]
    %m = max %x %d = sub %x, %m %e = exp %d %s = sum %e output %s })");
  CHECK(one_state(whole, Monoid::max_sumexp));
}

TEST_CASE("online: what is no softmax stays") {
  // Another axis, another operand, a maximum that is not that of the row.
  for (const char* body :
       {"%m = max %x {axes = [0]} %d = sub %x, %m %e = exp %d %s = sum %e {axes = [1]}",
        "%h = mul %x, 0.5 %m = max %h {axes = [1], keepdims = true} %d = sub %x, %m %e = exp %d "
        "%s = sum %e {axes = [1]}",
        "%m = max %x {axes = [1]} %d = sub %x, %m %e = exp %d %s = sum %e {axes = [1]}",
        "%e = exp %x %s = sum %e {axes = [1]}"}) {
    ir::Graph g = checked("graph g { %x = input f32[15, 15]\n" + std::string(body) + "\noutput %s }");
    CHECK(count_reductions(g, Monoid::max_sumexp) == 0);
  }
}

TEST_CASE("online: logsumexp of infinite rows and far values") {
  ir::Graph g = both(parse(R"(graph g { %x = input f32[2, 2]
    %m = max %x {axes = [1]} %i = isinf %m %p = select %i, 0, %m
    %b = broadcast %p {shape = [2, 2], dims = [0]} %d = sub %x, %b %e = exp %d
    %s = sum %e {axes = [1]} %l = log %s %y = add %p, %l output %y })"));
  std::vector<double> y = run(g, {{"x", tensor({DType::f32, {2, 2}}, {1, 2, -kInf, -kInf})}});
  CHECK(y[0] == Approx(2.3132617));
  CHECK(y[1] == -kInf);
  ir::Graph log_softmax = both(parse(R"(graph g { %x = input f32[1, 3]
    %m = max %x {axes = [1], keepdims = true} %d = sub %x, %m %e = exp %d
    %s = sum %e {axes = [1], keepdims = true} %l = log %s %y = sub %d, %l output %y })"));
  y = run(log_softmax, {{"x", tensor({DType::f32, {1, 3}}, {-1e7, -1e7, -1e7 + 1})}});
  CHECK(y[0] == Approx(-1.55144).epsilon(1e-5));
  CHECK(y[2] == Approx(-0.55144).epsilon(1e-5));
}

TEST_CASE("online: variance is moments, however the mean is written") {
  const char* means[] = {
      "%t = sum %x {axes = [1]}\n%m = div %t, 12\n%k = reshape %m {shape = [15, 1]}",
      "%t = sum %x {axes = [1], keepdims = true}\n%k = div %t, 12",
      "%t = sum %x {axes = [1], keepdims = true}\n%k = mul %t, 0.083333336",
      "%t = sum %x {axes = [1], keepdims = true}\n%b = broadcast %t {shape = [15, 12]}\n%k = div %b, 12"};
  const char* deviations[] = {"%d = sub %x, %k", "%d = sub %k, %x", "%n = neg %k\n%d = add %n, %x"};
  const char* squares[] = {"%q = mul %d, %d", "%q = pow %d, 2"};
  for (const char* mean : means) {
    for (const char* deviation : deviations) {
      for (const char* square : squares) {
        ir::Graph g =
            checked(fmt::format("graph g {{ %x = input f32[15, 12]\n{}\n{}\n{}\n%v = sum %q {{axes = [1]}}\n"
                                "output %v\noutput %d\noutput %k }}",
                                mean, deviation, square),
                    1e-6);  // 1/12 is rounded
        CHECK(one_state(g, Monoid::moments));
        CHECK(count_reductions(g, Monoid::moments) == 3);
      }
    }
  }
}

TEST_CASE("online: group norm over reshaped groups and batch norm over several axes") {
  ir::Graph group = checked(R"(graph g { %x = input f32[3, 8, 5, 5]
    %r = reshape %x {shape = [3, 2, 100]}
    %t = sum %r {axes = [2], keepdims = true}
    %m = div %t, 100
    %d = sub %r, %m
    %q = mul %d, %d
    %v = sum %q {axes = [2], keepdims = true}
    %w = div %v, 100
    %e = add %w, 1e-05
    %s = rsqrt %e
    %n = mul %d, %s
    %y = reshape %n {shape = [3, 8, 5, 5]}
    output %y })");
  CHECK(one_state(group, Monoid::moments));
  ir::Graph batch = checked(R"(graph g { %x = input f16[4, 3, 5, 1]
    %t = sum %x {axes = [0, 2, 3], keepdims = true} %m = div %t, 20 %d = sub %x, %m
    %q = mul %d, %d %v = sum %q {axes = [0, 2, 3]} output %v })");
  CHECK(one_state(batch, Monoid::moments));
}

TEST_CASE("online: what is no variance stays") {
  for (const char* body :
       {"%t = sum %x {axes = [1], keepdims = true} %m = div %t, 11 %d = sub %x, %m %q = mul %d, %d "
        "%v = sum %q {axes = [1]}",
        "%t = sum %x {axes = [1], keepdims = true} %m = div %t, 12 %d = sub %x, %m %q = mul %d, %d "
        "%v = sum %q {axes = [0]}",
        "%q = mul %x, %x %v = sum %q {axes = [1]}",
        "%t = sum %x {axes = [1], keepdims = true} %m = div %t, 12 %v = sub %x, %m"}) {
    ir::Graph g = checked("graph g { %x = input f32[15, 12]\n" + std::string(body) + "\noutput %v }");
    CHECK(count_reductions(g, Monoid::moments) == 0);
  }
}

TEST_CASE("online: layer norm of large near values") {
  ir::Graph g = both(parse(R"(graph g { %x = input f32[2, 4]
    %t = sum %x {axes = [1], keepdims = true} %m = div %t, 4 %d = sub %x, %m %q = mul %d, %d
    %v = sum %q {axes = [1], keepdims = true} %w = div %v, 4 %e = add %w, 1e-05 %s = sqrt %e %y = div %d, %s output %y })"));
  std::vector<double> y =
      run(g, {{"x", tensor({DType::f32, {2, 4}}, {40000, 40001, 40002, 40003, 7.3, 7.3, 7.3, 7.3})}});
  CHECK(y[0] == Approx(-1.341635).epsilon(1e-6));
  CHECK(y[2] == Approx(0.447212).epsilon(1e-6));
  for (std::size_t i = 4; i < 8; ++i) CHECK(y[i] == 0);
}

TEST_CASE("online: a sum beside the row it divides") {
  ir::Graph g = checked(R"(graph g { %x = input f32[4, 32]
    %s = sum %x {axes = [1], keepdims = true} %q = div %x, %s %y = add %x, %q output %y })");
  CHECK(count_reductions(g, Monoid::sum) == 1);
}

TEST_CASE("online: mean of squared deviations over everything") {
  for (const char* shape : {"128", "4, 32"}) {
    ir::Graph g = checked(fmt::format(
        "graph g {{ %x = input f32[{}] %m = mean %x %d = sub %x, %m %q = square %d %y = mean %q output %y }}",
        shape));
    CHECK(one_state(g, Monoid::moments));
    CHECK(count_reductions(g, Monoid::moments) == 1);
  }
}

TEST_CASE("online: composites take the same form as programs written by hand") {
  for (const char* op : {"softmax", "log_softmax", "logsumexp"}) {
    for (const char* type : {"f32", "bf16"}) {
      for (const char* axes : {"[1]", "[0]", "[0, 2]"}) {
        ir::Graph g = checked(fmt::format(
            "graph g {{ %x = input {}[5, 9, 6] %y = {} %x {{axes = {}}} output %y }}", type, op, axes));
        INFO(print(g));
        CHECK(one_state(g, Monoid::max_sumexp));
      }
    }
  }
  for (const char* op : {"layer_norm %x {axes = [1, 2]}", "layer_norm %x", "group_norm %x {groups = 3}",
                         "instance_norm %x", "var %x {axes = [0, 2]}", "std %x {axes = [1]}"}) {
    for (const char* type : {"f32", "f16"}) {
      ir::Graph g =
          checked(fmt::format("graph g {{ %x = input {}[5, 9, 6] %y = {} output %y }}", type, op), 1e-6);
      INFO(print(g));
      CHECK(one_state(g, Monoid::moments));
    }
  }
}

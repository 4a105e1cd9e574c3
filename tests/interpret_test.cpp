// The reference interpreter against plain loops, and the faults of softmaxes and reductions seen elsewhere.
#include "ir/interpret.h"

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/compare.h"
#include "ir/parse.h"
#include "ir/verify.h"

using namespace bz;  // NOLINT

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

HostTensor tensor(const Type& type, const std::vector<double>& values) {
  HostTensor t(type);
  REQUIRE(t.elements() == static_cast<std::int64_t>(values.size()));
  for (std::int64_t k = 0; k < t.elements(); ++k) {
    t.set(k, Scalar::of(type.dtype, values[static_cast<std::size_t>(k)]));
  }
  return t;
}

std::vector<double> values(const ReferenceTensor& t) {
  std::vector<double> out;
  for (std::int64_t k = 0; k < t.type.elements(); ++k) out.push_back(t.value(k));
  return out;
}

// NaN equals NaN; zeros must have the same sign.
void require_same(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    INFO("element " << k << ": " << got[k] << ", expected " << expected[k]);
    REQUIRE((got[k] == expected[k] || (std::isnan(got[k]) && std::isnan(expected[k]))));
    REQUIRE((std::isnan(got[k]) || std::signbit(got[k]) == std::signbit(expected[k])));
  }
}

std::vector<double> run(ir::Graph& g, NodeId y, const std::map<std::string, HostTensor>& inputs = {}) {
  static int count = 0;
  const std::string name = "y" + std::to_string(count++);
  g.output(name, y);
  verify_or_throw(g, "the test");
  return values(interpret_reference(g, inputs).at(name));
}

std::vector<double> reduce_row(Monoid monoid, const std::vector<double>& row, DType dtype = DType::f32) {
  ir::Graph g;
  const Type type{dtype, {static_cast<std::int64_t>(row.size())}};
  return run(g, g.reduce(monoid, g.input("x", type), {0}, false), {{"x", tensor(type, row)}});
}

std::vector<double> iota_values(std::int64_t count) {
  std::vector<double> v(static_cast<std::size_t>(count));
  std::iota(v.begin(), v.end(), 0.0);
  return v;
}

}  // namespace

TEST_CASE("views move elements where they say") {
  ir::Graph g;
  const Type type{DType::i32, {2, 3}};
  const std::map<std::string, HostTensor> in = {{"x", tensor(type, {0, 1, 2, 3, 4, 5})}};
  const NodeId x = g.input("x", type);
  require_same(run(g, g.permute(x, {1, 0}), in), {0, 3, 1, 4, 2, 5});
  require_same(run(g, g.flip(x, {1}), in), {2, 1, 0, 5, 4, 3});
  require_same(run(g, g.slice(x, {0, 1}, {2, 3}), in), {1, 2, 4, 5});
  require_same(run(g, g.slice(x, {1, 0}, {2, 3}, {1, 2}), in), {3, 5});
  require_same(run(g, g.slice(x, {1, 1}, {1, 3}), in), {});
  require_same(run(g, g.reshape(g.permute(x, {1, 0}), {2, 3}), in), {0, 3, 1, 4, 2, 5});
  require_same(run(g, g.pad(x, {1, 0}, {0, 1}, Scalar::of_int(DType::i32, 9)), in),
               {9, 9, 9, 9, 0, 1, 2, 9, 3, 4, 5, 9});
  require_same(run(g, g.window(x, {1}, {2}), in), {0, 1, 1, 2, 3, 4, 4, 5});
  require_same(run(g, g.window(x, {1}, {2}, {1}, {2}), in), {0, 2, 3, 5});
  require_same(run(g, g.broadcast(g.slice(x, {0, 0}, {2, 1}), {2, 2, 2}, {0, 2}), in),
               {0, 0, 0, 0, 3, 3, 3, 3});
  require_same(run(g, g.iota(DType::i64, {2, 3}, 1), in), {0, 1, 2, 0, 1, 2});
  require_same(run(g, g.flip(g.pad(g.reshape(x, {6}), {0}, {2}, Scalar::of_int(DType::i32, 7)), {0}), in),
               {7, 7, 5, 4, 3, 2, 1, 0});
}

TEST_CASE("a reshape of any view is the row-major order of what the view shows") {
  const Type type{DType::f64, {2, 3, 4}};
  const auto shapes = std::vector<Shape>{{24}, {4, 6}, {2, 2, 6}, {1, 24, 1}, {3, 8}, {2, 12}, {6, 4}};
  for (const Shape& shape : shapes) {
    ir::Graph g;
    const NodeId x = g.input("x", type);
    const std::vector<NodeId> views = {x,
                                       g.permute(x, {2, 0, 1}),
                                       g.permute(x, {0, 2, 1}),
                                       g.flip(x, {0, 2}),
                                       g.broadcast_to(g.slice(x, {0, 1, 0}, {2, 2, 4}), {2, 3, 4}),
                                       g.window(g.slice(x, {0, 0, 0}, {1, 3, 4}), {1}, {2}, {1})};
    for (NodeId v : views) {
      const Shape target = g.type(v).elements() == 24 ? shape : Shape{2, 8};
      const std::map<std::string, HostTensor> in = {{"x", tensor(type, iota_values(24))}};
      const std::vector<double> before = run(g, v, in);
      require_same(run(g, g.reshape(v, target), in), before);
    }
  }
}

TEST_CASE("reductions are right at every length") {
  for (const std::int64_t n : {1, 2, 3, 31, 32, 33, 64, 700, 2047, 2048, 2049, 5000}) {
    ir::Graph g;
    const Type type{DType::f64, {3, n}};
    const HostTensor x = random_tensor(type, static_cast<std::uint64_t>(n));
    const NodeId in = g.input("x", type);
    const std::map<std::string, HostTensor> given = {{"x", x}};
    const auto sum = run(g, g.reduce(Monoid::sum, in, {1}, false), given);
    const auto max = run(g, g.reduce(Monoid::max, in, {1}, false), given);
    const auto argmin = run(g, g.reduce(Monoid::argmin, in, {-1}, false), given);
    const auto columns = run(g, g.reduce(Monoid::sum, in, {0}, true), given);
    const auto lse_max = run(g, g.reduce({Monoid::max_sumexp, {1}, false, 0, false}, {in}), given);
    const auto lse_sum = run(g, g.reduce({Monoid::max_sumexp, {1}, false, 1, false}, {in}), given);
    const auto m2 = run(g, g.reduce({Monoid::moments, {1}, false, 3, false}, {in}), given);
    for (std::int64_t r = 0; r < 3; ++r) {
      const auto i = static_cast<std::size_t>(r);
      std::vector<double> row;
      for (std::int64_t c = 0; c < n; ++c) row.push_back(x.value(r * n + c));
      const double total = std::accumulate(row.begin(), row.end(), 0.0);
      const auto largest = std::max_element(row.begin(), row.end());
      REQUIRE(sum[i] == Approx(total).margin(1e-10));
      REQUIRE(max[i] == *largest);
      REQUIRE(lse_max[i] == *largest);
      REQUIRE(argmin[i] == static_cast<double>(std::min_element(row.begin(), row.end()) - row.begin()));
      double exps = 0, squares = 0;
      for (double v : row) exps += std::exp(v - *largest);
      for (double v : row)
        squares += (v - total / static_cast<double>(n)) * (v - total / static_cast<double>(n));
      REQUIRE(lse_sum[i] == Approx(exps));
      REQUIRE(m2[i] == Approx(squares).margin(1e-12));
    }
    for (std::int64_t c = 0; c < n; ++c) {
      REQUIRE(columns[static_cast<std::size_t>(c)] ==
              Approx(x.value(c) + x.value(n + c) + x.value(2 * n + c)));
    }
  }
}

TEST_CASE("reductions over axes that are not neighbours") {
  const Type type{DType::f64, {2, 3, 4, 2, 3, 5}};
  const HostTensor x = random_tensor(type, 7);
  for (const bool keepdims : {false, true}) {
    ir::Graph g;
    const NodeId in = g.input("x", type);
    const NodeId y = g.reduce(Monoid::sum, in, {0, 2, -1}, keepdims);
    REQUIRE(g.type(y).shape == (keepdims ? Shape{1, 3, 1, 2, 3, 1} : Shape{3, 2, 3}));
    const std::vector<double> got = run(g, y, {{"x", x}});
    std::vector<double> expected(18, 0.0);
    for (std::int64_t k = 0; k < x.elements(); ++k) {
      const std::int64_t b = k / 120 % 3, d = k / 15 % 2, e = k / 5 % 3;
      expected[static_cast<std::size_t>((b * 2 + d) * 3 + e)] += x.value(k);
    }
    for (std::size_t k = 0; k < 18; ++k) REQUIRE(got[k] == Approx(expected[k]).margin(1e-12));
  }
}

TEST_CASE("max and argmax propagate NaN, the first one") {
  require_same(reduce_row(Monoid::max, {kNan, kInf}), {kNan});
  require_same(reduce_row(Monoid::max, {kInf, kNan}), {kNan});
  require_same(reduce_row(Monoid::argmax, {kInf, kNan}), {1});
  for (const std::size_t width : {std::size_t{64}, std::size_t{1025}}) {
    for (std::size_t at = 0; at < width; at += width == 64 ? 1 : 41) {
      std::vector<double> row(width, 1.0);
      row[at] = kNan;
      row[width - 1] = kNan;
      for (const Monoid m : {Monoid::max, Monoid::min}) require_same(reduce_row(m, row), {kNan});
      for (const Monoid m : {Monoid::argmax, Monoid::argmin}) {
        require_same(reduce_row(m, row), {static_cast<double>(at)});
      }
    }
  }
}

TEST_CASE("max and min of infinities and of one element") {
  require_same(reduce_row(Monoid::max, {-kInf, -kInf}), {-kInf});
  require_same(reduce_row(Monoid::max, {-1}), {-1});
  require_same(reduce_row(Monoid::min, {kInf, kInf}), {kInf});
  require_same(reduce_row(Monoid::argmax, {-kInf, -kInf}), {0});
  require_same(reduce_row(Monoid::argmin, {3, 1, 1}), {1});
}

TEST_CASE("reductions of no elements") {
  ir::Graph g;
  const Type floats{DType::f32, {3, 0}}, bools{DType::boolean, {3, 0}};
  const std::map<std::string, HostTensor> in = {{"x", HostTensor(floats)}, {"b", HostTensor(bools)}};
  const NodeId x = g.input("x", floats), b = g.input("b", bools);
  require_same(run(g, g.reduce(Monoid::sum, x, {1}, false), in), {0, 0, 0});
  require_same(run(g, g.reduce(Monoid::prod, x, {1}, false), in), {1, 1, 1});
  require_same(run(g, g.reduce(Monoid::any, b, {1}, false), in), {0, 0, 0});
  require_same(run(g, g.reduce(Monoid::all, b, {1}, false), in), {1, 1, 1});
  require_same(run(g, g.reduce(Monoid::sum, x, {0}, false), in), {});
}

TEST_CASE("integer sums and products wrap in their type") {
  const double big = std::numeric_limits<std::int32_t>::max();
  require_same(reduce_row(Monoid::sum, {big, 1}, DType::i32), {-big - 1});
  require_same(reduce_row(Monoid::prod, {65536, 65536, 3}, DType::i32), {0});
  require_same(reduce_row(Monoid::sum, {big, 1}, DType::i64), {big + 1});
}

TEST_CASE("no rewrite hides an overflow or a subnormal") {
  ir::Graph g;
  const auto c = [&](double v) { return g.constant(Scalar::of(DType::f64, v)); };
  const NodeId big = c(1e200);
  require_same(run(g, g.map(ScalarOp::sqrt, {g.map(ScalarOp::mul, {big, big})})), {kInf});
  require_same(run(g, g.map(ScalarOp::log, {g.map(ScalarOp::exp, {c(800)})})), {kInf});
  const NodeId tiny = g.constant(Scalar::of(DType::f32, 1e-40)), zero = g.constant(Scalar::of(DType::f32, 0));
  const double kept = static_cast<double>(1e-40F);
  require_same(run(g, g.map(ScalarOp::add, {tiny, zero})), {kept});
  require_same(run(g, g.map(ScalarOp::mul, {tiny, g.constant(Scalar::of(DType::f32, 1))})), {kept});
  require_same(run(g, g.map(ScalarOp::max, {tiny, zero})), {kept});
}

TEST_CASE("tanh saturates and keeps zeros and NaN") {
  const Type type{DType::f32, {8}};
  ir::Graph g;
  const NodeId t = g.map(ScalarOp::tanh, {g.input("x", type)});
  const auto y = run(g, t, {{"x", tensor(type, {9.02, -15, 44.5, -88.8, 1e10, -kInf, -0.0, kNan})}});
  const std::vector<double> expected = {1, -1, 1, -1, 1, -1, -0.0, kNan};
  for (std::size_t k = 0; k < 6; ++k) REQUIRE(static_cast<float>(y[k]) == static_cast<float>(expected[k]));
  require_same({y[6], y[7]}, {-0.0, kNan});
}

TEST_CASE("casts round, other nodes of 16-bit types do not") {
  ir::Graph g;
  const NodeId x = g.constant(Scalar::of(DType::f16, 2048));
  const NodeId one = g.constant(Scalar::of(DType::f16, 1));
  const NodeId sum = g.map(ScalarOp::add, {x, one});
  require_same(run(g, sum), {2049});
  require_same(run(g, g.map(ScalarOp::cast, {sum}, DType::f16)), {2048});
  ir::Graph rounded;
  rounded.output("y", rounded.copy(g, 0, {}));
  REQUIRE(interpret(rounded, {}).at("y").value(0) == 2048);
}

TEST_CASE("an f16 sum does not overflow and a bf16 sum keeps counting") {
  const Type half{DType::f16, {1000}}, brain{DType::bf16, {70000}};
  ir::Graph g;
  const NodeId h = g.reduce(Monoid::sum, g.input("h", half), {0}, false);
  const NodeId b = g.reduce(Monoid::sum, g.input("b", brain), {0}, false);
  REQUIRE(g.type(h).dtype == DType::f16);
  const std::map<std::string, HostTensor> in = {{"h", tensor(half, std::vector<double>(1000, 100))},
                                                {"b", tensor(brain, std::vector<double>(70000, 1))}};
  require_same(run(g, h, in), {100000});
  require_same(run(g, b, in), {70000});
  REQUIRE(interpret(g, in).at(g.outputs()[0].name).value(0) == kInf);
}

TEST_CASE("compiler-made reductions: components, explicit index, merge and absent elements") {
  const Type type{DType::f32, {2, 70}};
  const HostTensor x = random_tensor(type, 3);
  const std::map<std::string, HostTensor> in = {{"x", x}};
  ir::Graph g;
  const NodeId a = g.input("x", type);
  const NodeId index = g.iota(DType::i64, {2, 70}, 1);

  SECTION("argmax with its index, in two steps") {
    const NodeId whole = g.reduce(Monoid::argmax, a, {1}, false);
    const NodeId v = g.reshape(a, {2, 7, 10}), i = g.reshape(index, {2, 7, 10});
    const NodeId best = g.reduce({Monoid::argmax, {2}, false, 0, false}, {v, i});
    const NodeId place = g.reduce({Monoid::argmax, {2}, false, 1, false}, {v, i});
    const NodeId merged = g.reduce({Monoid::argmax, {1}, false, 1, true}, {best, place});
    require_same(run(g, merged, in), run(g, whole, in));
  }
  SECTION("moments in parts that do not divide the row") {
    std::vector<NodeId> parts;
    const NodeId padded = g.reshape(g.pad(a, {0, 0}, {0, 2}, std::nullopt), {2, 3, 24});
    for (int c = 0; c < 4; ++c) parts.push_back(g.reduce({Monoid::moments, {2}, false, c, false}, {padded}));
    for (int c = 0; c < 4; ++c) {
      const auto merged = run(g, g.reduce({Monoid::moments, {1}, false, c, true}, parts), in);
      const auto whole = run(g, g.reduce({Monoid::moments, {1}, false, c, false}, {a}), in);
      for (std::size_t k = 0; k < 2; ++k) {
        if (c == 0 || c == 3) REQUIRE(merged[k] == Approx(whole[k]).epsilon(1e-12));
      }
    }
  }
  SECTION("absent elements do not take part") {
    const NodeId negative =
        g.map(ScalarOp::sub, {a, g.broadcast_to(g.constant(Scalar::of(DType::f32, 100)), {2, 70})});
    const NodeId padded = g.pad(negative, {0, 3}, {0, 4}, std::nullopt);
    for (const Monoid m : {Monoid::max, Monoid::sum, Monoid::prod}) {
      const auto with = run(g, g.reduce(m, padded, {1}, false), in);
      const auto without = run(g, g.reduce(m, negative, {1}, false), in);
      for (std::size_t k = 0; k < 2; ++k) REQUIRE(with[k] == Approx(without[k]).epsilon(1e-12));
    }
    const auto empty = run(g,
                           g.reduce({Monoid::max_sumexp, {1}, false, 1, false},
                                    {g.pad(g.slice(a, {0, 0}, {2, 0}), {0, 0}, {0, 40}, std::nullopt)}),
                           in);
    require_same(empty, {0, 0});
  }
}

TEST_CASE("a matrix product through broadcast, multiply and sum") {
  const Type left{DType::f32, {17, 40}}, right{DType::f32, {40, 23}};
  const HostTensor a = random_tensor(left, 1), b = random_tensor(right, 2);
  ir::Graph g;
  const NodeId x = g.broadcast(g.input("a", left), {17, 23, 40}, {0, 2});
  const NodeId y = g.broadcast(g.permute(g.input("b", right), {1, 0}), {17, 23, 40}, {1, 2});
  const auto got =
      run(g, g.reduce(Monoid::sum, g.map(ScalarOp::mul, {x, y}), {2}, false), {{"a", a}, {"b", b}});
  for (std::int64_t i = 0; i < 17; ++i) {
    for (std::int64_t j = 0; j < 23; ++j) {
      double dot = 0;
      for (std::int64_t k = 0; k < 40; ++k) dot += a.value(i * 40 + k) * b.value(k * 23 + j);
      REQUIRE(got[static_cast<std::size_t>(i * 23 + j)] == Approx(dot).margin(1e-12));
    }
  }
}

TEST_CASE("a value used by several nodes and outputs is computed once and kept as long as it is needed") {
  const Type type{DType::f64, {5000}};
  const HostTensor x = random_tensor(type, 5);
  ir::Graph g;
  const NodeId in = g.input("x", type);
  const NodeId e = g.map(ScalarOp::exp, {in});
  const NodeId total = g.broadcast_to(g.reduce(Monoid::sum, e, {0}, true), {5000});
  g.output("p", g.map(ScalarOp::div, {e, total}));
  g.output("e", e);
  g.output("x", in);
  g.output("again", e);
  const auto out = interpret_reference(g, {{"x", x}});
  REQUIRE(values(out.at("e")) == values(out.at("again")));
  double sum = 0;
  for (double p : values(out.at("p"))) sum += p;
  REQUIRE(sum == Approx(1));
  REQUIRE(out.at("x").value(17) == x.value(17));
}

TEST_CASE("long chains are evaluated without recursion") {
  ir::Graph g;
  const NodeId one = g.broadcast_to(g.constant(Scalar::of(DType::f64, 1)), {4});
  NodeId y = g.input("x", {DType::f64, {4}});
  for (int k = 0; k < 100000; ++k) y = g.map(ScalarOp::add, {y, one});
  require_same(run(g, y, {{"x", HostTensor({DType::f64, {4}})}}), std::vector<double>(4, 100000.0));
}

TEST_CASE("inputs are checked by name and type") {
  ir::Graph g;
  g.output("y", g.input("x", {DType::f32, {4}}));
  REQUIRE_THROWS_WITH(interpret(g, {}), "error: input x is missing; it is f32[4]");
  REQUIRE_THROWS_WITH(interpret(g, {{"x", HostTensor({DType::f16, {4}})}}),
                      "error: input x is f32[4], got f16[4]");
  const HostTensor x({DType::f32, {4}});
  REQUIRE_THROWS_WITH(interpret(g, {{"x", x}, {"z", x}}),
                      "error: there is no input named z; the inputs are x");
}

TEST_CASE("comparison measures absolute, relative and ulp errors") {
  const Type type{DType::f32, {4}};
  ReferenceTensor reference{type, {1, 2, 0, kNan}, {}};
  const double eps = std::ldexp(1.0, -23);
  Comparison c = compare(tensor(type, {1 + eps, 2, 0, kNan}), reference);
  REQUIRE(c.max_ulp == 1);
  REQUIRE(c.max_absolute == eps);
  REQUIRE(c.worst == 0);
  REQUIRE(within(c, default_tolerance(DType::f32, 1)));
  REQUIRE_FALSE(within(c, {eps / 4, eps / 2}));
  REQUIRE_FALSE(within(compare(tensor(type, {1, 2, 0, 0}), reference), {1e9, 1e9}));
  REQUIRE_FALSE(within(compare(tensor(type, {1, 2, kNan, kNan}), reference), {1e9, 1e9}));
  REQUIRE_FALSE(within(compare(tensor(type, {1, kInf, 0, kNan}), reference), {1e-3, 1e-3}));
  REQUIRE(compare(tensor(type, {1, 2, std::ldexp(1.0, -149), kNan}), reference).max_ulp == 1);
  reference.f = {kInf, -kInf, 1e39, std::ldexp(1.0, 128) * (1 - std::ldexp(1.0, -26))};
  REQUIRE(compare(tensor(type, {kInf, -kInf, kInf, kInf}), reference).max_ulp <= 0.5);
  REQUIRE_FALSE(within(compare(tensor(type, {kInf, kInf, kInf, kInf}), reference), {1e-3, 1e-3}));
  const ReferenceTensor integers{{DType::i32, {2}}, {}, {5, 7}};
  REQUIRE(within(compare(tensor({DType::i32, {2}}, {5, 7}), integers), default_tolerance(DType::i32, 1)));
  REQUIRE_FALSE(
      within(compare(tensor({DType::i32, {2}}, {5, 8}), integers), default_tolerance(DType::i32, 1)));
}

TEST_CASE("deviations of f64 from a mean that is large beside them are exact to rounding") {
  std::vector<double> x;
  for (int k = 0; k < 6 * 1000; ++k) x.push_back(1e8 + 1e-3 * std::sin(k * k));
  std::vector<double> expected;
  for (std::size_t k = 0; k < x.size(); ++k) {
    long double mean = 0;
    for (std::size_t i = 0; i < 1000; ++i)
      mean += static_cast<long double>(x[k / 1000 * 1000 + i] - 1e8) / 1000;
    expected.push_back(static_cast<double>(static_cast<long double>(x[k] - 1e8) - mean));
  }
  for (const char* deviation : {
           "%m = mean %x {axes = [2], keepdims = true} %d = sub %x, %m",
           "%m = mean %x {axes = [2]} %r = reshape %m {shape = [2, 3, 1]} %e = sub %r, %x %d = neg %e",
           "%s = sum %x {axes = [2]} %m = div %s, 1000 %b = broadcast %m {shape = [2, 3, 1000], dims = [0, "
           "1]} "
           "%d = sub %x, %b",
       }) {
    INFO(deviation);
    const ir::Graph g =
        parse(fmt::format("graph g {{ %x = input f64[2, 3, 1000] {} output %d }}", deviation));
    const auto got = interpret_reference(g, {{"x", tensor({DType::f64, {2, 3, 1000}}, x)}}).at("d").f;
    for (std::size_t k = 0; k < got.size(); ++k)
      REQUIRE(got[k] == Approx(expected[k]).epsilon(1e-12).margin(1e-17));
  }
  // What is no mean, or not along its own elements, stays what it is, and so do infinities.
  const ir::Graph other = parse(R"(graph g { %x = input f64[2, 2] %m = mean %x {axes = [0]}
    %r = reshape %m {shape = [2, 1]} %s = sum %x {axes = [1], keepdims = true} %t = div %s, 2
    %y = sub %x, %r %z = sub %x, %s %w = sub %x, %t output %y output %z output %w })");
  const auto out = interpret_reference(other, {{"x", tensor({DType::f64, {2, 2}}, {1, 2, 3, kInf})}});
  require_same(values(out.at("y")), {-1, 0, -kInf, kNan});
  require_same(values(out.at("z")), {-2, -1, -kInf, kNan});
  require_same(values(out.at("w")), {-0.5, 0.5, -kInf, kNan});
}

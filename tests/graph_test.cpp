// Types, scalar values and ops, and the building of graphs with its errors.
#include "ir/graph.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "ir/target.h"
#include "ir/tensor.h"
#include "ir/verify.h"

using namespace bz;  // NOLINT
using Catch::Matchers::Contains;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

double eval(ScalarOp op, std::vector<double> args, DType t = DType::f64, std::optional<DType> result = {}) {
  std::vector<Scalar> scalars;
  for (double a : args) scalars.push_back(Scalar::of(t, a));
  if (op == ScalarOp::select) scalars[0] = Scalar::of(DType::boolean, args[0]);
  const DType out = result ? *result : info(op).result == Result::boolean ? DType::boolean : t;
  return evaluate(op, scalars, out).as_double();
}

bool is_minus_zero(double x) { return x == 0 && std::signbit(x); }
bool is_plus_zero(double x) { return x == 0 && !std::signbit(x); }

}  // namespace

TEST_CASE("16-bit floats round to nearest even, keep subnormals and overflow to infinity") {
  REQUIRE(f16_bits(1) == 0x3C00);
  REQUIRE(f16_bits(-2) == 0xC000);
  REQUIRE(f16_bits(65504) == 0x7BFF);
  REQUIRE(f16_bits(65519.99) == 0x7BFF);
  REQUIRE(f16_bits(65520) == 0x7C00);
  REQUIRE(f16_bits(2049) == f16_bits(2048));
  REQUIRE(f16_bits(2051) == f16_bits(2052));
  REQUIRE(f16_bits(2049 + 1e-9) == f16_bits(2050));
  REQUIRE(f16_bits(std::ldexp(1, -24)) == 1);
  REQUIRE(f16_bits(std::ldexp(1, -25)) == 0);
  REQUIRE(f16_bits(std::ldexp(1.0001, -25)) == 1);
  REQUIRE(f16_bits(-0.0) == 0x8000);
  REQUIRE(f16_bits(-kInf) == 0xFC00);
  REQUIRE(std::isnan(f16_value(f16_bits(kNan))));
  REQUIRE(bf16_bits(1) == 0x3F80);
  REQUIRE(bf16_bits(1 + std::ldexp(1, -8)) == 0x3F80);
  REQUIRE(bf16_bits(1 + 3 * std::ldexp(1, -8)) == 0x3F82);
  REQUIRE(bf16_bits(3.4e38) == 0x7F80);
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    if (!std::isnan(f16_value(h))) REQUIRE(f16_bits(f16_value(h)) == h);
    if (!std::isnan(bf16_value(h))) REQUIRE(bf16_bits(bf16_value(h)) == h);
  }
}

TEST_CASE("dtypes have names and sizes") {
  for (DType t : kAllDTypes) REQUIRE(parse_dtype(name(t)) == t);
  REQUIRE_FALSE(parse_dtype("float"));
  REQUIRE(size_of(DType::boolean) == 1);
  REQUIRE(size_of(DType::bf16) == 2);
}

TEST_CASE("scalars convert once, and print the shortest text that reads back") {
  REQUIRE(Scalar::of(DType::i32, 1e10).i == std::numeric_limits<std::int32_t>::max());
  REQUIRE(Scalar::of(DType::i64, -1e30).i == std::numeric_limits<std::int64_t>::min());
  REQUIRE(Scalar::of(DType::i32, -2.9).i == -2);
  REQUIRE(Scalar::of(DType::i32, kNan).i == 0);
  REQUIRE(Scalar::of(DType::boolean, kNan).i == 1);
  REQUIRE(Scalar::of_int(DType::i32, std::int64_t{1} << 31).i == std::numeric_limits<std::int32_t>::min());
  // 2^62 + 2^38 + 1 lies just above the midpoint of two floats, and exactly on it once rounded to double.
  REQUIRE(Scalar::of_int(DType::f32, (1LL << 62) + (1LL << 38) + 1).f ==
          std::ldexp(1, 62) + std::ldexp(1, 39));
  REQUIRE(Scalar::of(DType::f32, 0.1) != Scalar::of(DType::f64, 0.1));
  REQUIRE(Scalar::of(DType::f32, kNan) == Scalar::of(DType::f32, -kNan));
  REQUIRE_FALSE(Scalar::of(DType::f32, 0.0) == Scalar::of(DType::f32, -0.0));
  REQUIRE(to_string(Scalar::of(DType::f32, 0.1)) == "0.1");
  REQUIRE(to_string(Scalar::of(DType::f16, 0.1)) == "0.1");
  REQUIRE(to_string(Scalar::of(DType::f64, 0.1 + 0.2)) == "0.30000000000000004");
  REQUIRE(to_string(Scalar::of(DType::f32, 100)) == "100");
  REQUIRE(to_string(Scalar::of(DType::f32, -0.0)) == "-0");
  REQUIRE(to_string(Scalar::of(DType::f32, 1e-5)) == "1e-05");
  REQUIRE(to_string(Scalar::of(DType::bf16, -kInf)) == "-inf");
  REQUIRE(to_string(Scalar::of(DType::f32, kNan)) == "nan");
  REQUIRE(to_string(Scalar::of(DType::boolean, 1)) == "true");
  REQUIRE(to_string(Scalar::of_int(DType::i64, -3)) == "-3");
}

TEST_CASE("shapes count elements") {
  REQUIRE(element_count({}) == 1);
  REQUIRE(element_count({3, 4}) == 12);
  REQUIRE(element_count({1LL << 40, 0, 1LL << 40}) == 0);
  REQUIRE_THROWS_AS(element_count({1LL << 40, 1LL << 40}), Error);
  REQUIRE(row_major_strides({2, 3, 4}) == std::vector<std::int64_t>{12, 4, 1});
  REQUIRE(to_string(Type{DType::f32, {3, 4}}) == "f32[3,4]");
}

TEST_CASE("the op table is in the order of the enumeration and reads back") {
  for (const ScalarOpInfo& row : scalar_ops()) {
    REQUIRE(info(row.op).text == row.text);
    REQUIRE(parse_scalar_op(row.text) == row.op);
  }
  REQUIRE_FALSE(parse_scalar_op("softmax"));
}

TEST_CASE("every op evaluates in every type it accepts") {
  for (const ScalarOpInfo& row : scalar_ops()) {
    for (DType t : kAllDTypes) {
      if (!accepts(row.op, t)) continue;
      std::vector<Scalar> args(static_cast<std::size_t>(row.arity), Scalar::of(t, 1));
      if (row.op == ScalarOp::select) args[0] = Scalar::of(DType::boolean, 1);
      std::vector<DType> dtypes;
      for (const Scalar& a : args) dtypes.push_back(a.dtype);
      const auto result = infer_dtype(row.op, dtypes, DType::f16, nullptr);
      INFO(row.text << " " << name(t));
      REQUIRE(result);
      REQUIRE(evaluate(row.op, args, *result).dtype == *result);
    }
  }
}

TEST_CASE("floating ops at ordinary and special values") {
  REQUIRE(eval(ScalarOp::neg, {2}) == -2);
  REQUIRE(eval(ScalarOp::abs, {-2}) == 2);
  REQUIRE(eval(ScalarOp::exp, {-kInf}) == 0);
  REQUIRE(eval(ScalarOp::exp2, {10}) == 1024);
  REQUIRE(eval(ScalarOp::expm1, {1e-20}) == 1e-20);
  REQUIRE(eval(ScalarOp::log, {0}) == -kInf);
  REQUIRE(eval(ScalarOp::log1p, {1e-20}) == 1e-20);
  REQUIRE(eval(ScalarOp::log2, {8}) == 3);
  REQUIRE(std::isnan(eval(ScalarOp::sqrt, {-1})));
  REQUIRE(eval(ScalarOp::rsqrt, {4}) == 0.5);
  REQUIRE(eval(ScalarOp::rsqrt, {0}) == kInf);
  REQUIRE(eval(ScalarOp::rsqrt, {-0.0}) == -kInf);
  REQUIRE(eval(ScalarOp::reciprocal, {-0.0}) == -kInf);
  REQUIRE(eval(ScalarOp::sin, {0}) == 0);
  REQUIRE(eval(ScalarOp::cos, {0}) == 1);
  REQUIRE(eval(ScalarOp::tan, {1}) == Approx(1.5574077246549023));
  REQUIRE(eval(ScalarOp::tanh, {kInf}) == 1);
  REQUIRE(eval(ScalarOp::sigmoid, {0}) == 0.5);
  REQUIRE(eval(ScalarOp::sigmoid, {-740}) > 0);
  REQUIRE(eval(ScalarOp::sigmoid, {kInf}) == 1);
  REQUIRE(eval(ScalarOp::erf, {kInf}) == 1);
  REQUIRE(eval(ScalarOp::floor, {-1.5}) == -2);
  REQUIRE(eval(ScalarOp::ceil, {-1.5}) == -1);
  REQUIRE(eval(ScalarOp::trunc, {-1.5}) == -1);
  REQUIRE(eval(ScalarOp::round, {0.5}) == 0);
  REQUIRE(eval(ScalarOp::round, {1.5}) == 2);
  REQUIRE(eval(ScalarOp::round, {-2.5}) == -2);
  REQUIRE(eval(ScalarOp::sign, {-3}) == -1);
  REQUIRE(is_minus_zero(eval(ScalarOp::sign, {-0.0})));
  REQUIRE(std::isnan(eval(ScalarOp::sign, {kNan})));
  REQUIRE(eval(ScalarOp::pow, {2, 10}) == 1024);
  REQUIRE(eval(ScalarOp::pow, {kNan, 0}) == 1);
  REQUIRE(eval(ScalarOp::atan2, {0, -1}) == Approx(3.141592653589793));
  REQUIRE(eval(ScalarOp::div, {1, 0}) == kInf);
  REQUIRE(eval(ScalarOp::add, {0.1, 0.2}) == 0.1 + 0.2);
  REQUIRE(eval(ScalarOp::sub, {1, 2}) == -1);
  REQUIRE(eval(ScalarOp::mul, {3, 4}) == 12);
  // One rounding: the product's low half survives.
  const double e = std::ldexp(1, -30);
  REQUIRE(eval(ScalarOp::fma, {1 + e, 1 - e, -1}) == -e * e);
  REQUIRE(eval(ScalarOp::isnan, {kNan}) == 1);
  REQUIRE(eval(ScalarOp::isinf, {-kInf}) == 1);
  REQUIRE(eval(ScalarOp::isfinite, {kInf}) == 0);
}

TEST_CASE("max, min and clamp propagate NaN and order zeros") {
  REQUIRE(std::isnan(eval(ScalarOp::max, {kNan, 1})));
  REQUIRE(std::isnan(eval(ScalarOp::max, {1, kNan})));
  REQUIRE(std::isnan(eval(ScalarOp::min, {kNan, kInf})));
  REQUIRE(std::isnan(eval(ScalarOp::min, {-kInf, kNan})));
  REQUIRE(is_plus_zero(eval(ScalarOp::max, {-0.0, 0.0})));
  REQUIRE(is_plus_zero(eval(ScalarOp::max, {0.0, -0.0})));
  REQUIRE(is_minus_zero(eval(ScalarOp::min, {-0.0, 0.0})));
  REQUIRE(is_minus_zero(eval(ScalarOp::min, {0.0, -0.0})));
  REQUIRE(eval(ScalarOp::clamp, {5, 0, 1}) == 1);
  REQUIRE(eval(ScalarOp::clamp, {5, 2, 1}) == 1);
  REQUIRE(std::isnan(eval(ScalarOp::clamp, {kNan, 0, 1})));
  REQUIRE(eval(ScalarOp::clamp, {-5, -2, 1}, DType::i32) == -2);
}

TEST_CASE("division and remainder are floored") {
  for (const DType t : {DType::f64, DType::i32, DType::i64}) {
    REQUIRE(eval(ScalarOp::floordiv, {7, 2}, t) == 3);
    REQUIRE(eval(ScalarOp::floordiv, {-7, 2}, t) == -4);
    REQUIRE(eval(ScalarOp::floordiv, {7, -2}, t) == -4);
    REQUIRE(eval(ScalarOp::mod, {7, 3}, t) == 1);
    REQUIRE(eval(ScalarOp::mod, {-7, 3}, t) == 2);
    REQUIRE(eval(ScalarOp::mod, {7, -3}, t) == -2);
    REQUIRE(eval(ScalarOp::mod, {-6, 3}, t) == 0);
  }
  REQUIRE(is_minus_zero(eval(ScalarOp::mod, {6, -3})));
  REQUIRE(is_plus_zero(eval(ScalarOp::mod, {-6, 3})));
  REQUIRE(std::isnan(eval(ScalarOp::mod, {1, 0})));
  REQUIRE(eval(ScalarOp::mod, {-1, kInf}) == kInf);
  const double lowest = std::numeric_limits<std::int32_t>::min();
  REQUIRE(eval(ScalarOp::floordiv, {5, 0}, DType::i32) == 0);
  REQUIRE(eval(ScalarOp::mod, {5, 0}, DType::i32) == 0);
  REQUIRE(eval(ScalarOp::floordiv, {lowest, -1}, DType::i32) == lowest);
  REQUIRE(eval(ScalarOp::mod, {lowest, -1}, DType::i32) == 0);
  const Scalar smallest = Scalar::of_int(DType::i64, std::numeric_limits<std::int64_t>::min());
  const std::vector<Scalar> args = {smallest, Scalar::of_int(DType::i64, -1)};
  REQUIRE(evaluate(ScalarOp::floordiv, args, DType::i64) == smallest);
}

TEST_CASE("integers wrap, logic is bitwise on integers") {
  const double lowest = std::numeric_limits<std::int32_t>::min(),
               highest = std::numeric_limits<std::int32_t>::max();
  REQUIRE(eval(ScalarOp::add, {highest, 1}, DType::i32) == lowest);
  REQUIRE(eval(ScalarOp::mul, {65536, 65536}, DType::i32) == 0);
  REQUIRE(eval(ScalarOp::neg, {lowest}, DType::i32) == lowest);
  REQUIRE(eval(ScalarOp::abs, {lowest}, DType::i32) == lowest);
  REQUIRE(eval(ScalarOp::sign, {-7}, DType::i64) == -1);
  REQUIRE(eval(ScalarOp::logical_not, {5}, DType::i32) == -6);
  REQUIRE(eval(ScalarOp::logical_not, {1}, DType::boolean) == 0);
  REQUIRE(eval(ScalarOp::logical_and, {6, 3}, DType::i32) == 2);
  REQUIRE(eval(ScalarOp::logical_or, {6, 3}, DType::i32) == 7);
  REQUIRE(eval(ScalarOp::logical_xor, {6, 3}, DType::i32) == 5);
  REQUIRE(eval(ScalarOp::logical_xor, {1, 1}, DType::boolean) == 0);
}

TEST_CASE("comparisons are false for NaN but ne") {
  for (const ScalarOp op : {ScalarOp::eq, ScalarOp::lt, ScalarOp::le, ScalarOp::gt, ScalarOp::ge}) {
    REQUIRE(eval(op, {kNan, 1}) == 0);
  }
  REQUIRE(eval(ScalarOp::ne, {kNan, kNan}) == 1);
  REQUIRE(eval(ScalarOp::eq, {0.0, -0.0}) == 1);
  REQUIRE(eval(ScalarOp::le, {2, 2}, DType::i32) == 1);
  REQUIRE(eval(ScalarOp::gt, {1, 2}, DType::i64) == 0);
  REQUIRE(eval(ScalarOp::select, {1, 2, 3}) == 2);
  REQUIRE(eval(ScalarOp::select, {0, 2, 3}, DType::i32) == 3);
}

TEST_CASE("casts round, truncate, saturate and wrap") {
  const auto cast = [](Scalar x, DType to) {
    return evaluate(ScalarOp::cast, std::span(&x, 1), to).as_double();
  };
  REQUIRE(cast(Scalar::of(DType::f64, 0.1), DType::f32) == static_cast<double>(0.1F));
  REQUIRE(cast(Scalar::of(DType::f32, 2049), DType::f16) == 2048);
  REQUIRE(cast(Scalar::of(DType::f32, 1e6), DType::f16) == kInf);
  REQUIRE(cast(Scalar::of(DType::f32, -1.7), DType::i32) == -1);
  REQUIRE(cast(Scalar::of(DType::f32, kNan), DType::i64) == 0);
  REQUIRE(cast(Scalar::of(DType::f32, kNan), DType::boolean) == 1);
  REQUIRE(cast(Scalar::of(DType::f32, -0.0), DType::boolean) == 0);
  REQUIRE(cast(Scalar::of_int(DType::i64, 1LL << 32), DType::i32) == 0);
  REQUIRE(cast(Scalar::of_int(DType::i64, 16777217), DType::f32) == 16777216);
  REQUIRE(cast(Scalar::of_int(DType::boolean, 1), DType::bf16) == 1);
}

TEST_CASE("tensors store what fits their type, and random ones repeat") {
  HostTensor t({DType::f16, {3}});
  t.set(1, Scalar::of(DType::f64, 0.1));
  REQUIRE(t.value(0) == 0);
  REQUIRE(t.value(1) == round_to(DType::f16, 0.1));
  REQUIRE(t.bytes() == 6);
  for (DType dtype : kAllDTypes) {
    const HostTensor a = random_tensor({dtype, {1000}}, 1), b = random_tensor({dtype, {1000}}, 1);
    const HostTensor c = random_tensor({dtype, {1000}}, 2);
    double sum = 0, square = 0, differ = 0;
    for (std::int64_t k = 0; k < 1000; ++k) {
      REQUIRE(a.value(k) == b.value(k));
      REQUIRE(std::fabs(a.value(k)) <= 8);
      sum += a.value(k);
      square += a.value(k) * a.value(k);
      differ += a.value(k) != c.value(k) ? 1 : 0;
    }
    REQUIRE(differ > 100);
    if (is_float(dtype)) REQUIRE(std::fabs(sum / 1000) < 0.15);
    if (is_float(dtype)) REQUIRE(square / 1000 == Approx(1).epsilon(0.2));
  }
}

TEST_CASE("targets are known by name") {
  for (const std::string& name : known_targets()) {
    const auto target = parse_target(name);
    REQUIRE(target);
    REQUIRE(target->name == name);
    REQUIRE(minimum_ptx(target->sm) >= 63);
  }
  REQUIRE(parse_target("sim")->sim);
  REQUIRE(parse_target("sm_90")->max_shared_bytes == 232448);
  REQUIRE_FALSE(parse_target("sm_42"));
  REQUIRE(minimum_ptx(75) == 63);
  REQUIRE(minimum_ptx(90) == 78);
}

TEST_CASE("PTX that is too old for messages has no clusters") {
  const Target target = *parse_target("sm_90");
  REQUIRE(target.max_cluster == 16);
  for (const int ptx : {78, 80, 81, 83}) {
    REQUIRE(with_ptx(target, ptx).ptx == ptx);
    REQUIRE(with_ptx(target, ptx).max_cluster == (ptx < 81 ? 1 : 16));
  }
  REQUIRE(with_ptx(*parse_target("sm_80"), 83).max_cluster == 1);
}

TEST_CASE("inference gives each node its type") {
  ir::Graph g;
  const NodeId x = g.input("x", {DType::f16, {2, 3, 4}});
  const NodeId b = g.input("b", {DType::boolean, {2, 3, 4}});
  REQUIRE(g.type(g.map(ScalarOp::exp, {x})) == Type{DType::f16, {2, 3, 4}});
  REQUIRE(g.type(g.map(ScalarOp::lt, {x, x})) == Type{DType::boolean, {2, 3, 4}});
  REQUIRE(g.type(g.map(ScalarOp::cast, {x}, DType::i64)) == Type{DType::i64, {2, 3, 4}});
  REQUIRE(g.type(g.map(ScalarOp::select, {b, x, x})).dtype == DType::f16);
  REQUIRE(g.type(g.reshape(x, {4, -1})).shape == Shape{4, 6});
  REQUIRE(g.type(g.permute(x, {2, 0, -2})).shape == Shape{4, 2, 3});
  REQUIRE(g.type(g.slice(x, {0, 1, -3}, {2, 3, -1}, {1, 2, 1})).shape == Shape{2, 1, 2});
  REQUIRE(g.type(g.pad(x, {1, 0, 0}, {0, 2, 0}, Scalar::of(DType::f16, 0))).shape == Shape{3, 5, 4});
  REQUIRE(g.type(g.window(x, {2, 1}, {2, 3}, {2, 1})).shape == Shape{2, 1, 2, 2, 3});
  REQUIRE(g.type(g.broadcast(x, {2, 5, 3, 4}, {0, 2, 3})).shape == Shape{2, 5, 3, 4});
  REQUIRE(g.broadcast_to(x, {2, 3, 4}) == x);
  REQUIRE(g.type(g.reduce(Monoid::sum, x, {-1, 0}, false)) == Type{DType::f16, {3}});
  REQUIRE(g.type(g.reduce(Monoid::max, x, {}, true)) == Type{DType::f16, {1, 1, 1}});
  REQUIRE(g.type(g.reduce(Monoid::argmax, x, {1}, false)) == Type{DType::i64, {2, 4}});
  REQUIRE(g.type(g.reduce(Monoid::any, b, {1}, false)).dtype == DType::boolean);
  REQUIRE(g.type(g.reduce({Monoid::max_sumexp, {1}, false, 1, false}, {x})).dtype == DType::f16);
  REQUIRE(g.type(g.reduce({Monoid::max_sumexp, {1}, false, 3, false}, {x, x, x})).dtype == DType::f16);
  REQUIRE(verify(g).empty());
}

TEST_CASE("broadcasting follows NumPy") {
  ir::Graph g;
  const auto input = [&](const char* name, Shape s) { return g.input(name, {DType::f32, std::move(s)}); };
  std::vector<NodeId> nodes = {input("a", {4, 1, 3}), input("b", {5, 1}), input("c", {})};
  g.broadcast_together(nodes, "add");
  for (NodeId n : nodes) REQUIRE(g.type(n).shape == Shape{4, 5, 3});
  std::vector<NodeId> empty = {input("d", {0, 3}), input("e", {1, 3})};
  g.broadcast_together(empty, "add");
  REQUIRE(g.type(empty[1]).shape == Shape{0, 3});
  std::vector<NodeId> bad = {input("f", {3, 4}), input("h", {4, 3})};
  REQUIRE_THROWS_WITH(
      g.broadcast_together(bad, "add"),
      "error: cannot add f32[3,4] and f32[4,3]: dimension 0 is 3 on the left and 4 on the right");
  std::vector<NodeId> ranks = {input("i", {2, 3, 4}), input("j", {2, 4})};
  REQUIRE_THROWS_WITH(g.broadcast_together(ranks, "mul"),
                      Contains("dimension -2 is 3 on the left and 2 on the right"));
}

TEST_CASE("errors name the place, the operation and both values") {
  ir::Graph g;
  g.set_location({"gn.cpp", 14});
  const NodeId x = g.input("x", {DType::f32, {3, 4}});
  const NodeId i = g.input("i", {DType::i32, {3, 4}});
  const NodeId b = g.input("b", {DType::boolean, {3, 0}});
  const NodeId e = g.input("e", {DType::f32, {3, 0}});
  const auto fails = [](auto&& build, const std::string& message) {
    REQUIRE_THROWS_WITH(build(), "gn.cpp:14: error: " + message);
  };
  fails([&] { g.reduce(Monoid::sum, x, {2}, false); }, "sum: axis 2 is out of range for rank 2");
  fails([&] { g.normalize_axes(x, {-3}, "softmax"); }, "softmax: axis -3 is out of range for rank 2");
  fails(
      [&] {
        g.normalize_axes(x, {1, -1}, "softmax");
      },
      "softmax: axes 1 and -1 are the same axis for rank 2");
  fails([&] { g.normalize_axes(x, {1, 1}, "softmax"); }, "softmax: axis 1 is named twice for rank 2");
  fails(
      [&] {
        g.map(ScalarOp::add, {x, i});
      },
      "add needs operands of one type, got f32 and i32; cast one of them");
  fails([&] { g.map(ScalarOp::exp, {i}); }, "exp needs a floating type, got i32; cast it to f32 first");
  fails(
      [&] {
        g.map(ScalarOp::div, {i, i});
      },
      "div needs a floating type, got i32; use floordiv or cast to f32 first");
  fails([&] { g.map(ScalarOp::neg, {b}); }, "neg needs a number, got bool; cast it to i32 or f32 first");
  fails([&] { g.map(ScalarOp::add, {x}); }, "add takes 2 operands, got 1");
  fails(
      [&] {
        g.map(ScalarOp::select, {x, x, x});
      },
      "select needs a bool condition, got f32; compare it with 0 first");
  fails(
      [&] {
        g.map(ScalarOp::add, {x, e});
      },
      "add needs operands of one shape, got f32[3,4] and f32[3,0]; broadcast them first");
  fails([&] { g.reduce(Monoid::any, x, {0}, false); },
        "any needs bool, got f32; compare with 0 or cast to bool first");
  fails([&] { g.reduce(Monoid::sum, b, {0}, false); },
        "sum needs a number, got bool; cast it to i32 or f32 first");
  fails([&] { g.reduce(Monoid::max, e, {1}, false); },
        "max: axis 1 of f32[3,0] has extent 0, and max of no elements is not defined");
  fails([&] { g.reduce(Monoid::moments, x, {1}, false); }, "moments is made by the compiler only");
  fails(
      [&] {
        g.reduce({Monoid::max_sumexp, {1}, false, 3, false}, {x, x});
      },
      "max_sumexp has 3 components, component 3 was asked for");
  fails(
      [&] {
        g.reduce({Monoid::max_sumexp, {1}, false, 1, true}, {x});
      },
      "max_sumexp merge takes at least 2 operands, got 1");
  fails(
      [&] {
        g.reshape(x, {5, -1});
      },
      "cannot reshape f32[3,4] to [5,-1]: it has 12 elements, not a multiple of 5");
  fails([&] { g.reshape(x, {5}); }, "cannot reshape f32[3,4] to [5]: it has 12 elements, not 5");
  fails([&] { g.reshape(x, {-1, -1}); }, "reshape: [-1,-1] has more than one -1");
  fails([&] { g.reshape(e, {0, -1}); }, "reshape: -1 could be anything in [0,-1], as an extent is 0");
  fails([&] { g.permute(x, {0}); }, "permute: perm has 1 entries for rank 2");
  fails(
      [&] {
        g.broadcast_to(x, {2, 3});
      },
      "cannot broadcast f32[3,4] to [2,3]: axis 0 has extent 3, axis 0 of the result 2");
  fails([&] { g.broadcast_to(x, {4}); }, "cannot broadcast f32[3,4] to [4]: it has more axes");
  fails([&] { g.broadcast(x, {4, 3}, {1, 0}); }, "broadcast: dims [1, 0] are not increasing; permute first");
  fails([&] { g.slice(x, {0, 0}, {3, 5}); }, "slice: 0:5 of axis 1 does not lie in extent 4");
  fails(
      [&] {
        g.slice(x, {0, 0}, {3, 4}, {1, -1});
      },
      "slice: step -1 of axis 1 is not positive; flip the axis to go backwards");
  fails([&] { g.window(x, {1}, {3}, {1}, {2}); },
        "window: size 3 with dilation 2 does not fit axis 1 of extent 4; pad it first");
  fails(
      [&] {
        g.pad(x, {0, -1}, {0, 0}, std::nullopt);
      },
      "pad: -1 and 0 elements on axis 1: neither may be negative; slice to remove elements");
  fails(
      [&] {
        g.pad(x, {0, 1}, {0, 0}, Scalar::of(DType::i32, 0));
      },
      "pad: the value is i32, the operand f32[3,4]");
  fails([&] { g.input("x", {}); }, "there are two inputs named \"x\"");
  fails([&] { g.input("2x", {}); }, "input name \"2x\" is not an identifier");
  fails([&] { g.input("y", {DType::f32, {2, -3}}); }, "input y: extent -3 of axis 1 is negative in [2,-3]");
  fails(
      [&] {
        g.input("z", {DType::f32, {1LL << 40, 1LL << 40}});
      },
      "input z: [1099511627776,1099511627776] has more than 2^62 elements");
  fails([&] { g.iota(DType::boolean, {3}, 0); }, "iota needs a number, got bool");
  g.output("y", x);
  fails([&] { g.output("y", x); }, "there are two outputs named \"y\"");
  fails([&] { g.output("w", 99); }, "node 99 does not exist, the graph has 4 nodes");
}

TEST_CASE("nodes remember the composites they come from") {
  ir::Graph g;
  const NodeId x = g.input("x", {});
  NodeId inner = kNoNode;
  {
    const auto outer_scope = g.scope("layer_norm");
    const auto inner_scope = g.scope("mean");
    inner = g.map(ScalarOp::exp, {x});
  }
  const NodeId after = g.map(ScalarOp::exp, {x});
  REQUIRE(g.scopes()[static_cast<std::size_t>(g.node(inner).scope)] == "layer_norm.1/mean.2");
  REQUIRE(g.node(after).scope == 0);

  ir::Graph copy;
  const NodeId cx = copy.copy(g, x, {});
  const NodeId ci = copy.copy(g, inner, {cx});
  REQUIRE(copy.scopes()[static_cast<std::size_t>(copy.node(ci).scope)] == "layer_norm.1/mean.2");
  REQUIRE(copy.inputs() == std::vector<NodeId>{cx});
  REQUIRE_FALSE(same(g, copy));
  copy.copy(g, after, {cx});
  REQUIRE(same(g, copy));
}

TEST_CASE("op names tell the component of a reduction unless it is the user's") {
  ir::Graph g;
  const NodeId x = g.input("x", {DType::f32, {4}});
  REQUIRE(g.node(g.reduce(Monoid::argmax, x, {0}, false)).op_name() == "argmax");
  REQUIRE(g.node(g.reduce({Monoid::argmax, {0}, false, 0, false}, {x})).op_name() == "argmax.0");
  REQUIRE(g.node(g.reduce({Monoid::max_sumexp, {0}, false, 0, false}, {x})).op_name() == "max_sumexp.0");
  REQUIRE(g.node(g.reduce(Monoid::sum, x, {0}, false)).op_name() == "sum");
  REQUIRE(g.node(g.map(ScalarOp::exp, {x})).op_name() == "exp");
  REQUIRE(g.node(g.reshape(x, {2, 2})).kind() == NodeKind::view);
}

TEST_CASE("the verifier finds what copying can break") {
  ir::Graph g;
  const NodeId x = g.input("x", {DType::f32, {4}});
  const NodeId y = g.input("y", {DType::f32, {5}});
  const NodeId sum = g.map(ScalarOp::add, {x, x});
  const NodeId total = g.reduce(Monoid::sum, x, {0}, false);
  REQUIRE(verify(g).empty());

  ir::Graph broken;
  const NodeId bx = broken.copy(g, x, {}), by = broken.copy(g, y, {});
  broken.copy(g, sum, {bx, by});
  broken.copy(g, sum, {by, by});
  broken.copy(g, total, {});
  const std::vector<Violation> problems = verify(broken);
  REQUIRE(problems.size() == 3);
  REQUIRE_THAT(problems[0].what, Contains("%2 = add(%0, %1): f32[4]") && Contains("operands of one shape"));
  REQUIRE_THAT(problems[1].what, Contains("inference gives f32[5]"));
  REQUIRE_THAT(problems[2].what, Contains("sum needs an operand"));
  REQUIRE_THROWS_WITH(verify_or_throw(broken, "a pass"), Contains("graph main is broken after a pass"));

  ir::Graph absent;
  const NodeId padded = absent.pad(absent.input("x", {DType::f32, {4}}), {1}, {0}, std::nullopt);
  absent.reduce(Monoid::sum, absent.reshape(padded, {5, 1}), {0}, false);
  REQUIRE(verify(absent).empty());
  absent.map(ScalarOp::exp, {padded});
  absent.output("p", padded);
  REQUIRE(verify(absent).size() == 2);

  ir::Graph unrounded;
  Scalar value = Scalar::of(DType::f16, 1);
  value.f = 1.00001;
  unrounded.constant(value);
  REQUIRE_THAT(verify(unrounded).at(0).what, Contains("is not rounded to f16"));
}

TEST_CASE("a long chain is built, checked, copied and freed in linear time") {
  ir::Graph g;
  NodeId x = g.input("x", {DType::f32, {4}});
  for (int k = 0; k < 100000; ++k) {
    const auto scope = g.scope("step");
    x = g.map(ScalarOp::tanh, {x});
  }
  g.output("y", x);
  verify_or_throw(g, "building");
  ir::Graph copy;
  for (NodeId id = 0; id < g.size(); ++id) copy.copy(g, id, g.node(id).operands);
  copy.output("y", x);
  REQUIRE(same(g, copy));
}

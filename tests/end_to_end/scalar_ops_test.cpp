// Every scalar op in every type through the whole compiler, over edge values and random ones. Driven by the
// op table: a new row is tested as soon as kCases has a line for it, and does not build without.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness.h"
#include "op_graphs.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// How an op may differ from the float64 interpreter, in units in the last place of the result.
struct OpCase {
  ScalarOp op;
  double f32 = 0.5;
  double f64 = 0.5;
  // The quotient is rounded before its floor is taken, and may reach the next integer.
  bool floors_quotient = false;
};

constexpr OpCase kCases[] = {
    {ScalarOp::neg, 0, 0},
    {ScalarOp::abs, 0, 0},
    {ScalarOp::exp, 2, 2},
    {ScalarOp::exp2, 2, 2},
    {ScalarOp::expm1, 2, 2},
    {ScalarOp::log, 2, 2},
    {ScalarOp::log1p, 2, 2},
    {ScalarOp::log2, 2, 2},
    {ScalarOp::sqrt, 0.5, 0},
    {ScalarOp::rsqrt, 2, 2},
    {ScalarOp::reciprocal, 0.5, 0},
    {ScalarOp::sin, 2, 2},
    {ScalarOp::cos, 2, 2},
    {ScalarOp::tan, 2, 4},
    {ScalarOp::tanh, 2, 4},
    {ScalarOp::sigmoid, 2, 4},
    {ScalarOp::erf, 2, 4},
    {ScalarOp::floor, 0, 0},
    {ScalarOp::ceil, 0, 0},
    {ScalarOp::round, 0, 0},
    {ScalarOp::trunc, 0, 0},
    {ScalarOp::sign, 0, 0},
    {ScalarOp::isnan},
    {ScalarOp::isinf},
    {ScalarOp::isfinite},
    {ScalarOp::logical_not},
    {ScalarOp::add, 0.5, 0},
    {ScalarOp::sub, 0.5, 0},
    {ScalarOp::mul, 0.5, 0},
    {ScalarOp::div, 0.5, 0},
    {ScalarOp::floordiv, 1, 0, true},
    {ScalarOp::mod, 0.5, 0.5},
    {ScalarOp::pow, 2, 4},
    {ScalarOp::max, 0, 0},
    {ScalarOp::min, 0, 0},
    {ScalarOp::atan2, 2, 4},
    {ScalarOp::logical_and},
    {ScalarOp::logical_or},
    {ScalarOp::logical_xor},
    {ScalarOp::eq},
    {ScalarOp::ne},
    {ScalarOp::lt},
    {ScalarOp::le},
    {ScalarOp::gt},
    {ScalarOp::ge},
    {ScalarOp::select, 0, 0},
    {ScalarOp::clamp, 0, 0},
    {ScalarOp::fma, 0.5, 0},
    {ScalarOp::cast, 0.5, 0},
};

constexpr const OpCase* find_case(ScalarOp op) {
  for (const OpCase& c : kCases) {
    if (c.op == op) return &c;
  }
  return nullptr;
}
#define BZ_SCALAR_OP(name, text, arity, accepts, result, fast_error, doc) \
  static_assert(find_case(ScalarOp::name) != nullptr, "no test case for " text);
#include "ir/ops.def"
#undef BZ_SCALAR_OP

// ---- operands
// ---------------------------------------------------------------------------------------------------

std::vector<Scalar> edge_values(DType t) {
  std::vector<Scalar> out;
  if (t == DType::boolean) return {Scalar::of_int(t, 0), Scalar::of_int(t, 1)};
  if (is_integer(t)) {
    const std::int64_t highest =
        t == DType::i32 ? std::numeric_limits<std::int32_t>::max() : std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t v :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{2}, std::int64_t{-2},
          std::int64_t{3}, std::int64_t{-7}, std::int64_t{10}, std::int64_t{1} << 20, highest, highest - 1,
          -highest - 1, -highest, highest / 2, highest / 3}) {
      out.push_back(Scalar::of_int(t, v));
    }
    return out;
  }
  std::vector<double> v = {0.0,  1.0, 0.5,  1.5,    2.5, 2.0,     3.0,  1e-3, 0.9999, 1.0001,
                           7.25, 10,  89.5, 100.25, 1e5, 8388609, 1e10, 1e20, kInf};
  switch (t) {
    case DType::f32: v.insert(v.end(), {0x1p-149, 1e-40, 0x1p-126, 0x1.fffffep127, 0x1p-24}); break;
    case DType::f16: v.insert(v.end(), {0x1p-24, 3e-5, 0x1p-14, 65504.0, 0x1p-11}); break;
    case DType::bf16: v.insert(v.end(), {0x1p-133, 1e-39, 0x1p-126, 0x1.fep127, 0x1p-8}); break;
    default: v.insert(v.end(), {0x1p-1074, 1e-310, 0x1p-1022, 0x1.fffffffffffffp1023, 0x1p-53, 709.5}); break;
  }
  for (const double x : v) {
    out.push_back(Scalar::of(t, x));
    out.push_back(Scalar::of(t, -x));
  }
  out.push_back(Scalar::of(t, kNan));
  return out;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ ^ (state_ >> 29);
  }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// Of every magnitude the type has, most of them ordinary.
Scalar random_value(DType t, Random& random) {
  if (t == DType::boolean) return Scalar::of_int(t, random.bits() >> 40 & 1);
  if (is_integer(t))
    return Scalar::of_int(t, static_cast<std::int64_t>(random.bits()) >> (random.bits() >> 58));
  const double sign = (random.bits() >> 40 & 1) != 0 ? -1 : 1;
  const int wide = t == DType::f64 ? 300 : t == DType::f16 ? 14 : 120;
  const int range = (random.bits() >> 40) % 4 == 0 ? wide : 7;
  return Scalar::of(t,
                    sign * std::ldexp(1 + random.unit(), static_cast<int>((random.unit() * 2 - 1) * range)));
}

// Operand k of an op of `arity`: all combinations of the edge values (for three operands of every third),
// then random.
std::vector<HostTensor> operands(DType t, int arity) {
  std::vector<Scalar> edges = edge_values(t);
  if (arity == 3 && edges.size() > 15) {
    std::vector<Scalar> fewer;
    for (std::size_t k = 0; k < edges.size(); k += 3) fewer.push_back(edges[k]);
    fewer.push_back(edges.back());
    edges = fewer;
  }
  std::size_t combinations = 1;
  for (int k = 0; k < arity; ++k) combinations *= edges.size();
  const std::size_t total = combinations + 1500;
  std::vector<HostTensor> out;
  Random random(static_cast<std::uint64_t>(arity) + 1);
  std::size_t divisor = 1;
  for (int k = 0; k < arity; ++k) {
    HostTensor x({t, {static_cast<std::int64_t>(total)}});
    for (std::size_t i = 0; i < total; ++i) {
      x.set(static_cast<std::int64_t>(i),
            i < combinations ? edges[i / divisor % edges.size()] : random_value(t, random));
    }
    divisor *= edges.size();
    out.push_back(std::move(x));
  }
  return out;
}

// ---- judging
// ----------------------------------------------------------------------------------------------------

double allowed_ulp(const OpCase& c, DType t) {
  if (!is_float(t)) return 0;
  if (t == DType::f64) return c.f64;
  if (t == DType::f32) return c.f32;
  return 0.501 + c.f32 * 0x1p-3;  // computed in f32, rounded to 16 bits
}

std::string judge(const OpCase& c, const HostTensor& got, const ReferenceTensor& expected) {
  const DType t = expected.type.dtype;
  const Comparison comparison = compare(got, expected);
  // A reference in the precision of the result is itself rounded.
  if (c.floors_quotient && is_float(t)) {
    if (!within(comparison, {1.001, 2 * default_tolerance(t, 1).relative})) return to_string(comparison);
  } else if (comparison.max_ulp > allowed_ulp(c, t)) {
    return fmt::format("{}; {} ulp allowed", to_string(comparison), allowed_ulp(c, t));
  }
  if (!is_float(t)) return "";
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double g = got.value(i), e = expected.value(i);
    if (g == 0 && !std::isnan(e) && std::signbit(g) != std::signbit(e) && !c.floors_quotient) {
      return fmt::format("the sign of the zero at element {} is wrong, expected {}", i, e);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every scalar op has the value of its row, in every type it accepts") {
  for (const DType t : kAllDTypes) {
    for (int arity = 1; arity <= 3; ++arity) {
      const std::vector<HostTensor> x = operands(t, arity);
      ir::Graph g("ops");
      add_ops(g, t, arity, x[0].elements());
      if (g.outputs().empty()) continue;
      Options options;
      for (const NodeId id : g.inputs()) {
        const std::string& input = g.node(id).as<InputAttrs>()->name;
        if (input != "c") options.inputs[input] = x[static_cast<std::size_t>(input[1] - '0')];
      }
      options.judge = [](const std::string& output, const HostTensor& got, const ReferenceTensor& expected) {
        return ::judge(*find_case(*parse_scalar_op(output)), got, expected);
      };
      INFO(name(t) << ", " << arity << " operands");
      check_all_ways(g, options);
    }
  }
}

TEST_CASE("casts between all types round to nearest even, and saturate") {
  for (const DType t : kAllDTypes) {
    const std::vector<HostTensor> x = operands(t, 1);
    Options options;
    options.inputs["x0"] = x[0];
    options.judge = [&](const std::string&, const HostTensor& got,
                        const ReferenceTensor& expected) -> std::string {
      // The interpreter rounds a cast itself: nothing may differ.
      const Comparison c = compare(got, expected);
      return c.max_ulp == 0 ? "" : to_string(c);
    };
    INFO("from " << name(t));
    ir::Graph g("casts");
    add_casts(g, t, x[0].elements());
    check_all_ways(g, options);
  }
}

TEST_CASE("16-bit arithmetic between casts from f32 and back") {
  for (const DType t : {DType::f16, DType::bf16}) {
    ir::Graph g("between_casts");
    const std::vector<HostTensor> in = operands(DType::f32, 2);
    Options options;
    std::vector<NodeId> wide, x;
    for (const char* input : {"x0", "x1"}) {
      options.inputs[input] = in[x.size()];
      wide.push_back(g.input(input, in[0].type()));
      x.push_back(g.map(ScalarOp::cast, {wide.back()}, t));
    }
    for (const ScalarOpInfo& row : scalar_ops()) {
      if (!accepts(row.op, t) || row.arity > 2 || row.result != Result::same) continue;
      const std::vector<NodeId> arguments(x.begin(), x.begin() + row.arity);
      g.output(std::string(row.text), g.map(ScalarOp::cast, {g.map(row.op, arguments)}, DType::f32));
    }
    // Not rounded between the op and the cast: an f32 result of an op on f32.
    options.judge = [](const std::string& output, const HostTensor& got, const ReferenceTensor& expected) {
      return ::judge(*find_case(*parse_scalar_op(output)), got, expected);
    };
    INFO(name(t));
    check(g, options);
  }
}

TEST_CASE("an op on a type it does not accept is an error at its line") {
  int refused = 0;
  for (const ScalarOpInfo& row : scalar_ops()) {
    for (const DType t : kAllDTypes) {
      if (accepts(row.op, t)) continue;
      ir::Graph g;
      const NodeId x = g.input("x", {t, {4}});
      const NodeId c = g.input("c", {DType::boolean, {4}});
      std::vector<NodeId> arguments(static_cast<std::size_t>(row.arity), x);
      if (row.op == ScalarOp::select) arguments[0] = c;
      g.set_location({"ops.cpp", 17});
      INFO(row.text << " of " << name(t));
      std::string message;
      try {
        g.map(row.op, arguments);
      } catch (const Error& e) {
        message = e.what();
      }
      CHECK(message.starts_with("ops.cpp:17: error: "));
      CHECK(message.find(std::string(row.text)) != std::string::npos);
      CHECK(message.find(std::string(name(t))) != std::string::npos);
      ++refused;
    }
  }
  CHECK(refused > 100);
}

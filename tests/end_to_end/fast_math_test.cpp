// fast_math: every op that it approximates within the bound of docs/numerics.md, here and on a GPU, every other one as it is
// without; NaN and infinities as ever; and what becomes of it in PTX.
#include <fmt/format.h>

#include <bit>
#include <random>

#include "harness.h"
#include "op_graphs.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

// Subnormal numbers count as 0 for what ends in .ftz.
double flush(double x) { return std::fabs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; }
double inverse(double x) { return flush(1 / flush(x)); }
double larger_than_1(double x) { return std::max(1.0, std::fabs(x)); }

// `exact` of the operands as the instructions take them, and how far from it a result may lie.
struct FastCase {
  ScalarOp op;
  std::vector<std::string> instructions;
  double (*exact)(double x, double y);
  double (*bound)(double x, double y, double exact);
};

double relative_2_22(double, double, double exact) { return 0x1p-22 * std::fabs(exact); }
double of_angle(double x, double, double) { return 0x1p-20 + 0x1p-22 * std::fabs(x); }

const std::vector<FastCase>& fast_cases() {
  static const std::vector<FastCase> cases = {
      {ScalarOp::exp,
       {"ex2.approx.ftz.f32"},
       [](double x, double) { return std::exp(x); },
       [](double x, double, double e) { return (0x1p-22 + 0x1p-23 * std::fabs(x)) * e; }},
      {ScalarOp::exp2, {"ex2.approx.ftz.f32"}, [](double x, double) { return std::exp2(x); }, relative_2_22},
      {ScalarOp::log,
       {"lg2.approx.ftz.f32"},
       [](double x, double) { return std::log(flush(x)); },
       [](double, double, double e) { return 0x1p-21 * larger_than_1(e); }},
      {ScalarOp::log2,
       {"lg2.approx.ftz.f32"},
       [](double x, double) { return std::log2(flush(x)); },
       [](double, double, double e) { return 0x1p-22 * larger_than_1(e); }},
      {ScalarOp::sqrt,
       {"sqrt.approx.ftz.f32"},
       [](double x, double) { return std::sqrt(flush(x)); },
       relative_2_22},
      {ScalarOp::rsqrt,
       {"rsqrt.approx.ftz.f32"},
       [](double x, double) { return 1 / std::sqrt(flush(x)); },
       relative_2_22},
      {ScalarOp::reciprocal,
       {"rcp.approx.ftz.f32"},
       [](double x, double) { return inverse(x); },
       relative_2_22},
      {ScalarOp::sin, {"sin.approx.ftz.f32"}, [](double x, double) { return std::sin(flush(x)); }, of_angle},
      {ScalarOp::cos, {"cos.approx.ftz.f32"}, [](double x, double) { return std::cos(x); }, of_angle},
      {ScalarOp::tanh,
       {"tanh.approx.f32"},
       [](double x, double) { return std::tanh(x); },
       [](double, double, double e) { return 0x1.1p-11 * std::fabs(e); }},
      {ScalarOp::sigmoid,
       {"ex2.approx.ftz.f32", "rcp.approx.ftz.f32"},
       [](double x, double) { return 1 / (1 + std::exp(-x)); },
       [](double x, double, double e) { return (0x1p-21 + 0x1p-23 * std::fabs(x)) * e; }},
      {ScalarOp::div,
       {"rcp.approx.ftz.f32"},
       [](double x, double y) { return x * inverse(y); },
       [](double, double, double e) { return 0x1p-22 * std::fabs(e) + 0x1p-149; }},
      {ScalarOp::pow,
       {"lg2.approx.ftz.f32", "ex2.approx.ftz.f32"},
       [](double x, double y) { return std::isnan(std::pow(x, y)) ? kNan : std::pow(flush(x), y); },
       [](double x, double y, double e) {
         return 0x1p-22 * (1 + std::fabs(y) * larger_than_1(std::log2(std::fabs(x)))) * std::fabs(e);
       }},
  };
  return cases;
}

const FastCase* find_case(ScalarOp op) {
  const auto& all = fast_cases();
  const auto at = std::find_if(all.begin(), all.end(), [&](const FastCase& c) { return c.op == op; });
  return at == all.end() ? nullptr : &*at;
}

std::vector<double> edges() {
  std::vector<double> out = {kNan};
  for (const double x :
       {0.0,  1.0,  0.5,   1.5,      2.0,      2.5,      3.0,     0.1,     10.0,    20.0, 80.0, 87.0,
        88.0, 88.8, 90.0,  104.0,    127.0,    128.0,    130.0,   150.0,   1e5,     1e10, 1e30, 3e38,
        1e-3, 1e-6, 1e-20, 0x1p-126, 0x1p-127, 0x1p-149, 0x1p-10, 0x1p-24, 0x1p125, kInf}) {
    out.push_back(x);
    out.push_back(-x);
  }
  return out;
}

// All pairs of edges, then bit patterns, then numbers in ranges where functions do something.
std::vector<HostTensor> operands(std::int64_t random_elements) {
  const std::vector<double> e = edges();
  const auto pairs = static_cast<std::int64_t>(e.size() * e.size());
  std::mt19937_64 random(1);
  std::vector<HostTensor> x;
  for (int k = 0; k < 2; ++k) {
    HostTensor t({DType::f32, {pairs + random_elements}});
    for (std::int64_t i = 0; i < pairs; ++i) {
      const auto at = static_cast<std::size_t>(i);
      t.set(i, Scalar::of(DType::f32, e[k == 0 ? at % e.size() : at / e.size()]));
    }
    constexpr double kRanges[] = {1, 4, 20, 100};
    for (std::int64_t i = pairs; i < t.type().elements(); ++i) {
      const std::uint64_t bits = random();
      const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
      const double v = i % 5 == 0
                           ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                           : (2 * unit - 1) * kRanges[i % 5 - 1];
      t.set(i, Scalar::of(DType::f32, v));
    }
    x.push_back(std::move(t));
  }
  return x;
}

struct Worst {
  double share = 0;  // of the bound
  std::string where;
};

// The error of one result as a share of its bound; 0 where it is what IEEE says.
double share_of_bound(const FastCase& c, double x, double y, double got) {
  constexpr double kOverflow = 0x1p128;
  const double e = c.exact(x, y);
  if (std::isnan(e) || std::isnan(got)) return std::isnan(e) && std::isnan(got) ? 0 : kInf;
  const double bound = c.bound(x, y, e);
  // A result that may lie below the smallest normal number may be 0, of its sign. Where the bound leaves the sign open (a sine of
  // 1e10), so may it.
  if (got == 0 && std::fabs(e) - bound < 0x1p-126 && (e == 0 || bound < std::fabs(e)))
    return std::signbit(got) == std::signbit(e) ? 0 : kInf;
  if (std::isinf(e)) return got == e ? 0 : kInf;
  // An infinity stands for the first number that does not fit.
  const double error =
      std::fabs(std::clamp(got, -kOverflow, kOverflow) - std::clamp(e, -kOverflow, kOverflow));
  return error == 0 ? 0 : error / bound;
}

Worst worst(const FastCase& c, const std::vector<HostTensor>& x, const HostTensor& got) {
  Worst w;
  for (std::int64_t i = 0; i < got.elements(); ++i) {
    const double a = x[0].value(i), b = x[1].value(i), g = got.value(i);
    const double share = share_of_bound(c, a, b, g);
    if (share > w.share)
      w = {share, fmt::format("{}({:a}, {:a}) = {:a}, exact {:a}", info(c.op).text, a, b, g, c.exact(a, b))};
  }
  return w;
}

// The largest error of every approximate op, in f32.
std::map<ScalarOp, Worst> measure(runtime::Device* device, std::int64_t elements) {
  const std::vector<HostTensor> x = operands(elements);
  ir::Graph g("approximations");
  std::vector<NodeId> in;
  for (const char* name : {"x0", "x1"}) in.push_back(g.input(name, x[0].type()));
  for (const FastCase& c : fast_cases()) {
    const std::vector<NodeId> arguments(in.begin(), in.begin() + info(c.op).arity);
    g.output(std::string(info(c.op).text), g.map(c.op, arguments));
  }
  Options options;
  options.fast_math = true;
  options.device = device;
  const Target target = device != nullptr ? device->target() : *parse_target("sim");
  const Tensors got = run(compile_for(target, g, options), {{"x0", x[0]}, {"x1", x[1]}}, options);
  std::map<ScalarOp, Worst> all;
  for (const FastCase& c : fast_cases()) all[c.op] = worst(c, x, got.at(std::string(info(c.op).text)));
  return all;
}

std::string ptx(const ir::Graph& g, bool fast_math, const std::string& target = "sm_90") {
  Options options;
  options.fast_math = fast_math;
  return compile_for(*parse_target(target), g, options).plan.ptx;
}

// One op on f32.
ir::Graph alone(ScalarOp op) {
  ir::Graph g("alone");
  std::vector<NodeId> arguments;
  for (int k = 0; k < info(op).arity; ++k)
    arguments.push_back(g.input("x" + std::to_string(k), {DType::f32, {1000}}));
  g.output("y", g.map(op, arguments));
  return g;
}

// A composite of rows.
std::vector<double> rows(const std::string& composite, DType t, const std::vector<double>& x,
                         std::int64_t width, const std::string& schedule = "") {
  const auto n = static_cast<std::int64_t>(x.size()) / width;
  const ir::Graph g =
      parse(fmt::format("graph g {{ %x = input {}[{}, {}] %y = {} %x {{axes = [1]}} output %y }}", name(t), n,
                        width, composite));
  Options options;
  options.fast_math = true;
  options.schedule = schedule;
  return values(run(compile_for_sim(g, options), {{"x", tensor({t, {n, width}}, x)}}, options).at("y"));
}

}  // namespace

TEST_CASE("fast_math: every op that it approximates has a bound here, and no other") {
  for (const ScalarOpInfo& row : scalar_ops()) {
    INFO(row.text);
    CHECK((row.fast_error > 0) == (find_case(row.op) != nullptr));
  }
}

TEST_CASE("fast_math: approximate ops keep to their bounds") {
  for (const auto& [op, w] : measure(nullptr, 50000)) {
    INFO(w.where);
    CHECK(w.share <= 1);
  }
}

TEST_CASE("fast_math: approximate ops keep to their bounds on a GPU", "[gpu]") {
  const auto device = gpu();
  if (device == nullptr) return;
  std::string table;
  for (const auto& [op, w] : measure(device.get(), 4000000)) {
    table += fmt::format("\n{:<12}{:.3f} of its bound at {}", info(op).text, w.share, w.where);
    INFO(w.where);
    CHECK(w.share <= 1);
  }
  WARN("fast_math on " << device->name() << table);
}

TEST_CASE("fast_math: every other op, and f64, has the bits that it has without") {
  for (const DType t : {DType::f32, DType::f64}) {
    for (int arity = 1; arity <= 3; ++arity) {
      ir::Graph g("ops");
      add_ops(g, t, arity, 20000);
      Options options;
      const Tensors inputs = complete_inputs(g, options);
      const Tensors exact = run(compile_for_sim(g, options), inputs, options);
      options.fast_math = true;
      const Tensors fast = run(compile_for_sim(g, options), inputs, options);
      for (const auto& [output, expected] : exact) {
        if (t == DType::f32 && info(*parse_scalar_op(output)).fast_error > 0) continue;
        INFO(name(t) << " " << output);
        CHECK(std::memcmp(expected.data(), fast.at(output).data(), expected.bytes()) == 0);
      }
    }
  }
}

TEST_CASE("fast_math: masks of -inf, infinities and NaN in rows") {
  constexpr std::int64_t kWidth = 300;
  std::vector<double> x(6 * kWidth, 0.25);
  const auto row = [&](std::int64_t r) { return x.begin() + r * kWidth; };
  std::fill(row(0), row(1), -kInf);               // all masked
  std::fill(row(1), row(1) + kWidth - 1, -kInf);  // all but one
  std::fill(row(2), row(2) + kWidth / 2, -kInf);  // a half
  row(3)[7] = kInf;
  row(4)[299] = kNan;
  for (std::int64_t i = 0; i < kWidth; ++i) row(5)[i] = i % 2 == 0 ? -200 : 200;
  for (const std::string schedule : {"", "lanes=reduced,vector=4,reduced=32,unroll=1",
                                     "lanes=reduced,vector=4,reduced=64,unroll=2,keep=registers"}) {
    INFO(schedule);
    for (const DType t : {DType::f32, DType::bf16}) {
      const double near = t == DType::f32 ? 1e-5 : 0.01;
      const bool one_phase = schedule.find("keep=registers") == std::string::npos;
      require_near(rows("logsumexp", t, x, kWidth, one_phase ? schedule : ""),
                   {-kInf, 0.25, 0.25 + std::log(150), kInf, kNan, 200 + std::log(150)}, near);
      const std::vector<double> y = rows("softmax", t, x, kWidth, schedule);
      const auto part = [&](std::int64_t r) {
        return std::vector<double>{y[static_cast<std::size_t>(r * kWidth)],
                                   y[static_cast<std::size_t>((r + 1) * kWidth - 1)]};
      };
      require_near(part(0), {kNan, kNan}, near);
      require_near(part(1), {0, 1}, near);
      require_near(part(2), {0, 1.0 / 150}, near);
      require_near(part(3), {kNan, kNan}, near);
      require_near(part(4), {kNan, kNan}, near);
      require_near(part(5), {0, 1.0 / 150}, near);
    }
  }
}

TEST_CASE("fast_math: a constant row has no variance, and a large mean costs no digits") {
  constexpr std::int64_t kWidth = 1000;
  for (const char* schedule : {"lanes=reduced,vector=4,reduced=32,unroll=1",
                               "lanes=reduced,vector=4,reduced=64,unroll=4,keep=registers"}) {
    INFO(schedule);
    const std::vector<double> constant(kWidth, 0.1);
    CHECK(rows("var", DType::f32, constant, kWidth, schedule) == std::vector<double>{0});
    for (const double y : rows("layer_norm", DType::f32, constant, kWidth, schedule)) CHECK(y == 0);
    std::vector<double> far;
    for (std::int64_t i = 0; i < kWidth; ++i) far.push_back(1e6 + (i % 2 == 0 ? 1 : -1));
    require_near(rows("var", DType::f32, far, kWidth, schedule), {kWidth / (kWidth - 1.0)}, 1e-5);
  }
}

TEST_CASE("fast_math: approximate instructions are in the PTX of what it approximates, and nowhere else") {
  for (const ScalarOpInfo& row : scalar_ops()) {
    if (!accepts(row.op, DType::f32) || row.op == ScalarOp::cast || row.op == ScalarOp::select) continue;
    INFO(row.text);
    const ir::Graph g = alone(row.op);
    CHECK(ptx(g, false).find(".approx") == std::string::npos);
    const std::string fast = ptx(g, true);
    const FastCase* c = find_case(row.op);
    if (c == nullptr) {
      CHECK(fast.find(".approx") == std::string::npos);
      continue;
    }
    for (const std::string& instruction : c->instructions) CHECK(fast.find(instruction) != std::string::npos);
    CHECK(fast.find("div.rn") == std::string::npos);
  }
}

TEST_CASE("fast_math: a product and a sum become one instruction, a quotient by a constant a product") {
  const ir::Graph g = parse(
      "graph g { %x = input f32[1000] %z = input f32[1000] %p = mul %x, %z %s = add %p, %x %y = div %s, 6 "
      "output %y }");
  CHECK(ptx(g, false).find("fma.rn.f32 \t%r") != std::string::npos);  // of the exact quotient
  CHECK(ptx(g, false).find("add.rn.f32") != std::string::npos);
  const std::string fast = ptx(g, true);
  CHECK(fast.find("fma.rn.f32") != std::string::npos);
  CHECK(fast.find("add.f32") == std::string::npos);
  CHECK(fast.find("add.rn.f32") == std::string::npos);
  CHECK(fast.find("rcp") == std::string::npos);
}

TEST_CASE("fast_math: tanh.approx asks for the PTX version that has it") {
  CHECK(ptx(alone(ScalarOp::tanh), true, "sm_75").find(".version 7.0") != std::string::npos);
  CHECK(ptx(alone(ScalarOp::exp), true, "sm_75").find(".version 6.3") != std::string::npos);
}

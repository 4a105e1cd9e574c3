// Composites against plain loops in double, at the values where such functions usually go wrong.
#include "ir/composites.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "ir/interpret.h"
#include "ir/verify.h"

using namespace bz;  // NOLINT

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");
using Values = std::vector<double>;

HostTensor tensor(const Type& type, const Values& v) {
  HostTensor t(type);
  REQUIRE(t.elements() == static_cast<std::int64_t>(v.size()));
  for (std::int64_t k = 0; k < t.elements(); ++k)
    t.set(k, Scalar::of(type.dtype, v[static_cast<std::size_t>(k)]));
  return t;
}

Values values(const HostTensor& t) {
  Values out;
  for (std::int64_t k = 0; k < t.elements(); ++k) out.push_back(t.value(k));
  return out;
}

// The composite `build` of inputs x0, x1, ...
Values run(const std::vector<HostTensor>& inputs,
           const std::function<NodeId(ir::Graph&, const std::vector<NodeId>&)>& build, Type* type = nullptr) {
  ir::Graph g;
  std::map<std::string, HostTensor> given;
  std::vector<NodeId> nodes;
  for (const HostTensor& t : inputs) {
    const std::string name = "x" + std::to_string(nodes.size());
    nodes.push_back(g.input(name, t.type()));
    given.emplace(name, t);
  }
  g.output("y", build(g, nodes));
  verify_or_throw(g, "the test");
  const ReferenceTensor y = interpret_reference(g, given).at("y");
  if (type != nullptr) *type = y.type;
  Values out;
  for (std::int64_t k = 0; k < y.type.elements(); ++k) out.push_back(y.value(k));
  return out;
}

Values run1(const HostTensor& x, const std::function<NodeId(ir::Graph&, NodeId)>& build,
            Type* type = nullptr) {
  return run(
      {x}, [&](ir::Graph& g, const std::vector<NodeId>& n) { return build(g, n[0]); }, type);
}

void require_near(const Values& got, const Values& expected, double tolerance = 1e-12) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    INFO("element " << k << ": " << got[k] << ", expected " << expected[k]);
    if (std::isnan(expected[k])) {
      REQUIRE(std::isnan(got[k]));
    } else if (std::isinf(expected[k])) {
      REQUIRE(got[k] == expected[k]);
    } else {
      REQUIRE(std::fabs(got[k] - expected[k]) <= tolerance * (1 + std::fabs(expected[k])));
    }
  }
}

// Rows of a matrix, one function of a row each.
Values by_row(const HostTensor& x, std::int64_t width, const std::function<void(const Values&, Values&)>& f) {
  Values out;
  const Values all = values(x);
  for (std::size_t r = 0; r < all.size(); r += static_cast<std::size_t>(width)) {
    f(Values(all.begin() + static_cast<std::ptrdiff_t>(r),
             all.begin() + static_cast<std::ptrdiff_t>(r) + static_cast<std::ptrdiff_t>(width)),
      out);
  }
  return out;
}

double row_mean(const Values& v) {
  double s = 0;
  for (double x : v) s += x;
  return s / static_cast<double>(v.size());
}

double row_squares(const Values& v) {
  const double m = row_mean(v);
  double s = 0;
  for (double x : v) s += (x - m) * (x - m);
  return s;
}

double row_lse(const Values& v) {
  const double m = *std::max_element(v.begin(), v.end());
  double s = 0;
  for (double x : v) s += std::exp(x - m);
  return std::log(s) + m;
}

void row_norm(const Values& v, double eps, Values& out) {
  const double m = row_mean(v), scale = 1 / std::sqrt(row_squares(v) / static_cast<double>(v.size()) + eps);
  for (double x : v) out.push_back((x - m) * scale);
}

Type f64(Shape s) { return {DType::f64, std::move(s)}; }
Type f32(Shape s) { return {DType::f32, std::move(s)}; }

}  // namespace

TEST_CASE("softmax, log_softmax and logsumexp of rows of every width, all below -100") {
  for (const std::int64_t width : {1, 2, 3, 17, 31, 32, 33, 64, 1000}) {
    HostTensor x = random_tensor(f64({4, width}), 11);
    for (std::int64_t k = 0; k < x.elements(); ++k) x.set(k, Scalar::of(DType::f64, x.value(k) * 5 - 300));
    const auto softmax = [](const Values& v, Values& out) {
      for (double a : v) out.push_back(std::exp(a - row_lse(v)));
    };
    const auto log_softmax = [](const Values& v, Values& out) {
      for (double a : v) out.push_back(a - row_lse(v));
    };
    require_near(run1(x, [](ir::Graph& g, NodeId n) { return composite::softmax(g, n, {-1}); }),
                 by_row(x, width, softmax));
    require_near(run1(x, [](ir::Graph& g, NodeId n) { return composite::log_softmax(g, n, {1}); }),
                 by_row(x, width, log_softmax), 1e-11);
    require_near(run1(x, [](ir::Graph& g, NodeId n) { return composite::logsumexp(g, n, {1}); }),
                 by_row(x, width, [](const Values& v, Values& out) { out.push_back(row_lse(v)); }));
  }
}

TEST_CASE("logsumexp of infinite and of no elements") {
  const auto lse = [](ir::Graph& g, NodeId n) { return composite::logsumexp(g, n, {1}); };
  require_near(run1(tensor(f32({2, 2}), {1, 2, -kInf, -kInf}), lse), {2.3132616875182228, -kInf});
  require_near(run1(tensor(f32({4, 2}), {1, kInf, kInf, kInf, -kInf, 3, kNan, kInf}), lse),
               {kInf, kInf, 3, kNan});
  require_near(run1(tensor(f32({3, 0}), {}), lse), {-kInf, -kInf, -kInf});
  Type type;
  const auto keep = [](ir::Graph& g, NodeId n) { return composite::logsumexp(g, n, {0, 1}, true); };
  require_near(run1(tensor(f32({3, 0}), {}), keep, &type), {-kInf});
  REQUIRE(type.shape == Shape{1, 1});
}

TEST_CASE("softmax and log_softmax at the edges") {
  const auto softmax = [](ir::Graph& g, NodeId n) { return composite::softmax(g, n, {-1}); };
  const auto log_softmax = [](ir::Graph& g, NodeId n) { return composite::log_softmax(g, n, {-1}); };
  require_near(run1(tensor(f32({2}), {-kInf, -kInf}), softmax), {kNan, kNan});
  require_near(run1(tensor(f32({2}), {-kInf, 0}), softmax), {0, 1});
  require_near(run1(tensor(f32({3}), {-1e7, -1e7, -1e7 + 1}), log_softmax),
               {-1.5514447139320511, -1.5514447139320511, -0.5514447139320511});
  Type type;
  require_near(run1(tensor(f32({4, 0}), {}), softmax, &type), {});
  REQUIRE(type == f32({4, 0}));
  require_near(run1(tensor(f32({4, 0}), {}), log_softmax), {});
  require_near(run1(tensor({DType::bf16, {512}}, Values(512, 3)), softmax), Values(512, 1.0 / 512));
}

TEST_CASE("mean, var and std") {
  const HostTensor x = random_tensor(f64({3, 40}), 4);
  require_near(run1(x, [](ir::Graph& g, NodeId n) { return composite::mean(g, n, {1}); }),
               by_row(x, 40, [](const Values& v, Values& out) { out.push_back(row_mean(v)); }));
  for (const std::int64_t correction : {0, 1, 5}) {
    const double n = 40.0 - static_cast<double>(correction);
    require_near(run1(x, [&](ir::Graph& g, NodeId x0) { return composite::var(g, x0, {1}, correction); }),
                 by_row(x, 40, [&](const Values& v, Values& out) { out.push_back(row_squares(v) / n); }));
    require_near(
        run1(x, [&](ir::Graph& g, NodeId x0) { return composite::std(g, x0, {1}, correction, true); }),
        by_row(x, 40, [&](const Values& v, Values& out) { out.push_back(std::sqrt(row_squares(v) / n)); }));
  }
  Type type;
  run1(
      x, [](ir::Graph& g, NodeId n) { return composite::var(g, n, {0}, 1, true); }, &type);
  REQUIRE(type.shape == Shape{1, 40});
  require_near(
      run1(tensor(f32({3, 0}), {}), [](ir::Graph& g, NodeId n) { return composite::mean(g, n, {1}); }),
      Values(3, kNan));
  require_near(run1(tensor(f32({1}), {5}), [](ir::Graph& g, NodeId n) { return composite::var(g, n, {0}); }),
               {kNan});
}

TEST_CASE("means of 16-bit numbers neither overflow nor lose count") {
  const auto mean = [](ir::Graph& g, NodeId n) { return composite::mean(g, n, {0}); };
  require_near(run1(tensor({DType::f16, {100}}, Values(100, 1000)), mean), {1000});
  require_near(run1(tensor({DType::f16, {100000}}, Values(100000, 2)), mean), {2});
  Type type;
  require_near(run1(tensor({DType::bf16, {70000}}, Values(70000, 1)), mean, &type), {1});
  REQUIRE(type.dtype == DType::bf16);
}

TEST_CASE("layer_norm keeps what is left of large means") {
  const auto norm = [](ir::Graph& g, NodeId n) { return composite::layer_norm(g, n); };
  require_near(run1(tensor(f32({4}), {40000, 40001, 40002, 40003}), norm),
               {-1.341635, -0.447212, 0.447212, 1.341635}, 1e-6);
  require_near(run1(tensor(f32({4}), Values(4, 40000.3)), norm), Values(4, 0), 0);
  for (const std::size_t width : {std::size_t{16}, std::size_t{41}, std::size_t{1536}}) {
    for (const double m : {0.0, 100.0, 1e3, 1e4}) {
      Values row;
      for (std::size_t i = 0; i < width; ++i) row.push_back(m + static_cast<double>(i) * 1e-3);
      const HostTensor x = tensor(f32({static_cast<std::int64_t>(width)}), row);
      Values expected;
      row_norm(values(x), static_cast<double>(1e-5F), expected);
      require_near(run1(x, norm), expected, 1e-6);
    }
  }
  require_near(run1(tensor(f32({0, 128}), {}), norm), {});
}

TEST_CASE("layer_norm and rms_norm with parameters, over any axes") {
  const HostTensor x = random_tensor(f64({5, 3, 7}), 1), gamma = random_tensor(f64({3, 7}), 2),
                   beta = random_tensor(f64({3, 7}), 3);
  Values expected, rms;
  for (std::int64_t r = 0; r < 5; ++r) {
    Values row, normed;
    for (std::int64_t k = 0; k < 21; ++k) row.push_back(x.value(r * 21 + k));
    row_norm(row, 1e-3, normed);
    double squares = 0;
    for (double v : row) squares += v * v;
    for (std::int64_t k = 0; k < 21; ++k) {
      expected.push_back(normed[static_cast<std::size_t>(k)] * gamma.value(k) + beta.value(k));
      rms.push_back(row[static_cast<std::size_t>(k)] / std::sqrt(squares / 21 + std::ldexp(1, -52)) *
                    gamma.value(k));
    }
  }
  require_near(run({x, gamma, beta},
                   [](ir::Graph& g, const std::vector<NodeId>& n) {
                     return composite::layer_norm(g, n[0], {-2, -1}, n[1], n[2], 1e-3);
                   }),
               expected);
  require_near(run({x, gamma},
                   [](ir::Graph& g, const std::vector<NodeId>& n) {
                     return composite::rms_norm(g, n[0], {1, 2}, n[1]);
                   }),
               rms);
  ir::Graph g;
  const NodeId n = g.input("x", f32({2, 64})), bad = g.input("gamma", f32({63}));
  REQUIRE_THROWS_WITH(composite::layer_norm(g, n, {-1}, bad),
                      "error: layer_norm: gamma is f32[63], expected f32[64] for x of type f32");
  const NodeId half = g.input("half", {DType::f16, {2, 64}}), scale = g.input("scale", {DType::bf16, {64}});
  REQUIRE_THROWS_WITH(composite::rms_norm(g, half, {-1}, scale),
                      "error: rms_norm: gamma is bf16[64], expected f16[64] or f32[64] for x of type f16");
  REQUIRE_THROWS_WITH(composite::layer_norm(g, n, {-1}, kNoNode, scale),
                      "error: layer_norm: beta is bf16[64], expected f32[64] for x of type f32");
}

TEST_CASE("group_norm, instance_norm and batch_norm") {
  const std::int64_t batch = 2, channels = 6, spatial = 20;
  const HostTensor x = random_tensor(f64({batch, channels, 4, 5}), 1),
                   gamma = random_tensor(f64({channels}), 2), beta = random_tensor(f64({channels}), 3),
                   mean = random_tensor(f64({channels}), 4);
  HostTensor variance = random_tensor(f64({channels}), 5);
  for (std::int64_t c = 0; c < channels; ++c)
    variance.set(c, Scalar::of(DType::f64, 1 + std::fabs(variance.value(c))));
  const auto affine = [&](Values v) {
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(v.size()); ++k) {
      const std::int64_t c = k / spatial % channels;
      v[static_cast<std::size_t>(k)] = v[static_cast<std::size_t>(k)] * gamma.value(c) + beta.value(c);
    }
    return v;
  };
  const auto norm = [](const Values& v, Values& out) { row_norm(v, 1e-5, out); };
  for (const std::int64_t groups : {1, 2, 3, 6}) {
    require_near(run({x, gamma, beta},
                     [&](ir::Graph& g, const std::vector<NodeId>& n) {
                       return composite::group_norm(g, n[0], groups, n[1], n[2]);
                     }),
                 affine(by_row(x, channels / groups * spatial, norm)));
  }
  require_near(run({x, gamma, beta},
                   [&](ir::Graph& g, const std::vector<NodeId>& n) {
                     return composite::instance_norm(g, n[0], n[1], n[2]);
                   }),
               affine(by_row(x, spatial, norm)));
  Values batch_normed = values(x);
  for (std::int64_t k = 0; k < x.elements(); ++k) {
    const std::int64_t c = k / spatial % channels;
    double& v = batch_normed[static_cast<std::size_t>(k)];
    v = (v - mean.value(c)) / std::sqrt(variance.value(c) + 1e-5);
  }
  require_near(run({x, mean, variance, gamma, beta},
                   [&](ir::Graph& g, const std::vector<NodeId>& n) {
                     return composite::batch_norm(g, n[0], n[1], n[2], n[3], n[4]);
                   }),
               affine(batch_normed));
}

TEST_CASE("group_norm names channels and groups that do not fit") {
  ir::Graph g;
  const NodeId x = g.input("x", f32({2, 4, 8}));
  for (const int groups : {0, -1, 3}) {
    REQUIRE_THROWS_WITH(
        composite::group_norm(g, x, groups),
        "error: group_norm: 4 channels cannot be split into " + std::to_string(groups) + " groups");
  }
  REQUIRE_THROWS_WITH(composite::group_norm(g, g.input("v", f32({4})), 2),
                      "error: group_norm needs at least 2 dimensions, got f32[4]");
}

TEST_CASE("16-bit norms are computed in f32 and rounded once") {
  const DType parameters = GENERATE(DType::f16, DType::f32);
  const HostTensor x = random_tensor({DType::f16, {3, 100}}, 9),
                   gamma = random_tensor({parameters, {100}}, 10);
  Type type;
  const Values got = run(
      {x, gamma},
      [](ir::Graph& g, const std::vector<NodeId>& n) { return composite::layer_norm(g, n[0], {-1}, n[1]); },
      &type);
  REQUIRE(type.dtype == DType::f16);
  Values expected = by_row(x, 100, [](const Values& v, Values& out) { row_norm(v, 1e-5, out); });
  for (std::size_t k = 0; k < expected.size(); ++k) {
    expected[k] *= gamma.value(static_cast<std::int64_t>(k % 100));
    REQUIRE(round_to(DType::f16, got[k]) == got[k]);
  }
  require_near(got, expected, std::ldexp(1, -11));
}

TEST_CASE("activations at ordinary values, infinities and NaN") {
  using Fn = double (*)(double);
  struct Row {
    const char* name;
    CompositeAttrs attributes;
    Fn f;
    double at_minus_inf;
  };
  static const auto softplus = [](double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
  };
  static const auto relu6 = [](double x) { return std::min(std::max(x, 0.0), 6.0); };
  const std::vector<Row> rows = {
      {"square", {}, [](double x) { return x * x; }, kInf},
      {"relu", {}, [](double x) { return x > 0 ? x : 0; }, 0},
      {"leaky_relu", {{"negative_slope", 0.2}}, [](double x) { return x > 0 ? x : 0.2 * x; }, -kInf},
      {"elu", {{"alpha", 1.5}}, [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }, -1.5},
      {"selu",
       {},
       [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); },
       -1.0507009873554805 * 1.6732632423543772},
      {"gelu", {}, [](double x) { return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }, kNan},
      {"gelu",
       {{"approximate", std::string("tanh")}},
       [](double x) { return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); },
       kNan},
      {"silu", {}, [](double x) { return x / (1 + std::exp(-x)); }, kNan},
      {"mish", {}, [](double x) { return x * std::tanh(softplus(x)); }, kNan},
      {"softplus", {}, [](double x) { return x > 20 ? x : softplus(x); }, 0},
      {"softplus",
       {{"beta", 2.0}, {"threshold", 5.0}},
       [](double x) { return 2 * x > 5 ? x : softplus(2 * x) / 2; },
       0},
      {"softsign", {}, [](double x) { return x / (1 + std::fabs(x)); }, kNan},
      {"hardtanh",
       {{"min", -2.0}, {"max", 0.5}},
       [](double x) { return std::min(std::max(x, -2.0), 0.5); },
       -2},
      {"hardsigmoid", {}, [](double x) { return relu6(x + 3) / 6; }, 0},
      {"hardswish", {}, [](double x) { return x * relu6(x + 3) / 6; }, kNan},
  };
  const Values points = {-800, -50, -3, -1.5, -0.5, -1e-3, 0, 1e-3, 0.25, 1, 2.6, 3, 19, 25, 90, 800};
  for (const Row& row : rows) {
    INFO(row.name);
    Values in = points, expected;
    in.insert(in.end(), {kNan, -kInf});
    for (double p : points) expected.push_back(row.f(p));
    expected.insert(expected.end(), {kNan, row.at_minus_inf});
    const HostTensor x = tensor(f64({static_cast<std::int64_t>(in.size())}), in);
    require_near(run1(x,
                      [&](ir::Graph& g, NodeId n) {
                        return expand_composite(g, *find_composite(row.name), std::span(&n, 1),
                                                row.attributes);
                      }),
                 expected);
  }
}

TEST_CASE("hardswish changes its formula at 3 and -3") {
  const double below = std::nextafter(-3.0F, -4.0F), above = std::nextafter(-3.0F, 0.0F);
  const double under = std::nextafter(3.0F, 0.0F), over = std::nextafter(3.0F, 4.0F);
  const auto y = run1(tensor(f32({8}), {-3, below, above, 3, under, over, 0, -1}),
                      [](ir::Graph& g, NodeId n) { return composite::hardswish(g, n); });
  require_near(y, {0, 0, above * (above + 3) / 6, 3, under * (under + 3) / 6, over, 0, -1.0 / 3}, 1e-7);
  // Nothing is lost beside -3, where x + 3 is small.
  CHECK(y[2] == Approx(above * (above + 3) / 6).epsilon(1e-7));
}

TEST_CASE("losses") {
  const HostTensor x = random_tensor(f64({2, 5}), 1), y = random_tensor(f64({5}), 2);
  double squares = 0;
  for (std::int64_t k = 0; k < 10; ++k) squares += std::pow(x.value(k) - y.value(k % 5), 2);
  for (const std::string reduction : {"mean", "sum"}) {
    require_near(
        run({x, y}, [&](ir::Graph& g,
                        const std::vector<NodeId>& n) { return composite::mse(g, n[0], n[1], reduction); }),
        {reduction == "mean" ? squares / 10 : squares});
  }
  const HostTensor targets = tensor({DType::i32, {2}}, {4, 1});
  Values losses;
  const Values rows = values(x);
  losses.push_back(row_lse(Values(rows.begin(), rows.begin() + 5)) - x.value(4));
  losses.push_back(row_lse(Values(rows.begin() + 5, rows.end())) - x.value(6));
  require_near(run({x, targets},
                   [&](ir::Graph& g, const std::vector<NodeId>& n) {
                     return composite::cross_entropy(g, n[0], n[1], "none");
                   }),
               losses);
  require_near(run({x, targets},
                   [&](ir::Graph& g, const std::vector<NodeId>& n) {
                     return composite::cross_entropy(g, n[0], n[1]);
                   }),
               {(losses[0] + losses[1]) / 2});
  ir::Graph g;
  const NodeId logits = g.input("logits", f32({2, 5}));
  REQUIRE_THROWS_WITH(composite::cross_entropy(g, logits, g.input("t", {DType::i64, {3}})),
                      Catch::Contains("logits are f32[2,5] and targets i64[3]"));
  REQUIRE_THROWS_WITH(composite::cross_entropy(g, logits, g.input("f", f32({2}))),
                      "error: cross_entropy needs targets of type i32 or i64, got f32[2]");
}

TEST_CASE("axes are checked by the composite's name") {
  ir::Graph g;
  const NodeId x = g.input("x", f32({3, 4}));
  REQUIRE_THROWS_WITH(composite::softmax(g, x, {2}), "error: softmax: axis 2 is out of range for rank 2");
  REQUIRE_THROWS_WITH(composite::layer_norm(g, x, {1, -1}),
                      "error: layer_norm: axes 1 and -1 are the same axis for rank 2");
  REQUIRE_THROWS_WITH(composite::mean(g, g.input("i", {DType::i32, {3}}), {0}),
                      "error: mean needs a floating type, got i32; cast it to f32 first");
  const NodeId y = composite::logsumexp(g, x, {-1}, true);
  REQUIRE(g.type(y).shape == Shape{3, 1});
  REQUIRE(g.scopes()[static_cast<std::size_t>(g.node(y).scope)].find("logsumexp.") == 0);
}

TEST_CASE("the table is complete and checks what it is given") {
  std::set<std::string_view> names;
  for (const CompositeInfo& row : composites()) {
    REQUIRE(names.insert(row.name).second);
    REQUIRE(find_composite(row.name) == &row);
    REQUIRE_FALSE(parse_scalar_op(row.name));
    REQUIRE_FALSE(parse_monoid(row.name));
    ir::Graph g;
    std::vector<NodeId> operands;
    for (const CompositeOperand& operand : row.operands) {
      const bool image = row.operands.size() > 1 && row.name.find("_norm") != std::string_view::npos;
      const bool channels =
          image && operand.name != "x" && row.name != "layer_norm" && row.name != "rms_norm";
      const Shape shape = channels              ? Shape{4}
                          : !image              ? Shape{2, 4}
                          : operand.name == "x" ? Shape{2, 4, 4}
                                                : Shape{4};
      const bool targets = operand.name == "targets";
      operands.push_back(g.input(std::string(operand.name), targets ? Type{DType::i64, {2}} : f32(shape)));
    }
    CompositeAttrs attributes;
    for (const CompositeAttr& attr : row.attributes) {
      if (attr.required) attributes[std::string(attr.name)] = std::int64_t{1};
    }
    INFO(row.name);
    g.output("y", expand_composite(g, row, operands, attributes));
    REQUIRE(verify(g).empty());
  }
  REQUIRE(find_composite("exp") == nullptr);

  ir::Graph g;
  const NodeId x = g.input("x", f32({2, 4}));
  const auto expand = [&](const char* name, const CompositeAttrs& attributes, std::size_t count = 1) {
    const std::vector<NodeId> operands(count, x);
    return expand_composite(g, *find_composite(name), operands, attributes);
  };
  REQUIRE_THROWS_WITH(expand("softmax", {}), "error: softmax needs the attribute axes (list of axes)");
  REQUIRE_THROWS_WITH(expand("softmax", {{"dim", std::int64_t{1}}, {"axes", Axes{1}}}),
                      "error: softmax has no attribute dim; it has axes");
  REQUIRE_THROWS_WITH(expand("relu", {{"axes", Axes{1}}}), "error: relu has no attribute axes; it has none");
  REQUIRE_THROWS_WITH(expand("mean", {{"keepdims", 1.5}}),
                      "error: mean: attribute keepdims is 1.5, expected bool");
  REQUIRE_THROWS_WITH(expand("relu", {}, 2), "error: relu takes 1 operand, got 2");
  REQUIRE_THROWS_WITH(expand("layer_norm", {}, 4), "error: layer_norm takes 1 to 3 operands, got 4");
  REQUIRE_THROWS_WITH(expand("gelu", {{"approximate", std::string("fast")}}),
                      "error: gelu: approximate is \"fast\", expected \"none\" or \"tanh\"");
  REQUIRE(g.type(expand("elu", {{"alpha", std::int64_t{2}}})) == f32({2, 4}));
}

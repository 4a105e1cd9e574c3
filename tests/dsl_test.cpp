#include <braze/braze.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "ir/composites.h"

namespace {

template <class F>
std::string error_of(F&& build) {
  try {
    build();
  } catch (const bz::Error& e) {
    return e.what();
  }
  return "no error";
}

// `build`, all of which stands on the line of the call, fails there with `message`, or any message when that
// is empty.
template <class F>
void fails_here(F&& build, const std::string& message = "", int line = __builtin_LINE()) {
  const std::string error = error_of(build), start = fmt::format("dsl_test.cpp:{}: error: ", line);
  CHECK(error.substr(0, start.size()) == start);
  if (!message.empty()) CHECK(error == start + message);
}

bz::HostTensor host(const bz::Type& type, std::initializer_list<double> values) {
  bz::HostTensor t(type);
  std::int64_t i = 0;
  for (double v : values) t.set(i++, bz::Scalar::of(type.dtype, v));
  return t;
}

// The one output of a program without inputs other than these, by the interpreter.
bz::HostTensor value_of(const bz::Graph& g, const std::map<std::string, bz::HostTensor>& inputs) {
  return bz::interpret(g.ir(), inputs).at("y");
}

// The op of the node behind a tensor.
std::string op_of(const bz::Tensor& x) { return x.graph()->node(x.node()).op_name(); }

void check_equal(const bz::HostTensor& a, const bz::HostTensor& b) {
  REQUIRE(a.type() == b.type());
  CHECK(std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

bz::Device quiet_sim() {
  bz::SimOptions options;
  options.workers = 1;
  return bz::Device::sim(options);
}

}  // namespace

TEST_CASE("dsl: the program of the first page builds the graph of its text form") {
  bz::Graph g("gn_tail");
  auto x = g.input("x", bz::f32, {2, 64, 6, 6});
  auto gamma = g.input("gamma", bz::f32, {64}), beta = g.input("beta", bz::f32, {64});
  auto n = bz::group_norm(x, 16, gamma, beta, 1e-5);
  g.output("y", bz::logsumexp(x + bz::hardswish(bz::tanh(n)), {1}, bz::keepdims));
  const bz::ir::Graph text = bz::parse(R"(graph gn_tail {
    %x     = input f32[2, 64, 6, 6]
    %gamma = input f32[64]
    %beta  = input f32[64]
    %n     = group_norm %x, %gamma, %beta {groups = 16, eps = 1e-05}
    %t     = tanh %n
    %h     = hardswish %t
    %r     = add %x, %h
    %y     = logsumexp %r {axes = [1], keepdims = true}
    output %y
  })");
  REQUIRE(g.ir().size() == text.size());
  for (bz::NodeId id = 0; id < text.size(); ++id) {
    CHECK(g.ir().node(id).attrs == text.node(id).attrs);
    CHECK(g.ir().node(id).operands == text.node(id).operands);
    CHECK(g.ir().node(id).type == text.node(id).type);
  }
}

TEST_CASE("dsl: errors name the line of the caller") {
  bz::Graph g;
  auto a = g.input("a", bz::f32, {3, 4}), b = g.input("b", bz::f32, {4, 3}),
       i = g.input("i", bz::i32, {3, 4});
  const std::string shapes =
      "cannot add f32[3,4] and f32[4,3]: dimension 0 is 3 on the left and 4 on the right";
  fails_here([&] { a + b; }, shapes);
  fails_here([&] { bz::add(a, b); }, shapes);
  fails_here([&] { bz::exp(i); });
  fails_here([&] { bz::softmax(a, {5}); });
  fails_here([&] { bz::group_norm(a, 3); });
  fails_here([&] { a.reshape({5}); });
  fails_here([&] { a.transpose(0, 2); });
  fails_here([&] { g.input("a", bz::f32, {1}); });
  fails_here([&] { g.iota(bz::i64, {2}, 1); });
  fails_here([&] { bz::sum(a, {2}); }, "sum: axis 2 is out of range for rank 2");
  fails_here([&] { a.size(2); }, "size: axis 2 is out of range for rank 2");

  const std::string empty = "the tensor is empty: it was never given a value";
  fails_here([&] { -bz::Tensor(); }, empty);
  fails_here([&] { a + bz::Tensor(); }, empty);
  fails_here([&] { bz::Tensor().dtype(); }, empty);

  fails_here([&] { i + 0.5; }, "0.5 is not a value of type i32");
  fails_here([&] { 3000000000 * i; }, "3000000000 is not a value of type i32");
  fails_here([&] { a * 1e39; }, "1e+39 is not a value of type f32");
  fails_here([&] { g.constant(bz::boolean, 2); }, "2 is not a value of type bool");
  fails_here([&] { bz::clamp(1, 2, 3); }, "clamp of numbers only: make one of them a tensor with constant");
  const std::string unknown = "the type of 1 is not known: make it a tensor with constant";
  fails_here([&] { bz::select(a > b.transpose(0, 1), 1, 0); }, unknown);
  fails_here([&] { bz::narrow(a, 0, 2, 2); }, "narrow: 2 elements from 2 do not lie in axis 0 of f32[3,4]");

  bz::Graph other("other");
  auto far = other.input("a", bz::f32, {3, 4});
  fails_here([&] { a + far; }, "operands are of different graphs, main and other");
  fails_here([&] { bz::layer_norm(a, {-1}, far); });
  fails_here([&] { g.output("y", far); }, "output y is a tensor of graph other, not of main");
}

TEST_CASE("dsl: nodes know their lines") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {4});
  const int line = __LINE__ + 1;
  auto y = bz::exp(x) * 2;
  CHECK(g.ir().node(y.node()).loc == bz::SourceLoc{"dsl_test.cpp", line});
  CHECK(g.ir().node(x.node()).loc == bz::SourceLoc{"dsl_test.cpp", line - 2});
}

TEST_CASE("dsl: operators are maps") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {2, 3}), y = g.input("y", bz::f32, {3});
  auto p = g.input("p", bz::boolean, {3}), q = g.input("q", bz::boolean, {3});
  CHECK(op_of(x + y) == "add");
  CHECK(op_of(x - y) == "sub");
  CHECK(op_of(x * y) == "mul");
  CHECK(op_of(x / y) == "div");
  CHECK(op_of(-x) == "neg");
  CHECK(op_of(x == y) == "eq");
  CHECK(op_of(x != y) == "ne");
  CHECK(op_of(x < y) == "lt");
  CHECK(op_of(x <= y) == "le");
  CHECK(op_of(x > y) == "gt");
  CHECK(op_of(x >= y) == "ge");
  CHECK(op_of(p && q) == "and");
  CHECK(op_of(p || q) == "or");
  CHECK(op_of(!p) == "not");
  CHECK((x + y).shape() == bz::Shape{2, 3});
  CHECK((x < y).dtype() == bz::boolean);
  CHECK((x + y).size(-1) == 3);
}

TEST_CASE("dsl: every scalar op is a function of its name") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {2}), p = g.input("p", bz::boolean, {2});
  std::set<std::string> made;
  const auto note = [&](const bz::Tensor& t) { made.insert(op_of(t)); };
  for (const auto& t : {bz::neg(x),
                        bz::abs(x),
                        bz::exp(x),
                        bz::exp2(x),
                        bz::expm1(x),
                        bz::log(x),
                        bz::log1p(x),
                        bz::log2(x),
                        bz::sqrt(x),
                        bz::rsqrt(x),
                        bz::reciprocal(x),
                        bz::sin(x),
                        bz::cos(x),
                        bz::tan(x),
                        bz::tanh(x),
                        bz::sigmoid(x),
                        bz::erf(x),
                        bz::floor(x),
                        bz::ceil(x),
                        bz::round(x),
                        bz::trunc(x),
                        bz::sign(x),
                        bz::isnan(x),
                        bz::isinf(x),
                        bz::isfinite(x),
                        bz::logical_not(p),
                        bz::add(x, x),
                        bz::sub(x, 1),
                        bz::mul(2, x),
                        bz::div(x, x),
                        bz::floordiv(x, x),
                        bz::mod(x, 2),
                        bz::pow(x, 2),
                        bz::max(x, 0),
                        bz::min(0, x),
                        bz::atan2(x, x),
                        bz::logical_and(p, p),
                        bz::logical_or(p, p),
                        bz::logical_xor(p, true),
                        bz::eq(x, 0),
                        bz::ne(x, x),
                        bz::lt(x, x),
                        bz::le(x, x),
                        bz::gt(x, x),
                        bz::ge(x, x),
                        bz::select(p, x, 0),
                        bz::clamp(x, -1, 1),
                        bz::fma(x, 2, 1),
                        bz::cast(x, bz::f16)}) {
    note(t);
  }
  for (const bz::ScalarOpInfo& row : bz::scalar_ops()) {
    INFO(row.text);
    CHECK(made.contains(std::string(row.text)));
  }
}

TEST_CASE("dsl: max and min tell a number from axes") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {2, 3});
  CHECK(bz::max(x, 0).shape() == bz::Shape{2, 3});
  CHECK(bz::max(x, {0}).shape() == bz::Shape{3});
  CHECK(bz::min(x, {1}, bz::keepdims).shape() == bz::Shape{2, 1});
  CHECK(bz::max(x).shape().empty());
  CHECK(bz::max(x, x).shape() == bz::Shape{2, 3});
}

TEST_CASE("dsl: every reduction and every composite is a function of its name") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {2, 4, 3}), p = g.input("p", bz::boolean, {2, 4});
  auto c = g.input("c", bz::f32, {4}), classes = g.input("classes", bz::i64, {2, 4});
  std::set<std::string> made;
  for (const auto& t : {bz::sum(x, {1}), bz::prod(x, {1}), bz::max(x, {1}), bz::min(x, {1}), bz::any(p, {1}),
                        bz::all(p, {1}), bz::argmax(x, {1}), bz::argmin(x, {1})}) {
    made.insert(op_of(t));
    CHECK(t.size(0) == 2);
  }
  for (const bz::MonoidInfo& m : bz::monoids()) {
    if (m.user) CHECK(made.contains(std::string(m.text)));
  }

  made.clear();
  for (const auto& t : {bz::softmax(x, {-1}), bz::log_softmax(x, {-1}),
                        bz::logsumexp(x),     bz::mean(x),
                        bz::var(x, {1}, 0),   bz::std(x, {1}, 1, bz::keepdims),
                        bz::square(x),        bz::relu(x),
                        bz::leaky_relu(x),    bz::elu(x),
                        bz::selu(x),          bz::gelu(x, "tanh"),
                        bz::silu(x),          bz::mish(x),
                        bz::softplus(x),      bz::softsign(x),
                        bz::hardtanh(x),      bz::hardsigmoid(x),
                        bz::hardswish(x),     bz::layer_norm(x),
                        bz::rms_norm(x),      bz::group_norm(x, 2, c, c),
                        bz::instance_norm(x), bz::batch_norm(x, c, c, c, c),
                        bz::mse(x, x),        bz::cross_entropy(x, classes)}) {
    const std::string scope = t.graph()->scopes()[static_cast<std::size_t>(t.graph()->node(t.node()).scope)];
    made.insert(scope.substr(0, scope.find('.')));
  }
  for (const bz::CompositeInfo& row : bz::composites()) {
    INFO(row.name);
    CHECK(made.contains(std::string(row.name)));
  }
}

TEST_CASE("dsl: numbers take the type of the tensor they meet") {
  bz::Graph g;
  auto h = g.input("h", bz::f16, {2}), i = g.input("i", bz::i64, {2});
  CHECK((h * 0.1).dtype() == bz::f16);
  CHECK((1 + i).dtype() == bz::i64);
  CHECK((i > 3u).dtype() == bz::boolean);
  g.output("y", i + std::int64_t{9007199254740993});
  CHECK(value_of(g, {{"h", host({bz::f16, {2}}, {0, 0})}, {"i", host({bz::i64, {2}}, {0, 1})}}).get(0).i ==
        9007199254740993);
  const double inf = std::numeric_limits<double>::infinity();
  CHECK((h - inf).dtype() == bz::f16);
}

TEST_CASE("dsl: views") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {2, 3});
  CHECK(x.transpose(0, -1).shape() == bz::Shape{3, 2});
  CHECK(x.permute({1, 0}).shape() == bz::Shape{3, 2});
  CHECK(x.reshape({-1}).shape() == bz::Shape{6});
  CHECK(x.broadcast_to({4, 2, 3}).shape() == bz::Shape{4, 2, 3});
  CHECK(bz::pad(x, {0, 1}, {2, 0}, -1).shape() == bz::Shape{4, 4});
  CHECK(bz::window(x, {1}, {2}).shape() == bz::Shape{2, 2, 2});
  CHECK(bz::slice(x, {0, 0}, {2, 3}, {1, 2}).shape() == bz::Shape{2, 2});
  CHECK(bz::slice(x, {0, 1}, {1, 3}).shape() == bz::Shape{1, 2});
  CHECK(x.cast(bz::f32).node() == x.node());
  CHECK(x.named("other").graph()->node(x.node()).name == "other");
  g.output("y", bz::narrow(x.flip({1}), 1, -2, 2));
  const bz::HostTensor y = value_of(g, {{"x", host({bz::f32, {2, 3}}, {1, 2, 3, 4, 5, 6})}});
  CHECK(y.type().shape == bz::Shape{2, 2});
  CHECK(y.value(0) == 2);
  CHECK(y.value(3) == 4);
}

TEST_CASE("dsl: constants and iota") {
  bz::Graph g;
  g.output("y", g.iota(bz::f32, {2, 3}, 1) + g.constant(bz::f32, 10));
  CHECK(value_of(g, {}).value(5) == 12);
}

TEST_CASE("dsl: graphs outlive their names and chains of 100000 operations are built") {
  bz::Tensor y;
  {
    bz::Graph g;
    y = g.input("x", bz::f32, {4});
  }
  for (int i = 0; i < 100000; ++i) y = y * 0.5;
  CHECK(y.shape() == bz::Shape{4});
}

// ---- running
// -------------------------------------------------------------------------------------------------------

TEST_CASE("dsl: a program runs on host tensors") {
  bz::Graph g("softmax");
  auto x = g.input("x", bz::f32, {5, 33});
  g.output("y", bz::softmax(x, {-1}));
  g.output("peak", bz::max(x, {1}));
  auto exe = bz::compile(g, quiet_sim());
  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({bz::f32, {5, 33}}, 1)}};
  const auto out = exe.run(in);
  const auto reference = bz::interpret_reference(g.ir(), in);
  REQUIRE(out.size() == 2);
  for (const auto& [name, tensor] : out) {
    const bz::Comparison c = bz::compare(tensor, reference.at(name));
    INFO(name << ": " << bz::to_string(c));
    CHECK(bz::within(c, bz::default_tolerance(bz::f32, 33)));
  }
  CHECK_THAT(exe.explain(), Catch::Contains("softmax"));
  CHECK_THAT(exe.explain_json(), Catch::Contains("\"kernels\""));
  CHECK_THAT(exe.dump(bz::Stage::ptx), Catch::Contains(".target sm_"));
  CHECK_THAT(exe.dump(bz::Stage::graph), Catch::Contains("%x = input f32[5, 33]"));
  CHECK(exe.device().kind() == "sim");

  CHECK(error_of([&] { exe.run({}); }) == "error: input x is missing; it is f32[5,33]");
  CHECK(error_of([&] {
          exe.run({{"x", bz::HostTensor({bz::f32, {5}})}});
        }) == "error: input x is f32[5,33], got f32[5]");
  CHECK(error_of([&] {
          exe.run({{"x", in.at("x")}, {"z", in.at("x")}});
        }) == "error: there is no input named z; the inputs are x");
}

TEST_CASE("dsl: addresses of any alignment that the elements allow") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {3, 40});
  auto s = g.input("s", bz::f16, {40});
  g.output("y", bz::softmax(x + s.cast(bz::f32), {1}));
  g.output("h", s * 2);
  bz::Device device = quiet_sim();
  auto exe = bz::compile(g, device);
  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({bz::f32, {3, 40}}, 1)},
                                                    {"s", bz::random_tensor({bz::f16, {40}}, 2)}};
  const auto expected = exe.run(in);
  for (const auto& [x_shift, s_shift, y_shift, h_shift] :
       {std::array{0, 0, 0, 0}, {4, 0, 0, 0}, {0, 8, 8, 0}, {4, 4, 12, 8}, {0, 2, 0, 0}, {4, 6, 8, 10}}) {
    INFO(x_shift << " " << s_shift << " " << y_shift << " " << h_shift);
    bz::DeviceBuffer memory(device.runtime(), 4096);
    char* base = static_cast<char*>(memory.get());
    char *x_at = base + x_shift, *s_at = base + 1024 + s_shift, *y_at = base + 2048 + y_shift,
         *h_at = base + 3072 + h_shift;
    device.runtime().copy_in(x_at, in.at("x").data(), 480);
    device.runtime().copy_in(s_at, in.at("s").data(), 80);
    exe.launch(std::array<void*, 4>{x_at, s_at, y_at, h_at});
    device.runtime().synchronize();
    bz::HostTensor y({bz::f32, {3, 40}}), h({bz::f16, {40}});
    device.runtime().copy_out(y.data(), y_at, 480);
    device.runtime().copy_out(h.data(), h_at, 80);
    check_equal(h, expected.at("h"));
    const bz::Comparison c = bz::compare(y, bz::interpret_reference(g.ir(), in).at("y"));
    CHECK(bz::within(c, bz::default_tolerance(bz::f32, 40)));
  }
  bz::DeviceBuffer memory(device.runtime(), 4096);
  char* base = static_cast<char*>(memory.get());
  CHECK_THROWS_WITH(
      exe.launch(std::array<void*, 4>{base + 2, base + 1024, base + 2048, base + 3072}),
      Catch::Contains("input 'x' is at") && Catch::Contains("not a multiple of the 4 bytes of its elements"));
}

TEST_CASE("dsl: an output on its input gets what it gets elsewhere") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {32, 32});
  g.output("y", x.transpose(0, 1) + bz::sum(x, {0}));
  bz::Device device = quiet_sim();
  auto exe = bz::compile(g, device);
  const bz::HostTensor in = bz::random_tensor({bz::f32, {32, 32}}, 3);
  const bz::HostTensor expected = exe.run({{"x", in}}).at("y");
  const std::int64_t bytes = 4096;
  bz::DeviceBuffer memory(device.runtime(), 2 * bytes);
  char* base = static_cast<char*>(memory.get());
  for (int round = 0; round < 2; ++round) {
    device.runtime().copy_in(base, in.data(), bytes);
    exe.launch(std::array<void*, 2>{base, base});
    device.runtime().synchronize();
    bz::HostTensor out({bz::f32, {32, 32}});
    device.runtime().copy_out(out.data(), base, bytes);
    check_equal(out, expected);
  }
  CHECK_THAT(error_of([&] {
               exe.launch(std::array<void*, 2>{base, base + 1024});
             }),
             Catch::Contains("overlap"));
  CHECK_THROWS(exe.launch(std::array<void*, 1>{base}));
}

TEST_CASE("dsl: empty tensors run") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {4, 0});
  g.output("y", bz::softmax(x, {1}));
  g.output("s", bz::sum(x, {1}));
  auto exe = bz::compile(g, quiet_sim());
  for (int round = 0; round < 2; ++round) {
    const auto out = exe.run({{"x", bz::HostTensor({bz::f32, {4, 0}})}});
    CHECK(out.at("y").elements() == 0);
    CHECK(out.at("s").value(3) == 0);
  }
}

TEST_CASE("dsl: devices by name") {
  CHECK(bz::Device::open("sim").kind() == "sim");
  CHECK(error_of([] { bz::Device::open("tpu"); }) ==
        "error: there is no device 'tpu'; devices are best, cuda, cuda:N and sim");
  CHECK_THROWS_AS(bz::Device::open("cuda:x"), bz::Error);
  CHECK_THROWS_AS(bz::Device::open("cuda:4096"), bz::DeviceError);
}

TEST_CASE("dsl: options") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {8, 64});
  g.output("y", bz::sum(x, {1}));
  bz::Options other;
  other.target = bz::parse_target("sm_80");
  auto exe = bz::compile(g, quiet_sim(), other);
  CHECK_THAT(exe.dump(bz::Stage::ptx), Catch::Contains("sm_80"));
  CHECK_THAT(error_of([&] {
               exe.run({{"x", bz::HostTensor({bz::f32, {8, 64}})}});
             }),
             Catch::Contains("was compiled for sm_80, it cannot run on"));
  CHECK_THROWS_AS(bz::compile(g, quiet_sim(), {.schedule = "nonsense=1"}), bz::Error);
  CHECK_THROWS_AS(bz::compile(g, quiet_sim(), {.disabled_passes = {"nonsense"}}), bz::Error);
}

TEST_CASE("dsl: bench gives bytes and times") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {64, 64});
  g.output("y", bz::exp(x));
  auto exe = bz::compile(g, bz::Device::sim());
  const bz::BenchResult r = exe.bench({.warmup = 0, .repeats = 3});
  CHECK(r.seconds.size() == 3);
  CHECK(r.fastest <= r.median);
  CHECK(r.median <= r.slowest);
  CHECK(r.bytes_min == 2 * 64 * 64 * 4);
  CHECK(r.copy_bytes_per_second > 0);
  CHECK_THROWS_AS(exe.bench({.repeats = 0}), bz::Error);
}

TEST_CASE("dsl: softmax by hand is the kernel of softmax") {
  const auto kernel = [](auto&& build) {
    bz::Graph g("softmax");
    auto x = g.input("x", bz::f32, {64, 1024});
    g.output("y", build(x));
    const std::string text = bz::compile(g, quiet_sim()).dump(bz::Stage::kernel);
    return text.substr(text.find('('));  // the name says what the user wrote
  };
  const std::string composite = kernel([](bz::Tensor x) { return bz::softmax(x, {1}); });
  const std::string by_hand = kernel([](bz::Tensor x) {
    auto e = bz::exp(x - bz::max(x, {1}, bz::keepdims));
    return e / bz::sum(e, {1}, bz::keepdims);
  });
  CHECK(composite.size() > 100);
  CHECK(by_hand == composite);
}

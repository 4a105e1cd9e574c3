#include <braze/braze.h>

#include <catch2/catch.hpp>

#include "frontends/cpp/sampling.h"

namespace {

// Outputs of the sampled program are slices of the outputs of the whole one.
void check_sampling(const bz::Graph& g) {
  const std::vector<std::int64_t> slices = {0, 2, 5};
  const bz::Sampling sampling(g.ir());
  std::map<std::string, bz::HostTensor> whole, some;
  std::uint64_t seed = 0;
  for (bz::NodeId id : g.ir().inputs()) {
    const std::string& name = g.ir().node(id).as<bz::InputAttrs>()->name;
    whole.emplace(name, bz::random_tensor(g.ir().type(id), seed++));
    some.emplace(name, sampling.input(id, whole.at(name), slices));
  }
  const auto expected = bz::interpret(g.ir(), whole);
  const auto actual = bz::interpret(sampling.graph(3), some);
  REQUIRE(actual.size() == expected.size());
  for (const auto& [name, tensor] : actual) {
    const bz::HostTensor taken = bz::take(expected.at(name), 0, slices);
    REQUIRE(tensor.type() == taken.type());
    for (std::int64_t i = 0; i < tensor.elements(); ++i) CHECK(tensor.value(i) == taken.value(i));
  }
}

std::string refusal(const bz::Tensor& y) {
  bz::ir::Graph g = *y.graph();
  g.output("y", y.node());
  try {
    bz::Sampling sampling(g);
  } catch (const bz::Error& e) {
    return e.what();
  }
  return "sampled";
}

}  // namespace

TEST_CASE("reference: slices of the outermost axis follow it through every kind of node") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {6, 8, 5, 4});
  auto gamma = g.input("gamma", bz::f32, {8});
  auto n = bz::group_norm(x, 4, gamma);
  auto w = bz::sum(bz::window(n, {2, 3}, {2, 2}), {-1, -2});
  auto p = bz::pad(bz::slice(w.flip({1}), {0, 1, 0, 0}, {6, 8, 4, 3}, {1, 2, 1, 1}), {0, 0, 1, 0},
                   {0, 0, 0, 1}, 2);
  auto r = p.permute({1, 0, 3, 2}).transpose(0, 1).reshape({6, -1});
  g.output("rows", bz::softmax(r + g.iota(bz::f32, r.shape(), 1), {1}));
  g.output("peaks", bz::argmax(r, {1}));
  check_sampling(g);
}

TEST_CASE("reference: the sampled axis may be an inner one of an input") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {4, 6, 3});
  auto bias = g.input("bias", bz::f32, {6, 1});
  g.output("y", bz::logsumexp(x + bias, {0}));
  check_sampling(g);
}

TEST_CASE("reference: programs that mix slices are refused with the reason") {
  bz::Graph g;
  auto x = g.input("x", bz::f32, {6, 4});
  CHECK_THAT(refusal(bz::sum(x)), Catch::Contains("output y is one value"));
  CHECK_THAT(refusal(x - bz::mean(x)), Catch::Contains("%x is needed by slices and in another way too"));
  CHECK_THAT(refusal(x.flip({0})), Catch::Contains("flips the sampled axis"));
  CHECK_THAT(refusal(bz::narrow(x, 0, 1, 3)), Catch::Contains("slices the sampled axis"));
  CHECK_THAT(refusal(bz::pad(x, {1, 0}, {0, 0})), Catch::Contains("pads the sampled axis"));
  CHECK_THAT(refusal(bz::window(x, {0}, {2})), Catch::Contains("has windows over the sampled axis"));
  CHECK_THAT(refusal(x.reshape({4, 6})), Catch::Contains("reshapes the sampled axis"));
  CHECK_THAT(refusal(g.iota(bz::f32, {6, 4}, 0)), Catch::Contains("counts along the sampled axis"));
  CHECK(refusal(x) == "sampled");
}

TEST_CASE("reference: much work is checked on slices, and faults in them are found") {
  bz::Graph g;
  g.output("y", bz::softmax(g.input("x", bz::f32, {100, 50}), {1}));
  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({bz::f32, {100, 50}}, 1)}};
  auto out = bz::interpret(g.ir(), in);
  CHECK(bz::check_outputs(g.ir(), in, out).ok());
  CHECK(bz::check_outputs(g.ir(), in, out).slices.empty());

  const bz::CheckOptions few{.most_work = 2000, .seed = 7};
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out, few);
  CHECK(check.ok());
  CHECK(check.extent == 100);
  CHECK(check.slices.front() == 0);
  CHECK(check.slices.back() == 99);
  CHECK_THAT(check.text(), Catch::StartsWith("checked ") && Catch::Contains(" of 100 slices: 0, ") &&
                               Catch::Contains("y: "));

  out.at("y").set(99 * 50, bz::Scalar::of(bz::f32, 2));
  CHECK(!bz::check_outputs(g.ir(), in, out, few).ok());
  CHECK_THAT(bz::check_outputs(g.ir(), in, out, few).text(), Catch::Contains("more than"));
  CHECK_THROWS_AS(bz::check_outputs(g.ir(), in, {}), bz::Error);
}

TEST_CASE("reference: the tolerance is that of the coarsest arithmetic and of all roundings on the way") {
  bz::Graph g;
  const auto x = g.input("x", bz::f32, {4}), half = g.input("half", bz::f16, {4}),
             wide = g.input("wide", bz::f64, {4});
  g.output("between", bz::exp(bz::cast(bz::exp(bz::cast(bz::exp(x), bz::bf16)), bz::f16)));
  g.output("after", bz::cast(bz::cast(bz::exp(x), bz::bf16), bz::f32));
  g.output("widened", bz::cast(bz::exp(half), bz::f64) * 2.0);
  g.output("wide_only", bz::exp(bz::cast(half, bz::f64)));
  g.output("rounded", bz::cast(bz::exp(wide), bz::f16));
  g.output("same", half.reshape({2, 2}));
  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({bz::f32, {4}}, 1)},
                                                    {"half", bz::random_tensor({bz::f16, {4}}, 2)},
                                                    {"wide", bz::random_tensor({bz::f64, {4}}, 3)}};
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, bz::interpret(g.ir(), in));
  const double f32 = bz::default_tolerance(bz::f32, 1).relative;
  const std::map<std::string, double> expected = {{"between", f32 + 0x1p-7 + 2 * 0x1p-10},
                                                  {"after", f32 + 0x1p-7},
                                                  {"widened", f32},
                                                  {"wide_only", bz::default_tolerance(bz::f64, 1).relative},
                                                  {"rounded", f32 + 0x1p-10},
                                                  {"same", 0}};
  for (const bz::CheckedOutput& o : check.outputs) CHECK(o.tolerance.relative == expected.at(o.name));
}

TEST_CASE("reference: elements of softmax are judged by their own size") {
  for (const bz::DType t : {bz::f32, bz::f16, bz::bf16}) {
    bz::Graph g;
    const auto x = g.input("x", t, {2, 4096});
    const auto y = bz::softmax(x, {1});
    g.output("y", y);
    g.output("twice", y * y);
    g.output("mixed", y + 1.0);
    g.output("computed", bz::softmax(x * 3.0, {1}));
    g.output("widened", bz::softmax(bz::cast(x, bz::f64), {1}));
    g.output("stepped", bz::cast(bz::cast(y, t == bz::f16 ? bz::bf16 : bz::f16), bz::f64));
    const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({t, {2, 4096}}, 1)}};
    std::map<std::string, bz::HostTensor> out = bz::interpret(g.ir(), in);
    CHECK(bz::check_outputs(g.ir(), in, out).ok());
    for (const char* name : {"y", "twice"}) {
      const double was = out.at(name).value(5000);
      out.at(name).set(5000, bz::Scalar::of(t, 4 * was + 1e-3));
      const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out);
      INFO(bz::name(t) << ": " << check.text());
      CHECK_FALSE(check.ok());
      out.at(name).set(5000, bz::Scalar::of(t, was));
    }
    const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out);
    CHECK(check.ok());
    for (const bz::CheckedOutput& o : check.outputs) {
      INFO(o.name);
      const bool by_size = o.name == "y" || o.name == "twice" || o.name == "widened";
      CHECK((o.tolerance.absolute < 1e-3 * o.tolerance.relative) == by_size);
      if (!by_size) CHECK(o.tolerance.absolute == o.tolerance.relative);
    }
  }
}

TEST_CASE("reference: what fast_math may add is the sum over the way with the most of it, in f32 alone") {
  bz::Graph g;
  const auto x = g.input("x", bz::f32, {4}), wide = g.input("wide", bz::f64, {4});
  g.output("y", bz::tanh(bz::exp(x)) + bz::exp(bz::abs(x)));
  g.output("z", bz::tanh(wide));
  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({bz::f32, {4}}, 1)},
                                                    {"wide", bz::random_tensor({bz::f64, {4}}, 2)}};
  const auto out = bz::interpret(g.ir(), in);
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out, {.fast_math = true});
  CHECK(check.outputs.at(0).fast_error == 0x1p-11 + 0x1p-16);
  CHECK(check.outputs.at(0).tolerance.relative ==
        bz::default_tolerance(bz::f32, 1).relative + 0x1p-11 + 0x1p-16);
  CHECK(check.outputs.at(1).fast_error == 0);
  CHECK_THAT(check.text(), Catch::Contains("ok within 0.000506, 0.000504 of it for fast_math"));
  CHECK_THAT(bz::check_outputs(g.ir(), in, out).text(), !Catch::Contains("fast_math"));
}

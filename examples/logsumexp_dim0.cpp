// logsumexp over the outermost axis of a small tensor: neighbouring threads read neighbouring columns.
//
//   logsumexp_dim0 [--device=best|cuda|sim]
#include <braze/braze.h>
#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <span>

namespace {

int run(const char* device) {
  bz::Graph g("logsumexp_dim0");
  auto x = g.input("x", bz::f32, {4, 10, 32});
  g.output("y", bz::logsumexp(x, {0}));
  auto exe = bz::compile(g, bz::Device::open(device));
  fmt::print("{}\n{}\n", exe.explain(), exe.dump(bz::Stage::kernel));

  bz::HostTensor data = bz::random_tensor(x.type(), 1);
  // Columns at the edges of the contract: all -inf is -inf, any +inf is +inf, a NaN is NaN.
  const double inf = std::numeric_limits<double>::infinity();
  for (int a = 0; a < 4; ++a) data.set(a * 320, bz::Scalar::of(bz::f32, -inf));
  data.set(1, bz::Scalar::of(bz::f32, inf));
  data.set(2, bz::Scalar::of(bz::f32, std::numeric_limits<double>::quiet_NaN()));

  const auto out = exe.run({{"x", data}});
  fmt::print("on {}: {}, {}, {}, {}, ...\n", exe.device().name(), out.at("y").value(0), out.at("y").value(1),
             out.at("y").value(2), out.at("y").value(3));
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), {{"x", data}}, out);
  fmt::print("{}", check.text());
  return check.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char device[16] = "best";
  for (const char* arg : std::span(argv + 1, argv + argc)) {
    if (std::sscanf(arg, "--device=%15s", device) == 1) continue;
    fmt::print(stderr, "usage: logsumexp_dim0 [--device=best|cuda|sim]\n");
    return 2;
  }
  try {
    return run(device);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

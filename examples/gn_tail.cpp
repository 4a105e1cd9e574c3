// GroupNorm, tanh, hardswish, a residual and logsumexp over channels: reductions over different axes of one
// sample. 128 samples of 64 x 126 x 126 on a GPU, checked on some of them; small ones in the simulator.
//
//   gn_tail [--device=best|cuda|sim] [--samples=N] [--side=N]
#include <braze/braze.h>
#include <fmt/format.h>

#include <cstdio>
#include <span>

namespace {

int run(const char* name, std::int64_t samples, std::int64_t side) {
  const bz::Device device = bz::Device::open(name);
  const bool gpu = device.kind() == "cuda";
  if (samples == 0) samples = gpu ? 128 : 2;
  if (side == 0) side = gpu ? 126 : 9;

  bz::Graph g("gn_tail");
  auto x = g.input("x", bz::f32, {samples, 64, side, side});
  auto gamma = g.input("gamma", bz::f32, {64}), beta = g.input("beta", bz::f32, {64});
  auto n = bz::group_norm(x, 16, gamma, beta, 1e-5);
  g.output("y", bz::logsumexp(x + bz::hardswish(bz::tanh(n)), {1}, bz::keepdims));
  auto exe = bz::compile(g, device);
  fmt::print("{}\n", exe.explain());

  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor(x.type(), 1)},
                                                    {"gamma", bz::random_tensor(gamma.type(), 2)},
                                                    {"beta", bz::random_tensor(beta.type(), 3)}};
  const auto out = exe.run(in);
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out);
  fmt::print("on {}: {}\n{}", device.name(), bz::to_string(out.at("y").type()), check.text());
  if (gpu) {
    const bz::BenchResult r = exe.bench();
    fmt::print("{:.3f} ms, {:.1f} % of the speed of a copy\n", 1e3 * r.median, 100 * r.copy_share);
  }
  return check.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char device[16] = "best";
  long samples = 0, side = 0;
  for (const char* arg : std::span(argv + 1, argv + argc)) {
    if (std::sscanf(arg, "--device=%15s", device) == 1 || std::sscanf(arg, "--samples=%ld", &samples) == 1 ||
        std::sscanf(arg, "--side=%ld", &side) == 1) {
      continue;
    }
    fmt::print(stderr, "usage: gn_tail [--device=best|cuda|sim] [--samples=N] [--side=N]\n");
    return 2;
  }
  try {
    return run(device, samples, side);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

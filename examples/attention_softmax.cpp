// The softmax of attention: scores scaled, masked where `mask` is true, normalised over the keys. One query
// has all its keys masked: its row is NaN, as in PyTorch.
//
//   attention_softmax [--device=best|cuda|sim] [--heads=N] [--length=N]
#include <braze/braze.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <span>

namespace {

// Query q of every sequence may see the keys up to itself; query 1 of the first sequence sees none.
bz::HostTensor causal_mask(const bz::Type& type) {
  bz::HostTensor mask(type);
  const std::int64_t length = type.shape[2];
  for (std::int64_t i = 0; i < mask.elements(); ++i) {
    const std::int64_t q = i / length % length, k = i % length;
    mask.set(i, bz::Scalar::of_int(bz::boolean, k > q || i / length == 1));
  }
  return mask;
}

// Whether the weights of one query, all `keys` of them, are NaN (true) or add up to 1 (false).
bool row_is(const bz::HostTensor& weights, std::int64_t row, std::int64_t keys, bool nan) {
  double total = 0;
  for (std::int64_t k = 0; k < keys; ++k) {
    const double w = weights.value(row * keys + k);
    if (nan && !std::isnan(w)) return false;
    total += w;
  }
  return nan || std::fabs(total - 1) < 1e-4;
}

int run(const char* name, std::int64_t heads, std::int64_t length) {
  const bz::Device device = bz::Device::open(name);
  const bool gpu = device.kind() == "cuda";
  if (heads == 0) heads = gpu ? 16 : 2;
  if (length == 0) length = gpu ? 1024 : 37;
  const std::int64_t batch = gpu ? 8 : 2;

  bz::Graph g("attention_softmax");
  auto scores = g.input("scores", bz::f32, {batch, heads, length, length});
  auto mask = g.input("mask", bz::boolean, {batch, 1, length, length});
  auto masked = bz::select(mask, -std::numeric_limits<double>::infinity(), scores * 0.125);
  g.output("weights", bz::softmax(masked, {-1}));
  auto exe = bz::compile(g, device);
  fmt::print("{}\n", exe.explain());

  const std::map<std::string, bz::HostTensor> in = {{"scores", bz::random_tensor(scores.type(), 1)},
                                                    {"mask", causal_mask(mask.type())}};
  const auto out = exe.run(in);
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out);
  const bool rows = row_is(out.at("weights"), 1, length, true) && row_is(out.at("weights"), 2, length, false);
  fmt::print("on {}: {}\n{}masked row is NaN, its neighbour adds up to 1: {}\n", device.name(),
             bz::to_string(scores.type()), check.text(), rows ? "yes" : "no");
  return check.ok() && rows ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char device[16] = "best";
  long heads = 0, length = 0;
  for (const char* arg : std::span(argv + 1, argv + argc)) {
    if (std::sscanf(arg, "--device=%15s", device) == 1 || std::sscanf(arg, "--heads=%ld", &heads) == 1 ||
        std::sscanf(arg, "--length=%ld", &length) == 1) {
      continue;
    }
    fmt::print(stderr, "usage: attention_softmax [--device=best|cuda|sim] [--heads=N] [--length=N]\n");
    return 2;
  }
  try {
    return run(device, heads, length);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

// log_softmax over rows that are too long for the registers of one block: 4096 rows of 393216 on a GPU, a few
// short ones in the simulator. Large results are checked on some rows.
//
//   log_softmax_rows [--device=best|cuda|sim] [--rows=N] [--columns=N]
#include <braze/braze.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <span>

namespace {

// Numbers in [-8, 8), quickly: a tensor may have billions.
void fill(bz::HostTensor& tensor) {
  auto* values = static_cast<float*>(tensor.data());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const std::uint64_t mixed = (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
    values[i] = static_cast<float>(mixed >> 40) * 0x1p-20f - 8;
  }
}

int run(const char* name, std::int64_t rows, std::int64_t columns) {
  const bz::Device device = bz::Device::open(name);
  const bool gpu = device.kind() == "cuda";
  if (rows == 0) rows = gpu ? 4096 : 8;
  if (columns == 0) columns = gpu ? 393216 : 3001;

  bz::Graph g("log_softmax_rows");
  auto x = g.input("x", bz::f32, {rows, columns});
  g.output("y", bz::log_softmax(x, {-1}));
  auto exe = bz::compile(g, device);
  fmt::print("{}\n", exe.explain());

  std::map<std::string, bz::HostTensor> in;
  fill(in.emplace("x", x.type()).first->second);
  const auto out = exe.run(in);
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, out);
  fmt::print("on {}: {} x {}\n{}", device.name(), rows, columns, check.text());
  if (gpu) {
    const bz::BenchResult r = exe.bench();
    fmt::print("{:.3f} ms, {:.1f} % of the speed of a copy\n", 1e3 * r.median, 100 * r.copy_share);
  }
  return check.ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char device[16] = "best";
  long rows = 0, columns = 0;
  for (const char* arg : std::span(argv + 1, argv + argc)) {
    if (std::sscanf(arg, "--device=%15s", device) == 1 || std::sscanf(arg, "--rows=%ld", &rows) == 1 ||
        std::sscanf(arg, "--columns=%ld", &columns) == 1) {
      continue;
    }
    fmt::print(stderr, "usage: log_softmax_rows [--device=best|cuda|sim] [--rows=N] [--columns=N]\n");
    return 2;
  }
  try {
    return run(device, rows, columns);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

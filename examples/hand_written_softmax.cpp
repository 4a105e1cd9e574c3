// Softmax written from max, exp and sum becomes the kernel that bz::softmax becomes: the compiler looks at
// the algebra, not at the name.
//
//   hand_written_softmax [--device=best|cuda|sim] [--rows=N] [--columns=N]
#include <braze/braze.h>
#include <fmt/format.h>

#include <cstdio>
#include <span>

namespace {

bz::Tensor by_hand(const bz::Tensor& x) {
  auto e = bz::exp(x - bz::max(x, {1}, bz::keepdims));
  return e / bz::sum(e, {1}, bz::keepdims);
}

bz::Tensor composite(const bz::Tensor& x) { return bz::softmax(x, {1}); }

bz::Graph program(bz::Tensor (*softmax)(const bz::Tensor&), std::int64_t rows, std::int64_t columns) {
  bz::Graph g("softmax");
  g.output("y", softmax(g.input("x", bz::f32, {rows, columns})));
  return g;
}

// The kernel IR after the kernel's name, which says what the program was written with.
std::string body(const std::string& kernel) { return kernel.substr(kernel.find('(')); }

int run(const char* name, std::int64_t rows, std::int64_t columns) {
  const bz::Device device = bz::Device::open(name);
  const bool gpu = device.kind() == "cuda";
  if (rows == 0) rows = gpu ? 4096 : 16;
  if (columns == 0) columns = gpu ? 1024 : 100;

  const bz::Graph g = program(by_hand, rows, columns);
  auto exe = bz::compile(g, device);
  const std::string kernel = exe.dump(bz::Stage::kernel);
  const std::string other = bz::compile(program(composite, rows, columns), device).dump(bz::Stage::kernel);
  const bool same = body(kernel) == body(other);
  fmt::print("{}\nthe kernel of bz::softmax is {}\n", kernel, same ? "the same" : "another");

  const std::map<std::string, bz::HostTensor> in = {{"x", bz::random_tensor({bz::f32, {rows, columns}}, 1)}};
  const bz::ReferenceCheck check = bz::check_outputs(g.ir(), in, exe.run(in));
  fmt::print("on {}: {}", device.name(), check.text());
  return check.ok() && same ? 0 : 1;
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
    fmt::print(stderr, "usage: hand_written_softmax [--device=best|cuda|sim] [--rows=N] [--columns=N]\n");
    return 2;
  }
  try {
    return run(device, rows, columns);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

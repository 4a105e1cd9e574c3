// Softmax through an installed Braze: every row of the result sums to one.
#include <braze/braze.h>
#include <fmt/format.h>

#include <cmath>

int main() {
  constexpr int kRows = 8, kColumns = 100;
  bz::Graph g;
  const auto x = g.input("x", bz::f32, {kRows, kColumns});
  g.output("y", bz::softmax(x, {-1}));
  bz::Executable exe = bz::compile(g, bz::Device::best());

  const auto out = exe.run({{"x", bz::random_tensor({bz::f32, {kRows, kColumns}}, 1)}});
  const bz::HostTensor& y = out.at("y");
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int column = 0; column < kColumns; ++column) sum += y.value(row * kColumns + column);
    if (!(std::abs(sum - 1) < 1e-5)) {
      fmt::print("row {} sums to {}, not to 1\n", row, sum);
      return 1;
    }
  }
  fmt::print("softmax on {}: good\n", exe.device().name());
}

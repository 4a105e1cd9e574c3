// Every composite of the table through the compiler, in every floating type and at small, odd and long
// extents.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness.h"
#include "ir/composites.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

struct CompositeCase {
  std::string_view composite;
  std::vector<std::string_view> calls;
};

// Operands: %x, %y [R, D]; %g, %b [D]; %im [N, C, 3, 5]; %gc, %bc, %m, %v [C], %v positive; %t i64[R], %s
// i32[R].
const std::vector<CompositeCase>& cases() {
  static const std::vector<CompositeCase> all = {
      {"softmax",
       {"%x {axes = [1]}", "%x {axes = [0]}", "%x {axes = [0, 1]}", "%im {axes = [1]}",
        "%im {axes = [0, 2]}"}},
      {"log_softmax", {"%x {axes = [-1]}", "%x {axes = [0]}", "%im {axes = [1]}"}},
      {"logsumexp",
       {"%x {axes = [1]}", "%x {axes = [0], keepdims = true}", "%x {axes = [0, 1]}", "%im {axes = [1, 3]}"}},
      {"mean",
       {"%x {axes = [1]}", "%x {axes = [0], keepdims = true}", "%x {axes = [0, 1]}", "%im {axes = [0, 3]}"}},
      {"var",
       {"%x {axes = [1]}", "%x {axes = [0], keepdims = true}", "%x {axes = [1], correction = 0}",
        "%im {axes = [0, 2]}"}},
      {"std", {"%x {axes = [1], correction = 0}", "%im {axes = [2, 3], keepdims = true}"}},
      {"square", {"%x"}},
      {"relu", {"%x"}},
      {"leaky_relu", {"%x", "%x {negative_slope = 0.3}"}},
      {"elu", {"%x", "%x {alpha = 0.5}"}},
      {"selu", {"%x"}},
      {"gelu", {"%x", "%x {approximate = \"tanh\"}"}},
      {"silu", {"%x"}},
      {"mish", {"%x"}},
      {"softplus", {"%x", "%x {beta = 2, threshold = 1}"}},
      {"softsign", {"%x"}},
      {"hardtanh", {"%x", "%x {min = -0.5, max = 0.25}"}},
      {"hardsigmoid", {"%x"}},
      {"hardswish", {"%x"}},
      {"layer_norm",
       {"%x", "%x, %g, %b", "%x, %g {eps = 0.01}", "%x {axes = [0, 1]}", "%im {axes = [1, 2, 3]}"}},
      {"rms_norm", {"%x", "%x, %g", "%x {axes = [0], eps = 0.001}"}},
      {"group_norm", {"%im {groups = 2}", "%im, %gc, %bc {groups = 4}", "%im, %gc {groups = 1, eps = 0.1}"}},
      {"instance_norm", {"%im", "%im, %gc, %bc"}},
      {"batch_norm", {"%im, %m, %v", "%im, %m, %v, %gc, %bc"}},
      {"mse", {"%x, %y", "%x, %y {reduction = \"sum\"}", "%x, %y {reduction = \"none\"}"}},
      {"cross_entropy", {"%x, %t", "%x, %s {reduction = \"sum\"}", "%x, %t {reduction = \"none\"}"}},
  };
  return all;
}

constexpr std::string_view kInputs = R"(
  %x = input T[R, D] %y = input T[R, D] %g = input T[D] %b = input T[D]
  %im = input T[N, C, 3, 5] %gc = input T[C] %bc = input T[C] %m = input T[C] %w = input T[C]
  %v = exp %w
  %t = input i64[R] %s = input i32[R]
)";

std::string program(DType t, std::int64_t rows, std::int64_t width, std::size_t first, std::size_t last) {
  std::string text = fmt::format("graph composites(R = {}, D = {}, N = 2, C = 4) {{{}", rows, width, kInputs);
  for (std::size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at)) {
    text.replace(at, 1, name(t));
  }
  for (std::size_t k = first; k < last; ++k) {
    const CompositeCase& c = cases()[k];
    for (std::size_t i = 0; i < c.calls.size(); ++i) {
      text += fmt::format("%{0}.{1} = {0} {2} output %{0}.{1}\n", c.composite, i, c.calls[i]);
    }
  }
  return text + "}";
}

}  // namespace

TEST_CASE("every composite has a case, and every case a composite") {
  std::set<std::string_view> table, tested;
  for (const CompositeInfo& row : composites()) table.insert(row.name);
  for (const CompositeCase& c : cases()) tested.insert(c.composite);
  CHECK(table == tested);
}

TEST_CASE("every composite has the value of its formula in every floating type") {
  struct Shapes {
    DType type;
    std::int64_t rows, width;
    bool misaligned;
  };
  for (const Shapes& s :
       {Shapes{DType::f32, 5, 33, false}, Shapes{DType::f32, 1, 1, true}, Shapes{DType::f32, 3, 1025, true},
        Shapes{DType::f16, 5, 33, true}, Shapes{DType::f16, 2, 260, false}, Shapes{DType::bf16, 4, 40, false},
        Shapes{DType::f64, 5, 33, true}}) {
    constexpr std::size_t kTogether = 7;  // composites in one graph
    for (std::size_t first = 0; first < cases().size(); first += kTogether) {
      Options options;
      options.tolerance_scale = 2;
      options.misaligned = s.misaligned;
      options.seed = first + 1;
      INFO(name(s.type) << " " << s.rows << " x " << s.width);
      check(parse(program(s.type, s.rows, s.width, first, std::min(first + kTogether, cases().size()))),
            options);
    }
  }
}

TEST_CASE("rows that a broadcast makes of one value normalise to exactly 0") {
  const std::vector<double> v = {1234.567, 0.1, -77777.7, 3.3e-7, 9.9e6};
  for (const std::string_view rows : {
           "%x = broadcast %v {shape = [5, 1000], dims = [0]} %n = layer_norm %x",
           "%e = mul %v, 1.1 %x = broadcast %e {shape = [5, 1000], dims = [0]} %n = layer_norm %x",
           "%x = broadcast %v {shape = [100, 5], dims = [1]} %n = layer_norm %x {axes = [0]}",
           "%x = broadcast %v {shape = [5, 2, 10, 7], dims = [0]} %n = instance_norm %x",
           "%x = broadcast %v {shape = [5, 4, 10, 7], dims = [0]} %n = group_norm %x {groups = 2}",
           "%s = slice %v {starts = [1], stops = [2]} %x = broadcast %s {shape = [3, 100]} %n = layer_norm "
           "%x",
           "%c = constant f32[5, 1000] 0.1 %x = add %c, 0 %n = layer_norm %x",
       }) {
    INFO(rows);
    const std::vector<double> y = result_of(fmt::format("graph g {{ %v = input f32[5] {} output %n }}", rows),
                                            {{"v", tensor({DType::f32, {5}}, v)}});
    CHECK(std::all_of(y.begin(), y.end(), [](double e) { return e == 0; }));
  }
}

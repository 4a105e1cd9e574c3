// The device math library on the host: every function against the C++ library in a wider type, over random
// bit patterns, sweeps around critical points and special values; and every function through the NVPTX
// backend.
#include "compiler/emit/math.h"

#include <fmt/format.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/host_math.h"

namespace {

using bz::ScalarOp;
using bz::ulp_error;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<ScalarOp> math_ops() {
  std::vector<ScalarOp> ops;
  for (const bz::ScalarOpInfo& i : bz::scalar_ops())
    if (bz::emit::has_math_function(i.op)) ops.push_back(i.op);
  return ops;
}

std::string loop_name(ScalarOp op, bool f64) {
  return std::string(bz::info(op).text) + (f64 ? "_loop_f64" : "_loop_f32");
}

void add_functions(llvm::Module& m) {
  for (ScalarOp op : math_ops())
    for (bool f64 : {false, true})
      bz::add_loop(m, loop_name(op, f64), bz::emit::math_function(m, op, f64), f64);
}

template <class T>
std::vector<T> run(ScalarOp op, const std::vector<T>& a, const std::vector<T>& b) {
  static const bz::HostMath functions(add_functions);
  return functions.run(loop_name(op, std::is_same_v<T, double>), a, b);
}

// Python's and NumPy's floored modulo, with its exact remainder.
template <class T>
T floored_mod(T a, T b) {
  T m = std::fmod(a, b);
  if (m == 0) return std::copysign(T(0), b);
  return std::signbit(m) != std::signbit(b) ? m + b : m;
}

template <class Wide>
Wide reference(ScalarOp op, Wide a, Wide b) {
  switch (op) {
    case ScalarOp::exp: return std::exp(a);
    case ScalarOp::exp2: return std::exp2(a);
    case ScalarOp::expm1: return std::expm1(a);
    case ScalarOp::log: return std::log(a);
    case ScalarOp::log1p: return std::log1p(a);
    case ScalarOp::log2: return std::log2(a);
    case ScalarOp::sin: return std::sin(a);
    case ScalarOp::cos: return std::cos(a);
    case ScalarOp::tan: return std::tan(a);
    case ScalarOp::tanh: return std::tanh(a);
    case ScalarOp::sigmoid: return 1 / (1 + std::exp(-a));
    case ScalarOp::erf: return std::erf(a);
    case ScalarOp::pow: return std::pow(a, b);
    case ScalarOp::atan2: return std::atan2(a, b);
    default: FAIL("no reference for " << bz::info(op).text); return 0;
  }
}

template <class T>
struct Worst {
  double ulp = 0;
  T a = 0, b = 0, got = 0;
};

// `b` is empty for unary functions. mod has to be exact.
template <class T>
Worst<T> worst_error(ScalarOp op, const std::vector<T>& a, const std::vector<T>& b) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  std::vector<T> out = run(op, a, b);
  Worst<T> worst;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const T y = b.empty() ? T(0) : b[i];
    double error = op == ScalarOp::mod ? (ulp_error(out[i], floored_mod(a[i], y)) == 0 ? 0 : kInf)
                                       : ulp_error(out[i], reference<Wide>(op, a[i], y));
    if (error > worst.ulp) worst = {error, a[i], y, out[i]};
  }
  return worst;
}

template <class T>
void require_accurate(ScalarOp op, const std::vector<T>& a, const std::vector<T>& b) {
  Worst<T> worst = worst_error(op, a, b);
  INFO(fmt::format("{}({:a}, {:a}) = {:a}", bz::info(op).text, worst.a, worst.b, worst.got));
  REQUIRE(worst.ulp <= (std::is_same_v<T, float> ? 2.0 : 4.0));
}

template <class T>
std::vector<T> random_bits(std::size_t n, unsigned seed) {
  using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;
  std::mt19937_64 random(seed);
  std::vector<T> values(n);
  for (T& v : values) v = std::bit_cast<T>(static_cast<Bits>(random()));
  return values;
}

template <class T>
std::vector<T> uniform(std::size_t n, double low, double high, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(n);
  for (T& v : values) v = static_cast<T>(low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53);
  return values;
}

// Values where the formulas change, and the neighbours of each on both sides.
template <class T>
std::vector<T> critical() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  auto around = [&](double centre) {
    T up = static_cast<T>(centre);
    T down = up;
    for (int i = 0; i < 50; ++i) {
      values.insert(values.end(), {up, down, -up, -down});
      up = std::nextafter(up, static_cast<T>(kInf));
      down = std::nextafter(down, static_cast<T>(-kInf));
    }
  };
  for (double c : {0.0,         1.0,       2.0,     0.5,    0.93,    2.0 / 3,    4.0 / 3, 0.5 * M_LN2, M_LN2,
                   1.5 * M_LN2, M_SQRT1_2, M_SQRT2, 4.0,    6.0,     9.02,       9.1,     15.0,        17.3,
                   18.0,        22.0,      44.5,    87.3,   88.72,   88.8,       89.0,    103.9,       104.0,
                   126.0,       128.0,     149.0,   150.0,  151.0,   709.78,     710.0,   745.1,       746.0,
                   1022.0,      1024.0,    1074.0,  1075.0, 65536.0, 33554432.0, 1e10})
    around(c);
  around(Limits::min());
  around(Limits::max());
  around(Limits::epsilon());
  for (int quadrant = 1; quadrant < 200; ++quadrant) around(quadrant * M_PI_2);
  for (int e = Limits::min_exponent - Limits::digits; e < Limits::max_exponent; ++e) {
    values.push_back(std::ldexp(T(1), e));
    values.push_back(-std::ldexp(T(1), e));
  }
  for (double special : {kInf, -kInf, kNan, -0.0}) values.push_back(static_cast<T>(special));
  return values;
}

template <class T>
void check_unary(ScalarOp op) {
  require_accurate(op, random_bits<T>(200000, 1), {});
  require_accurate(op, critical<T>(), {});
  for (double range : {1.0, 10.0, 110.0, 750.0, 1e6})
    require_accurate(op, uniform<T>(50000, -range, range, 2), {});
}

// All pairs of special values.
template <class T>
void pairs(std::vector<T>* a, std::vector<T>* b) {
  using Limits = std::numeric_limits<T>;
  const T big = static_cast<T>(std::ldexp(1.0, Limits::digits));
  std::vector<T> values;
  for (T v : {T(0),
              Limits::denorm_min(),
              Limits::min(),
              T(0.25),
              T(0.5),
              T(1),
              std::nextafter(T(1), T(0)),
              std::nextafter(T(1), T(2)),
              T(1.5),
              T(2),
              T(2.5),
              T(3),
              T(4),
              T(5),
              T(10),
              T(33),
              T(100.5),
              T(127),
              T(1e9),
              T(big - 1),
              big,
              big * 2,
              big * 4,
              Limits::max(),
              Limits::infinity(),
              Limits::quiet_NaN()})
    values.insert(values.end(), {v, -v});
  for (T x : values)
    for (T y : values) {
      a->push_back(x);
      b->push_back(y);
    }
}

template <class T>
void check_binary(ScalarOp op) {
  std::vector<T> a, b;
  pairs(&a, &b);
  require_accurate(op, a, b);
  require_accurate(op, random_bits<T>(200000, 3), random_bits<T>(200000, 4));
  for (double range : {1.1, 20.0, 1000.0})
    require_accurate(op, uniform<T>(100000, -range, range, 5), uniform<T>(100000, -range, range, 6));
}

}  // namespace

TEST_CASE("math functions are accurate in f32") {
  for (ScalarOp op : math_ops()) bz::info(op).arity == 1 ? check_unary<float>(op) : check_binary<float>(op);
}

TEST_CASE("math functions are accurate in f64") {
  for (ScalarOp op : math_ops()) bz::info(op).arity == 1 ? check_unary<double>(op) : check_binary<double>(op);
}

TEST_CASE("pow is accurate where the result is close to overflow or the base to 1") {
  require_accurate(ScalarOp::pow, uniform<float>(200000, 0.0, 4.0, 7),
                   uniform<float>(200000, -128.0, 128.0, 8));
  require_accurate(ScalarOp::pow, uniform<float>(200000, 0.999, 1.001, 9),
                   uniform<float>(200000, -9e4, 9e4, 10));
  require_accurate(ScalarOp::pow, uniform<double>(200000, 0.0, 4.0, 7),
                   uniform<double>(200000, -1024.0, 1024.0, 8));
  require_accurate(ScalarOp::pow, uniform<double>(200000, 0.999, 1.001, 9),
                   uniform<double>(200000, -7e5, 7e5, 10));
}

TEST_CASE("tanh saturates at exactly 1 and exp2 of an integer is exact") {
  std::vector<float> x = {9.02f, 15.0f, 44.5f, 88.8f, 1e10f, static_cast<float>(kInf)};
  for (float y : run(ScalarOp::tanh, x, {})) CHECK(y == 1.0f);
  for (float& v : x) v = -v;
  for (float y : run(ScalarOp::tanh, x, {})) CHECK(y == -1.0f);

  std::vector<float> n;
  for (int i = -149; i < 128; ++i) n.push_back(static_cast<float>(i));
  std::vector<float> powers = run(ScalarOp::exp2, n, {});
  for (std::size_t i = 0; i < n.size(); ++i) CHECK(powers[i] == std::ldexp(1.0f, static_cast<int>(n[i])));
}

TEST_CASE("bounded functions keep within their bounds in f32, exp and sigmoid never give -0") {
  constexpr std::uint64_t kStride = 509, kChunk = 1 << 22;
  struct Bounds {
    ScalarOp op;
    float lo, hi;
  };
  std::vector<float> x;
  const auto check = [&] {
    for (const Bounds& bounds :
         {Bounds{ScalarOp::tanh, -1, 1}, Bounds{ScalarOp::erf, -1, 1}, Bounds{ScalarOp::sin, -1, 1},
          Bounds{ScalarOp::cos, -1, 1}, Bounds{ScalarOp::sigmoid, 0, 1},
          Bounds{ScalarOp::exp, 0, static_cast<float>(kInf)},
          Bounds{ScalarOp::exp2, 0, static_cast<float>(kInf)}}) {
      const std::vector<float> y = run(bounds.op, x, {});
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool outside = y[i] < bounds.lo || y[i] > bounds.hi ||
                             (bounds.lo == 0 && !std::isnan(y[i]) && std::signbit(y[i]));
        if (outside) FAIL(fmt::format("{}({:a}) = {:a}", bz::info(bounds.op).text, x[i], y[i]));
      }
    }
    x.clear();
  };
  for (std::uint64_t bits = 0; bits <= 0xffffffffU; bits += kStride) {
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (x.size() == kChunk) check();
  }
  check();
}

TEST_CASE("math_function verifies, is internal and is created once") {
  llvm::LLVMContext c;
  llvm::Module m("m", c);
  CHECK_FALSE(bz::emit::has_math_function(ScalarOp::add));
  for (ScalarOp op : math_ops())
    for (bool f64 : {false, true}) {
      llvm::Function* f = bz::emit::math_function(m, op, f64);
      CHECK(f->getName() == fmt::format("bz.math.{}.{}", bz::info(op).text, f64 ? "f64" : "f32"));
      CHECK(f->hasInternalLinkage());
      CHECK(bz::emit::math_function(m, op, f64) == f);
    }
  CHECK(bz::verification(m) == "");
}

TEST_CASE("math functions compile to PTX that calls nothing outside the module") {
  for (const char* cpu : {"sm_75", "sm_90"}) {
    const std::string ptx = bz::host_math_ptx(add_functions, cpu);
    CHECK_THAT(ptx, Catch::Contains("tanh_loop_f32"));
    for (const char* absent : {".extern", ".approx", ".ftz"}) CHECK_THAT(ptx, !Catch::Contains(absent));
  }
}

// What the device math library has for lists of elements, on the host: exponentials that share a branch, sums of them, and divisions by one
// number, against the machine's own; and through the NVPTX backend.
#include "compiler/emit/division.h"
#include "compiler/emit/math.h"
#include "compiler/emit/math_builder.h"

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

using bz::add_loop;
using bz::ulp_error;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Odd numbers of up to 20 bits times powers of two.
constexpr float kDivisors[] = {6.0F,      3.0F, -7.0F,       0.75F,      63504.0F,
                               393215.0F, 1e6F, -1048575.0F, 0x1.8p-50F, 0x1.4p+58F};

// void divide_N(a, b, out, n): out[i] = a[i] / kDivisors[N], four at a time; divide: by b[i], one for all four.
void add_divide_loop(llvm::Module& m, const std::string& name, std::optional<float> divisor) {
  llvm::LLVMContext& c = m.getContext();
  llvm::Type* type = llvm::Type::getFloatTy(c);
  add_loop(m, name, type, 4, [&](llvm::IRBuilder<>& b, const bz::LoopElement& element) {
    llvm::Value* by = divisor ? static_cast<llvm::Value*>(llvm::ConstantFP::get(type, *divisor))
                              : b.CreateLoad(type, element(1, 0));
    llvm::SmallVector<llvm::Value*, 4> elements;
    for (std::uint64_t j = 0; j < 4; ++j) elements.push_back(b.CreateLoad(type, element(0, j)));
    const auto quotients = bz::emit::Divisor::of(b, by, true).value().divide(b, elements);
    for (std::uint64_t j = 0; j < 4; ++j) b.CreateStore(quotients[j], element(2, j));
  });
}

constexpr const char* kExpNonpositive = "exp_nonpositive";
constexpr const char* kExpInList = "exp_nonpositive_in_list";

constexpr const char* kExpFewTerms = "exp_nonpositive_few_terms";
constexpr const char* kExpFewTermsInList = "exp_nonpositive_few_terms_in_list";

// exp_nonpositive(x), alone and beside others in a list; `name` tells them apart.
void add_exp_nonpositive(llvm::Module& m, const std::string& name, bz::emit::ExpTerms terms,
                         std::initializer_list<double> others) {
  llvm::Type* type = llvm::Type::getFloatTy(m.getContext());
  auto* f = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false),
                                   llvm::GlobalValue::InternalLinkage, name + ".f32", m);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(m.getContext(), "entry", f));
  llvm::SmallVector<llvm::Value*, 4> x = {f->getArg(0)};
  for (const double other : others) x.push_back(llvm::ConstantFP::get(type, other));
  llvm::Value* least = nullptr;
  if (others.size() > 0)
    least = bz::emit::math::fold(b, x, [](const auto& l, const auto& r) { return min(l, r); });
  b.CreateRet(bz::emit::exp_nonpositive(b, x, terms, least)[0]);
  add_loop(m, name, f, false);
}

constexpr const char* kTerm = "term";
constexpr const char* kTermOfDifference = "term_of_difference";
constexpr const char* kScaled = "scaled_exp";
constexpr const char* kScaledBesideNothing = "scaled_exp_beside_nothing";

// A sum of one term: exp(x), and exp(x - pivot) with few terms, x being of 16 bits. And exp(x - pivot) for what is rounded to 16
// bits, alone and beside one that is 0.
void add_sums_of_terms(llvm::Module& m) {
  llvm::Type* type = llvm::Type::getFloatTy(m.getContext());
  const auto add = [&](const char* name, llvm::ArrayRef<llvm::Type*> types, auto&& sum) {
    auto* f = llvm::Function::Create(llvm::FunctionType::get(type, types, false),
                                     llvm::GlobalValue::InternalLinkage, std::string(name) + ".f32", m);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(m.getContext(), "entry", f));
    b.CreateRet(sum(b, f));
    add_loop(m, name, f, false);
  };
  add(kTerm, {type}, [](llvm::IRBuilder<>& b, llvm::Function* f) {
    return bz::emit::sum_of_terms(b, f->getArg(0), bz::emit::ExpTerms::many);
  });
  add(kTermOfDifference, {type, type}, [](llvm::IRBuilder<>& b, llvm::Function* f) {
    const auto elements = [&](llvm::Value* floor) -> bz::emit::Elements {
      if (floor == nullptr) return {f->getArg(0)};
      return {b.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, f->getArg(0), floor)};
    };
    return bz::emit::sum_of_terms(b, f->getArg(1), elements, bz::emit::ExpTerms::few);
  });
  for (const bool beside_nothing : {false, true}) {
    add(beside_nothing ? kScaledBesideNothing : kScaled, {type, type},
        [&](llvm::IRBuilder<>& b, llvm::Function* f) {
          llvm::Value *x = f->getArg(0), *pivot = f->getArg(1);
          llvm::Value* least = x;
          if (beside_nothing)
            least = b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, x, llvm::ConstantFP::get(type, -kInf));
          llvm::Value* no_difference = bz::emit::needs_no_difference(b, pivot, least);
          return b.CreateFMul(bz::emit::scaled_exp(b, {x}, pivot, no_difference)[0],
                              bz::emit::factor(b, pivot));
        });
  }
}

std::string divide_name(std::size_t i) { return fmt::format("divide_{}", i); }

void add_lists(llvm::Module& m) {
  for (std::size_t i = 0; i < std::size(kDivisors); ++i) add_divide_loop(m, divide_name(i), kDivisors[i]);
  add_divide_loop(m, "divide", std::nullopt);
  add_exp_nonpositive(m, kExpNonpositive, bz::emit::ExpTerms::many, {});
  add_exp_nonpositive(m, kExpInList, bz::emit::ExpTerms::many, {-1, -40, -86.9});
  add_exp_nonpositive(m, kExpFewTerms, bz::emit::ExpTerms::few, {});
  add_exp_nonpositive(m, kExpFewTermsInList, bz::emit::ExpTerms::few, {-1, -40, -86.9});
  add_sums_of_terms(m);
}

std::vector<float> run(const std::string& name, const std::vector<float>& a, const std::vector<float>& b) {
  static const bz::HostMath lists(add_lists);
  return lists.run(name, a, b);
}

// Random mantissas and signs for every exponent, subnormal ones too, and special values; a multiple of four.
std::vector<float> all_exponents(int each, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (int i = 0; i < each; ++i)
      values.push_back(
          std::bit_cast<float>((exponent << 23) | (static_cast<std::uint32_t>(random()) & 0x807fffffU)));
  }
  for (std::uint32_t i = 0; i < 64; ++i) values.push_back(std::bit_cast<float>(i));
  for (std::uint32_t i = 0; i < 64; ++i) values.push_back(std::bit_cast<float>(0x80000000U + i));
  for (float special : {static_cast<float>(kInf), static_cast<float>(-kInf), static_cast<float>(kNan), -0.0F})
    values.push_back(special);
  return values;
}

// The first quotient that is not what the machine's division gives; empty if there is none.
std::string wrong_quotient(const std::vector<float>& a, const std::vector<float>& b,
                           const std::vector<float>& got) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float want = a[i] / b[i];
    const bool equal = std::isnan(want)
                           ? std::isnan(got[i])
                           : std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(want);
    if (!equal) return fmt::format("{:a} / {:a} = {:a}, not {:a}", a[i], b[i], want, got[i]);
  }
  return "";
}

// In units in the last place, for each power of two that exp(x) is below 1.
double error_of_term(float got, double x) {
  const double exact = std::exp(x);
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 24) - 0.032 * std::max(0, -exponent);
}

}  // namespace

TEST_CASE("exp of what is never above 0 is accurate down to the smallest subnormal number") {
  constexpr std::uint64_t kStride = 251;
  const auto [alone, list, bound] = GENERATE(std::tuple(kExpNonpositive, kExpInList, 0.89),
                                             std::tuple(kExpFewTerms, kExpFewTermsInList, 1.87));
  std::vector<float> x = {0.0f, -0.0f, static_cast<float>(-kInf), static_cast<float>(kNan)};
  for (std::uint64_t bits = 0x80000000U; bits < 0xff800000U; bits += kStride)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  const std::vector<float> y = run(alone, x, {});
  const std::vector<float> in_list = run(list, x, {});
  std::size_t others = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    others +=
        !std::isnan(y[i]) && std::bit_cast<std::uint32_t>(y[i]) != std::bit_cast<std::uint32_t>(in_list[i]);
  CHECK(others == 0);
  CHECK(std::isnan(in_list[3]));
  CHECK(y[0] == 1);
  CHECK(y[1] == 1);
  CHECK(std::bit_cast<std::uint32_t>(y[2]) == 0);
  CHECK(std::isnan(y[3]));
  double worst = 0;
  for (std::size_t i = 4; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    int exponent = 0;
    std::frexp(exact, &exponent);
    worst = std::max(worst, std::abs(y[i] - exact) / std::ldexp(1.0, std::max(exponent - 24, -149)));
  }
  CHECK(worst < bound);
}

TEST_CASE("terms of a sum are accurate where they count") {
  std::vector<float> x;
  for (float v = 4; v > -87; v -= 1.0F / 1024) x.push_back(v);
  const std::size_t counted = x.size();
  for (const double v : {-87.5, -1000.0, -kInf, kNan}) x.push_back(static_cast<float>(v));
  const std::vector<float> y = run(kTerm, x, {});
  double worst = 0;
  for (std::size_t i = 0; i < counted; ++i) worst = std::max(worst, error_of_term(y[i], x[i]));
  CHECK(worst < 0.95);
  for (std::size_t i = counted; i + 1 < x.size(); ++i) CHECK((y[i] >= 0 && y[i] < 2e-38F));
  CHECK(std::isnan(y.back()));
}

TEST_CASE("terms that are differences of 16-bit elements and a pivot are accurate where they count") {
  std::vector<float> x, pivots;
  for (const double pivot : {0.0, 0.3, -0.3, 0.51, 1.0, 2.37, -7.5, 13.77, 88.0, -100.0, 333.25, 1000.0,
                             -1024.0, 4096.0, -4095.0, 5000.0, 1e6, -3e38}) {
    for (double d = 4; d > -200; d -= 1.0 / 16) {
      x.push_back(static_cast<float>(bz::round_to(bz::DType::bf16, pivot + d)));
      pivots.push_back(static_cast<float>(pivot));
    }
    for (const double v : {-kInf, kNan}) {
      x.push_back(static_cast<float>(v));
      pivots.push_back(static_cast<float>(pivot));
    }
  }
  const std::vector<float> y = run(kTermOfDifference, x, pivots);
  double worst = 0;
  int far = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - pivots[i];
    if (std::isnan(d)) {
      CHECK(std::isnan(y[i]));
    } else if (d < -40) {
      far += y[i] >= 0 && y[i] <= 4.3e-18F ? 0 : 1;  // exp(-40)
    } else if (d <= 4) {
      worst = std::max(worst, error_of_term(y[i], d));
    }
  }
  CHECK(far == 0);
  CHECK(worst < 3.8);
}

TEST_CASE(
    "exponentials for what is rounded to 16 bits are accurate enough, and right where they are subnormal or "
    "none") {
  std::vector<float> x, pivots;
  std::mt19937 random(17);
  std::uniform_real_distribution<float> below(-110, 0);
  for (const float pivot : {0.0F, 0.3F, -0.3F, 0.51F, 1.0F, -7.5F, 13.77F, 88.0F, -100.0F, 333.25F, 1000.0F,
                            4096.0F, -4095.0F, 5000.0F, 1e6F, -3e38F}) {
    for (int i = 0; i < 3000; ++i) {
      x.push_back(i == 0 ? pivot : pivot + below(random));
      pivots.push_back(pivot);
    }
    for (const double v : {-kInf, kNan}) {
      x.push_back(static_cast<float>(v));
      pivots.push_back(pivot);
    }
  }
  for (const double pivot : {kInf, kNan}) {
    x.push_back(1);
    pivots.push_back(static_cast<float>(pivot));
  }
  for (const char* name : {kScaled, kScaledBesideNothing}) {
    const std::vector<float> y = run(name, x, pivots);
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(fmt::format("{}: exp({} - {}) is {}", name, x[i], pivots[i], y[i]));
      const double exact = std::exp(static_cast<double>(x[i]) - pivots[i]);
      // Where a difference is taken it is rounded.
      const double rounded = std::exp(static_cast<double>(x[i] - pivots[i]));
      const double error = std::min(ulp_error(y[i], exact), ulp_error(y[i], rounded));
      if (exact == 0 || std::isnan(exact)) CHECK(error == 0);
      worst = std::max(worst, error);
    }
    CHECK(worst < 8);
  }
}

TEST_CASE("division by a constant is division, bit by bit") {
  std::vector<float> a = all_exponents(2048, 11);
  for (std::size_t k = 0; k < std::size(kDivisors); ++k) {
    // Products with odd numbers are the quotients and the middles between them.
    std::vector<float> x = a;
    for (std::size_t i = 0; i < x.size(); i += 2) x[i] = static_cast<float>(x[i] * 0.5 * kDivisors[k]);
    const std::vector<float> divisors(x.size(), kDivisors[k]);
    CHECK(wrong_quotient(x, divisors, run(divide_name(k), x, {})) == "");
  }
}

TEST_CASE("division of four elements by one number is division, bit by bit") {
  const std::vector<float> values = all_exponents(8, 12), divisors = all_exponents(4, 13);
  std::vector<float> a, b;
  for (float y : divisors) {
    for (float x : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  // Numbers of one size, whose quotients are all taken the short way, near middles among them.
  std::mt19937 random(14);
  const auto in_1_2 = [&] {
    return std::bit_cast<float>(0x3f800000U | (static_cast<std::uint32_t>(random()) & 0x7fffffU));
  };
  for (int i = 0; i < 1000000; ++i) {
    const float y = in_1_2(), q = in_1_2(), other = in_1_2();
    const float x = static_cast<float>((static_cast<double>(q) + 0x1p-24) * static_cast<double>(y));
    for (float element : {x, std::nextafter(x, 0.0F), std::nextafter(x, 4.0F), other}) {
      a.push_back(element);
      b.push_back(y);
    }
  }
  CHECK(wrong_quotient(a, b, run("divide", a, b)) == "");
}

TEST_CASE("lists compile to PTX that calls nothing outside the module") {
  for (const char* cpu : {"sm_75", "sm_90"}) {
    const std::string ptx = bz::host_math_ptx(add_lists, cpu);
    CHECK_THAT(ptx, Catch::Contains("scaled_exp"));
    for (const char* absent : {".extern", ".approx", ".ftz"}) CHECK_THAT(ptx, !Catch::Contains(absent));
  }
}

// The device math library on the host: every function against the C++ library in a wider type, over random
// bit patterns, sweeps around critical points and special values; and every function through the NVPTX
// backend.
#include "compiler/emit/math.h"

#include "compiler/emit/division.h"
#include "compiler/emit/math_builder.h"

#include <fmt/format.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using bz::ScalarOp;

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

// void NAME(a, b, out, n): out[i] = function(a[i], b[i]); b is not read by unary functions.
void add_loop(llvm::Module& m, const std::string& name, llvm::Function* function, bool f64) {
  llvm::LLVMContext& c = m.getContext();
  llvm::Type* type = f64 ? llvm::Type::getDoubleTy(c) : llvm::Type::getFloatTy(c);
  llvm::Type* pointer = llvm::PointerType::get(c, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(c);
  auto* f = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer, pointer, pointer, i64}, false),
      llvm::GlobalValue::ExternalLinkage, name, m);
  for (unsigned i = 0; i < 3; ++i) f->addParamAttr(i, llvm::Attribute::NoAlias);
  auto* entry = llvm::BasicBlock::Create(c, "entry", f);
  auto* loop = llvm::BasicBlock::Create(c, "loop", f);
  auto* exit = llvm::BasicBlock::Create(c, "exit", f);
  llvm::IRBuilder<> b(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(i64, 2);
  auto element = [&](unsigned arg) { return b.CreateGEP(type, f->getArg(arg), {i}); };
  llvm::SmallVector<llvm::Value*, 2> args = {b.CreateLoad(type, element(0))};
  if (function->arg_size() == 2) args.push_back(b.CreateLoad(type, element(1)));
  b.CreateStore(b.CreateCall(function, args), element(2));
  llvm::Value* next = b.CreateAdd(i, b.getInt64(1));
  i->addIncoming(b.getInt64(0), entry);
  i->addIncoming(next, loop);
  b.CreateCondBr(b.CreateICmpULT(next, f->getArg(3)), loop, exit);
  b.SetInsertPoint(exit);
  b.CreateRetVoid();
}

// Odd numbers of up to 20 bits times powers of two.
constexpr float kDivisors[] = {6.0F,      3.0F, -7.0F,       0.75F,      63504.0F,
                               393215.0F, 1e6F, -1048575.0F, 0x1.8p-50F, 0x1.4p+58F};

// void divide_N(a, b, out, n): out[i] = a[i] / kDivisors[N], four at a time; divide: by b[i], one for all four.
void add_divide_loop(llvm::Module& m, const std::string& name, std::optional<float> divisor) {
  llvm::LLVMContext& c = m.getContext();
  llvm::Type* type = llvm::Type::getFloatTy(c);
  llvm::Type* pointer = llvm::PointerType::get(c, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(c);
  auto* f = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer, pointer, pointer, i64}, false),
      llvm::GlobalValue::ExternalLinkage, name, m);
  auto* entry = llvm::BasicBlock::Create(c, "entry", f);
  auto* loop = llvm::BasicBlock::Create(c, "loop", f);
  auto* exit = llvm::BasicBlock::Create(c, "exit", f);
  llvm::IRBuilder<> b(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(i64, 2);
  const auto element = [&](unsigned arg, std::uint64_t j) {
    return b.CreateGEP(type, f->getArg(arg), {b.CreateAdd(i, b.getInt64(j))});
  };
  llvm::Value* by = nullptr;
  if (divisor) {
    by = llvm::ConstantFP::get(type, *divisor);
  } else {
    by = b.CreateLoad(type, element(1, 0));
  }
  llvm::SmallVector<llvm::Value*, 4> elements;
  for (std::uint64_t j = 0; j < 4; ++j) elements.push_back(b.CreateLoad(type, element(0, j)));
  const auto quotients = bz::emit::Divisor::of(b, by, true).value().divide(b, elements);
  for (std::uint64_t j = 0; j < 4; ++j) b.CreateStore(quotients[j], element(2, j));
  llvm::Value* next = b.CreateAdd(i, b.getInt64(4));
  i->addIncoming(b.getInt64(0), entry);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, f->getArg(3)), loop, exit);
  b.SetInsertPoint(exit);
  b.CreateRetVoid();
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
constexpr const char* kCoarse = "coarse_exp";
constexpr const char* kCoarseBesideNothing = "coarse_exp_beside_nothing";

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
    add(beside_nothing ? kCoarseBesideNothing : kCoarse, {type, type},
        [&](llvm::IRBuilder<>& b, llvm::Function* f) {
          llvm::Value *x = f->getArg(0), *pivot = f->getArg(1);
          llvm::Value* least = b.CreateFSub(x, pivot);
          if (beside_nothing)
            least =
                b.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, least, llvm::ConstantFP::get(type, -kInf));
          return b.CreateFMul(bz::emit::scaled_exp_of_differences(b, {x}, pivot, least)[0],
                              bz::emit::factor(b, pivot));
        });
  }
}

std::string divide_name(std::size_t i) { return fmt::format("divide_{}", i); }

std::unique_ptr<llvm::Module> loops_module(llvm::LLVMContext& c) {
  auto m = std::make_unique<llvm::Module>("math_test", c);
  for (std::size_t i = 0; i < std::size(kDivisors); ++i) add_divide_loop(*m, divide_name(i), kDivisors[i]);
  add_divide_loop(*m, "divide", std::nullopt);
  add_exp_nonpositive(*m, kExpNonpositive, bz::emit::ExpTerms::many, {});
  add_exp_nonpositive(*m, kExpInList, bz::emit::ExpTerms::many, {-1, -40, -86.9});
  add_exp_nonpositive(*m, kExpFewTerms, bz::emit::ExpTerms::few, {});
  add_exp_nonpositive(*m, kExpFewTermsInList, bz::emit::ExpTerms::few, {-1, -40, -86.9});
  add_sums_of_terms(*m);
  for (ScalarOp op : math_ops())
    for (bool f64 : {false, true})
      add_loop(*m, loop_name(op, f64), bz::emit::math_function(*m, op, f64), f64);
  return m;
}

std::string verification(const llvm::Module& m) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::verifyModule(m, &out);
  return text;
}

void optimize(llvm::Module& m, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::PassBuilder pb(machine);
  pb.registerModuleAnalyses(mam);
  pb.registerCGSCCAnalyses(cgam);
  pb.registerFunctionAnalyses(fam);
  pb.registerLoopAnalyses(lam);
  pb.crossRegisterProxies(lam, fam, cgam, mam);
  pb.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(m, mam);
}

// All loops, compiled for this machine once.
class HostMath {
 public:
  static HostMath& get() {
    static HostMath math;
    return math;
  }

  template <class T>
  std::vector<T> run(ScalarOp op, const std::vector<T>& a, const std::vector<T>& b) {
    return run(loop_name(op, std::is_same_v<T, double>), a, b);
  }

  template <class T>
  std::vector<T> run(const std::string& name, const std::vector<T>& a, const std::vector<T>& b) {
    using Loop = void(const T*, const T*, T*, std::size_t);
    auto* loop = llvm::cantFail(jit_->lookup(name)).template toPtr<Loop*>();
    std::vector<T> out(a.size());
    loop(a.data(), b.data(), out.data(), out.size());
    return out;
  }

 private:
  HostMath() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto builder = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
    builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
    auto machine = llvm::cantFail(builder.createTargetMachine());
    auto context = std::make_unique<llvm::LLVMContext>();
    auto m = loops_module(*context);
    m->setDataLayout(machine->createDataLayout());
    m->setTargetTriple(machine->getTargetTriple());
    optimize(*m, machine.get());
    jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create());
    llvm::cantFail(jit_->addIRModule({std::move(m), std::move(context)}));
  }

  std::unique_ptr<llvm::orc::LLJIT> jit_;
};

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

// Error of `got` in units in the last place of T at `want`; infinite where NaN, infinity or the sign of a
// zero differs.
template <class T, class Wide>
double ulp_error(T got, Wide want) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kInf;
  if (std::isinf(want)) return got == static_cast<T>(want) ? 0 : kInf;
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : kInf;
  if (got == 0 && std::signbit(got) != std::signbit(want)) return kInf;
  int exponent = std::min(std::max(std::ilogb(want), Limits::min_exponent - 1), Limits::max_exponent - 1);
  Wide unit = std::ldexp(Wide(1), exponent + 1 - Limits::digits);
  // An infinity stands for the first value that does not fit, and that for all larger ones.
  const Wide overflow = std::ldexp(Wide(1), Limits::max_exponent);
  auto bounded = [&](Wide v) { return std::min(std::max(v, -overflow), overflow); };
  return static_cast<double>(std::abs(bounded(got) - bounded(want)) / unit);
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
  std::vector<T> out = HostMath::get().run(op, a, b);
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
  for (float y : HostMath::get().run(ScalarOp::tanh, x, {})) CHECK(y == 1.0f);
  for (float& v : x) v = -v;
  for (float y : HostMath::get().run(ScalarOp::tanh, x, {})) CHECK(y == -1.0f);

  std::vector<float> n;
  for (int i = -149; i < 128; ++i) n.push_back(static_cast<float>(i));
  std::vector<float> powers = HostMath::get().run(ScalarOp::exp2, n, {});
  for (std::size_t i = 0; i < n.size(); ++i) CHECK(powers[i] == std::ldexp(1.0f, static_cast<int>(n[i])));
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

TEST_CASE("exp of what is never above 0 is accurate down to the smallest subnormal number") {
  constexpr std::uint64_t kStride = 251;
  const auto [alone, list, bound] = GENERATE(std::tuple(kExpNonpositive, kExpInList, 0.89),
                                             std::tuple(kExpFewTerms, kExpFewTermsInList, 1.87));
  std::vector<float> x = {0.0f, -0.0f, static_cast<float>(-kInf), static_cast<float>(kNan)};
  for (std::uint64_t bits = 0x80000000U; bits < 0xff800000U; bits += kStride)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  const std::vector<float> y = HostMath::get().run(alone, x, {});
  const std::vector<float> in_list = HostMath::get().run(list, x, {});
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

// In units in the last place, for each power of two that exp(x) is below 1.
double error_of_term(float got, double x) {
  const double exact = std::exp(x);
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, exponent - 24) - 0.032 * std::max(0, -exponent);
}

TEST_CASE("terms of a sum are accurate where they count") {
  std::vector<float> x;
  for (float v = 4; v > -87; v -= 1.0F / 1024) x.push_back(v);
  const std::size_t counted = x.size();
  for (const double v : {-87.5, -1000.0, -kInf, kNan}) x.push_back(static_cast<float>(v));
  const std::vector<float> y = HostMath::get().run(kTerm, x, {});
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
  const std::vector<float> y = HostMath::get().run(kTermOfDifference, x, pivots);
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
  for (const char* name : {kCoarse, kCoarseBesideNothing}) {
    const std::vector<float> y = HostMath::get().run(name, x, pivots);
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
    CHECK(wrong_quotient(x, divisors, HostMath::get().run(divide_name(k), x, {})) == "");
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
  CHECK(wrong_quotient(a, b, HostMath::get().run("divide", a, b)) == "");
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
      const std::vector<float> y = HostMath::get().run(bounds.op, x, {});
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
  CHECK(verification(m) == "");
}

TEST_CASE("math functions compile to PTX that calls nothing outside the module") {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  for (const char* cpu : {"sm_75", "sm_90"}) {
    llvm::Triple triple("nvptx64-nvidia-cuda");
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    REQUIRE(target != nullptr);
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    std::unique_ptr<llvm::TargetMachine> machine(
        target->createTargetMachine(triple, cpu, "+ptx83", options, std::nullopt));
    llvm::LLVMContext c;
    auto m = loops_module(c);
    m->setDataLayout(machine->createDataLayout());
    m->setTargetTriple(triple);
    optimize(*m, machine.get());
    CHECK(verification(*m) == "");

    llvm::SmallString<0> ptx;
    llvm::raw_svector_ostream out(ptx);
    llvm::legacy::PassManager passes;
    REQUIRE_FALSE(machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile));
    passes.run(*m);
    CHECK(ptx.str().contains("tanh_loop_f32"));
    CHECK_FALSE(ptx.str().contains(".extern"));
    CHECK_FALSE(ptx.str().contains(".approx"));
    CHECK_FALSE(ptx.str().contains(".ftz"));
  }
}

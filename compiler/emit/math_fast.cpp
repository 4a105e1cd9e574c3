// fast_math: functions in f32 as short formulas around the approximate instructions of a GPU.
#include "compiler/emit/math.h"
#include "compiler/emit/math_functions.h"
#include "support/error.h"

namespace bz::emit {
namespace {

using math::Real;

constexpr double kLog2e = 1.44269504088896340736, kLn2 = 0.693147180559945309417;
constexpr double kLeastNormal = 0x1p-126;

Real exact(ScalarOp op, Real x) {
  llvm::Module& m = *x.builder().GetInsertBlock()->getModule();
  return {x.builder(), x.builder().CreateCall(math_function(m, op, /*f64=*/false), {x.value()})};
}

// What .ftz does with operands and results.
Real flush(Real x) { return select(abs(x) < kLeastNormal, copysign(0.0, x), x); }

// A call of the function that stands for an instruction.
template <class Body>
Real instruction(const char* name, Real x, Body body) {
  llvm::Module& m = *x.builder().GetInsertBlock()->getModule();
  llvm::Function* f = m.getFunction(name);
  if (f == nullptr) {
    f = math::define_internal(m, name, llvm::FunctionType::get(x.type(), {x.type()}, false));
    f->addFnAttr(llvm::Attribute::AlwaysInline);
    math::Builder b(&f->getEntryBlock());
    b.CreateRet(body(Real(b, f->getArg(0))).value());
  }
  return {x.builder(), x.builder().CreateCall(f, {x.value()})};
}

Real sqrt_exact(Real x) { return math::detail::unary(llvm::Intrinsic::sqrt, x); }

Real ex2(Real x) {
  return instruction(approximate::kEx2, x, [](Real a) { return flush(exact(ScalarOp::exp2, a)); });
}
Real lg2(Real x) {
  return instruction(approximate::kLg2, x, [](Real a) { return exact(ScalarOp::log2, flush(a)); });
}
Real rcp(Real x) {
  return instruction(approximate::kRcp, x, [](Real a) { return flush(Real(1.0) / flush(a)); });
}

struct Unary {
  ScalarOp op;
  Real (*function)(Real);
};
struct Binary {
  ScalarOp op;
  Real (*function)(Real, Real);
};

constexpr Unary kUnary[] = {
    {ScalarOp::exp, [](Real x) { return ex2(x * kLog2e); }},
    {ScalarOp::exp2, ex2},
    {ScalarOp::log, [](Real x) { return lg2(x) * kLn2; }},
    {ScalarOp::log2, lg2},
    {ScalarOp::sqrt,
     [](Real x) { return instruction(approximate::kSqrt, x, [](Real a) { return sqrt_exact(flush(a)); }); }},
    {ScalarOp::rsqrt,
     [](Real x) {
       return instruction(approximate::kRsqrt, x, [](Real a) { return Real(1.0) / sqrt_exact(flush(a)); });
     }},
    {ScalarOp::reciprocal, rcp},
    {ScalarOp::sin,
     [](Real x) {
       return instruction(approximate::kSin, x, [](Real a) { return exact(ScalarOp::sin, flush(a)); });
     }},
    {ScalarOp::cos,
     [](Real x) {
       return instruction(approximate::kCos, x, [](Real a) { return exact(ScalarOp::cos, flush(a)); });
     }},
    {ScalarOp::tanh,
     [](Real x) {
       return instruction(approximate::kTanh, x, [](Real a) { return exact(ScalarOp::tanh, a); });
     }},
    {ScalarOp::sigmoid, [](Real x) { return rcp(ex2(x * -kLog2e) + 1.0); }},
};

constexpr Binary kBinary[] = {
    {ScalarOp::div,
     [](Real x, Real y) {
       const auto* c = llvm::dyn_cast<llvm::ConstantFP>(y.value());
       if (c == nullptr) return x * rcp(y);
       const double divisor = c->getValueAPF().convertToFloat();
       const bool normal = std::fabs(divisor) >= kLeastNormal && std::fabs(divisor) <= 1 / kLeastNormal;
       return normal ? x * (1 / divisor) : x * rcp(y);
     }},
    {ScalarOp::pow, [](Real x, Real y) { return math::with_pow_specials(x, y, ex2(y * lg2(abs(x)))); }},
};

}  // namespace

bool has_fast_math(ScalarOp op) { return info(op).fast_error > 0; }

llvm::Value* fast_math(llvm::IRBuilder<>& b, ScalarOp op, llvm::ArrayRef<llvm::Value*> args) {
  for (const Unary& f : kUnary)
    if (f.op == op) return f.function(Real(b, args[0])).value();
  for (const Binary& f : kBinary)
    if (f.op == op) return f.function(Real(b, args[0]), Real(b, args[1])).value();
  throw InternalError(fmt::format("no approximation of {}", info(op).text));
}

}  // namespace bz::emit

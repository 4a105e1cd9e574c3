// Wraps the bodies of the math library into functions of a module.
#include "compiler/emit/math.h"

#include "compiler/emit/math_functions.h"
#include "support/error.h"

namespace bz::emit {
namespace {

using math::Real;

// What is worth a call: straight lines of a few dozen instructions are inlined, so that the elements of a
// vector and neighbouring operations are scheduled together.
enum class Inline : bool { no, yes };

struct Unary {
  ScalarOp op;
  Inline f32_inlining;
  Real (*f32)(Real);
  Real (*f64)(Real);
};

struct Binary {
  ScalarOp op;
  Real (*f32)(Real, Real);
  Real (*f64)(Real, Real);
};

constexpr Unary kUnary[] = {
    {ScalarOp::exp, Inline::yes, math::f32::exp, math::f64::exp},
    {ScalarOp::exp2, Inline::yes, math::f32::exp2, math::f64::exp2},
    {ScalarOp::expm1, Inline::yes, math::f32::expm1, math::f64::expm1},
    {ScalarOp::log, Inline::yes, math::f32::log, math::f64::log},
    {ScalarOp::log1p, Inline::yes, math::f32::log1p, math::f64::log1p},
    {ScalarOp::log2, Inline::yes, math::f32::log2, math::f64::log2},
    {ScalarOp::sin, Inline::no, math::f32::sin, math::f64::sin},
    {ScalarOp::cos, Inline::no, math::f32::cos, math::f64::cos},
    {ScalarOp::tan, Inline::no, math::f32::tan, math::f64::tan},
    {ScalarOp::tanh, Inline::yes, math::f32::tanh, math::f64::tanh},
    {ScalarOp::sigmoid, Inline::yes, math::f32::sigmoid, math::f64::sigmoid},
    {ScalarOp::erf, Inline::yes, math::f32::erf, math::f64::erf},
};

constexpr Binary kBinary[] = {
    {ScalarOp::pow, math::f32::pow, math::f64::pow},
    {ScalarOp::atan2, math::f32::atan2, math::f64::atan2},
    {ScalarOp::mod, math::f32::mod, math::f64::mod},
};

const Unary* find_unary(ScalarOp op) {
  for (const Unary& f : kUnary)
    if (f.op == op) return &f;
  return nullptr;
}

const Binary* find_binary(ScalarOp op) {
  for (const Binary& f : kBinary)
    if (f.op == op) return &f;
  return nullptr;
}

}  // namespace

llvm::Function* math::define_internal(llvm::Module& m, llvm::StringRef name, llvm::FunctionType* type) {
  llvm::Function* f = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, m);
  f->setDoesNotThrow();
  f->setDoesNotAccessMemory();
  f->setWillReturn();
  llvm::BasicBlock::Create(m.getContext(), "entry", f);
  return f;
}

bool has_math_function(ScalarOp op) { return find_unary(op) != nullptr || find_binary(op) != nullptr; }

llvm::Function* math_function(llvm::Module& m, ScalarOp op, bool f64) {
  std::string name = fmt::format("bz.math.{}.{}", info(op).text, f64 ? "f64" : "f32");
  if (llvm::Function* known = m.getFunction(name)) return known;

  const Unary* unary = find_unary(op);
  const Binary* binary = find_binary(op);
  check(unary != nullptr || binary != nullptr, fmt::format("no math function for {}", info(op).text));

  llvm::LLVMContext& c = m.getContext();
  llvm::Type* type = f64 ? llvm::Type::getDoubleTy(c) : llvm::Type::getFloatTy(c);
  llvm::SmallVector<llvm::Type*, 2> parameters(unary != nullptr ? 1 : 2, type);
  llvm::Function* f = math::define_internal(m, name, llvm::FunctionType::get(type, parameters, false));
  if (unary != nullptr && !f64 && unary->f32_inlining == Inline::yes)
    f->addFnAttr(llvm::Attribute::AlwaysInline);

  math::Builder b(&f->getEntryBlock());
  Real x(b, f->getArg(0));
  Real y = unary != nullptr ? (f64 ? unary->f64 : unary->f32)(x)
                            : (f64 ? binary->f64 : binary->f32)(x, Real(b, f->getArg(1)));
  b.CreateRet(y.value());
  return f;
}

llvm::SmallVector<llvm::Value*, 8> exp_nonpositive(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x,
                                                   ExpTerms terms, llvm::Value* least) {
  const auto all = [&](Real (*f)(Real, ExpTerms)) {
    llvm::SmallVector<llvm::Value*, 8> y;
    for (llvm::Value* v : x) y.push_back(f(Real(b, v), terms).value());
    return y;
  };
  if (least == nullptr) return all(math::f32::exp_nonpositive);
  return math::branch_list(
      Real(b, least) >= -87.0, [&] { return all(math::f32::exp_to_87); },
      [&] { return all(math::f32::exp_nonpositive); });
}

namespace {

// Of elements' products with powers of two.
template <class TermOf>
Real sum_of_products(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x, TermOf&& term_of) {
  // Side by side, because each addition waits for the one before.
  constexpr std::size_t kSums = 4;
  llvm::SmallVector<Real, kSums> sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const math::f32::Term t = term_of(Real(b, x[i]));
    if (i < kSums) {
      sums.push_back(t.significand * t.power);
    } else {
      sums[i % kSums] = fma(t.significand, t.power, sums[i % kSums]);
    }
  }
  llvm::SmallVector<llvm::Value*, kSums> values;
  for (const Real& s : sums) values.push_back(s.value());
  return {b, math::fold(b, values, [](const Real& l, const Real& r) { return l + r; })};
}

}  // namespace

llvm::Value* sum_of_terms(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x, ExpTerms terms) {
  return sum_of_products(b, x,
                         [&](const Real& v) { return math::f32::term(max(v, math::f32::kLeastTerm), terms); })
      .value();
}

llvm::Value* sum_of_terms(llvm::IRBuilder<>& b, llvm::Value* pivot,
                          llvm::function_ref<Elements(llvm::Value* floor)> elements, ExpTerms terms) {
  const Real p(b, pivot);
  return math::branch(
             abs(p) <= math::f32::kFarthestPivot,
             [&] {
               const math::f32::Pivot by(p);
               const Elements x = elements((p + math::f32::kFloor).value());
               return sum_of_products(b, x, [&](const Real& v) { return by.term(v, terms); }) * by.factor();
             },
             [&] {
               return sum_of_products(b, elements(nullptr), [&](const Real& v) {
                 return math::f32::term(max(v - p, math::f32::kLeastTerm), terms);
               });
             })
      .value();
}

namespace {

math::Int is_near(const Real& pivot) { return abs(pivot) <= math::f32::kFarthestPivot; }

}  // namespace

llvm::Value* needs_no_difference(llvm::IRBuilder<>& b, llvm::Value* pivot, llvm::Value* least) {
  constexpr double kLeast = -86;
  const Real p(b, pivot);
  return (is_near(p) & (Real(b, least) - p >= kLeast)).value();
}

Elements scaled_exp(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x, llvm::Value* pivot,
                    llvm::Value* no_difference) {
  const Real p(b, pivot);
  const math::f32::Pivot by(p);
  const auto all = [&](auto&& f) {
    Elements y;
    for (llvm::Value* v : x) y.push_back(f(Real(b, v)).value());
    return y;
  };
  const auto without = [&] { return all([&](const Real& v) { return by.exp(v, ExpTerms::few); }); };
  const auto with = [&] {
    const Real last = select(is_near(p), by.inverse_factor(), 1.0) * 0x1p-64;
    return all([&](const Real& v) { return by.exp_of_difference(v, last); });
  };
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(no_difference))
    return known->isOne() ? without() : with();
  return math::branch_list(math::Int(b, no_difference), without, with);
}

llvm::Value* factor(llvm::IRBuilder<>& b, llvm::Value* pivot) {
  const Real p(b, pivot);
  return select(is_near(p), math::f32::Pivot(p).factor(), 1.0).value();
}

}  // namespace bz::emit

#include "compiler/emit/division.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

#include <cmath>

#include "compiler/emit/math_builder.h"

namespace bz::emit {

using llvm::Value;
using math::Int;
using math::Real;

// x / c = x hi + x lo with one rounding of the sum. As hi + lo has 46 bits of 1 / c, this is right unless x / c comes
// closer than 2^-46 of itself to the middle of two neighbours. Where c = m 2^k with odd m, the distance is a multiple of
// 2^-25 / m of it; in the range of normal numbers it is not 0, because a middle has 25 bits and m times it no fewer. hi
// and lo have one sign, so that zeros keep theirs and infinities meet no opposite one.
std::optional<Divisor> Divisor::of_constant(llvm::ConstantFP* c) {
  constexpr int kOddBits = 20;
  constexpr int kMostExponent = 60;
  constexpr int kLeastQuotient = -100;  // binary exponent: x lo keeps the bits that count
  const double y = c->getValueAPF().convertToFloat();
  if (!std::isfinite(y) || y == 0) return std::nullopt;
  int exponent = 0;
  double odd = std::fabs(std::frexp(y, &exponent));
  if (std::abs(exponent) > kMostExponent) return std::nullopt;
  odd = std::ldexp(odd, kOddBits);
  if (odd != std::floor(odd) || odd == std::ldexp(0.5, kOddBits))
    return std::nullopt;  // 2^k: LLVM multiplies

  const double inverse = 1 / y;
  float hi = static_cast<float>(inverse);
  if (std::fabs(hi) > std::fabs(inverse)) hi = std::nextafter(hi, 0.0F);
  const auto number = [&](double v) { return llvm::ConstantFP::get(c->getType(), v); };
  Divisor d;
  d.y_ = c;
  d.hi_ = number(hi);
  d.lo_ = number(inverse - hi);
  d.tiny_ = number(std::ldexp(1.0, exponent + kLeastQuotient));
  return d;
}

// x hi + x lo is now off by little more than half a unit, which Markstein's correction with the remainder and the
// nearest reciprocal makes right (Markstein 1990: q + r (1 / y) is the nearest quotient when q is one of the two
// neighbours of x / y, r = x - q y is exact and 1 / y is the nearest). The remainder is exact down to elements of 2^-102.
// It is formed with the other sign, so that adding a remainder of 0 leaves -0 alone.
Divisor Divisor::of_value(llvm::IRBuilder<>& b, Value* value) {
  constexpr double kLeast = 0x1p-30, kMost = 0x1p+60, kLeastQuotient = 0x1p-72;
  const Real y(b, value);
  const Real nearest = Real(b, llvm::ConstantFP::get(value->getType(), 1.0)) / y;
  const Real rest = fma(-y, nearest, 1.0);
  const Int above = rest < 0.0;
  const Real hi = (nearest.bits() - above.zext(32)).as_real();
  Divisor d;
  d.y_ = value;
  d.hi_ = hi.value();
  d.lo_ = (fma(-y, hi, 1.0) * nearest).value();
  d.nearest_ = (-nearest).value();
  d.out_of_range_ = (!((y >= kLeast) & (y <= kMost))).value();
  d.tiny_ = Real(kLeastQuotient).value(y);
  return d;
}

std::optional<Divisor> Divisor::of(llvm::IRBuilder<>& b, Value* y, bool reused) {
  if (!y->getType()->isFloatTy()) return std::nullopt;
  if (auto* c = llvm::dyn_cast<llvm::ConstantFP>(y)) return of_constant(c);
  if (!reused) return std::nullopt;
  return of_value(b, y);
}

// A quotient is uncertain where it, or by a constant its element, is small but not 0. The least of the list is looked at
// first: that takes one instruction an element. Zeros are found to be certain only then.
llvm::SmallVector<Value*, 8> Divisor::divide(llvm::IRBuilder<>& b, llvm::ArrayRef<Value*> elements) const {
  const Real hi(b, hi_), lo(b, lo_), tiny(b, tiny_);
  const bool by_constant = nearest_ == nullptr;
  llvm::SmallVector<Value*, 8> quotients, sizes;
  for (Value* element : elements) {
    const Real x(b, element);
    Real q = fma(x, hi, x * lo);
    if (!by_constant) q = fma(fma(Real(b, y_), q, -x), Real(b, nearest_), q);
    quotients.push_back(q.value());
    sizes.push_back(abs(by_constant ? x : q).value());
  }
  // NaN divided by a constant is NaN. An infinite element makes its quotient by a value NaN, and is to be divided.
  const auto uncertain = [&](Value* size) {
    return by_constant ? Real(b, size) < tiny : !(Real(b, size) >= tiny);
  };
  Int some = uncertain(math::fold(
      b, sizes, [&](const Real& l, const Real& r) { return by_constant ? min_number(l, r) : min(l, r); }));
  if (!by_constant) some = some | Int(b, out_of_range_);

  auto* fast = b.GetInsertBlock();
  llvm::Function* f = fast->getParent();
  auto* look = llvm::BasicBlock::Create(b.getContext(), "uncertain", f);
  auto* slow = llvm::BasicBlock::Create(b.getContext(), "divide", f);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "divided", f);
  llvm::MDNode* unlikely = llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights();
  b.CreateCondBr(some.value(), look, join, unlikely);
  b.SetInsertPoint(look);
  Value* any = by_constant ? b.getFalse() : out_of_range_;
  for (std::size_t i = 0; i < elements.size(); ++i)
    any = b.CreateOr(any, (uncertain(sizes[i]) & (Real(b, elements[i]) != 0.0)).value());
  b.CreateCondBr(any, slow, join, unlikely);
  b.SetInsertPoint(slow);
  llvm::SmallVector<Value*, 8> exact;
  for (Value* element : elements) exact.push_back(b.CreateFDiv(element, y_));
  b.CreateBr(join);
  b.SetInsertPoint(join);
  for (std::size_t i = 0; i < quotients.size(); ++i) {
    auto* phi = b.CreatePHI(quotients[i]->getType(), 3);
    phi->addIncoming(quotients[i], fast);
    phi->addIncoming(quotients[i], look);
    phi->addIncoming(exact[i], slow);
    quotients[i] = phi;
  }
  return quotients;
}

}  // namespace bz::emit

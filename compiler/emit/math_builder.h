// Values with operators over IRBuilder, so that the formulas of the math library read like C.
//
//   Real r = fma(n, -0.693147, x);          // doubles become constants of the type of the other operand
//   Real y = select(x > 88.0, kInf, r * 2.0);
//   Int bits = x.bits() << 23;              // the bit pattern, an integer as wide as the float
//
// Every operator emits one instruction; nothing is contracted or reassociated. A condition is an Int of one
// bit.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

namespace bz::emit::math {

using Builder = llvm::IRBuilder<>;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Real;

// An integer or, with one bit, a condition. Arithmetic wraps; comparisons are signed unless named otherwise.
class Int {
 public:
  Int(Builder& b, llvm::Value* v) : b_(&b), v_(v) {}

  llvm::Value* value() const { return v_; }
  Builder& builder() const { return *b_; }
  unsigned bits() const { return v_->getType()->getIntegerBitWidth(); }
  // A constant of this type.
  Int same(std::uint64_t c) const { return {*b_, llvm::ConstantInt::get(v_->getType(), c)}; }

  Int zext(unsigned bits) const { return {*b_, b_->CreateZExt(v_, b_->getIntNTy(bits))}; }
  Int trunc(unsigned bits) const { return {*b_, b_->CreateTrunc(v_, b_->getIntNTy(bits))}; }
  Int lshr(Int n) const { return {*b_, b_->CreateLShr(v_, n.v_)}; }
  Int lshr(std::uint64_t n) const { return lshr(same(n)); }
  Int urem(Int d) const { return {*b_, b_->CreateURem(v_, d.v_)}; }
  Int ult(Int o) const { return {*b_, b_->CreateICmpULT(v_, o.v_)}; }
  Int ult(std::uint64_t c) const { return ult(same(c)); }
  // Number of leading zero bits; the width for 0.
  Int leading_zeros() const {
    return {*b_, b_->CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, v_, b_->getFalse())};
  }

  inline Real as_real() const;                  // reinterprets 32 or 64 bits
  inline Real to_real(const Real& like) const;  // converts the signed value to the type of `like`

 private:
  Builder* b_;
  llvm::Value* v_;
};

inline Int operator+(Int a, Int b) { return {a.builder(), a.builder().CreateAdd(a.value(), b.value())}; }
inline Int operator-(Int a, Int b) { return {a.builder(), a.builder().CreateSub(a.value(), b.value())}; }
inline Int operator*(Int a, Int b) { return {a.builder(), a.builder().CreateMul(a.value(), b.value())}; }
inline Int operator&(Int a, Int b) { return {a.builder(), a.builder().CreateAnd(a.value(), b.value())}; }
inline Int operator|(Int a, Int b) { return {a.builder(), a.builder().CreateOr(a.value(), b.value())}; }
inline Int operator^(Int a, Int b) { return {a.builder(), a.builder().CreateXor(a.value(), b.value())}; }
inline Int operator<<(Int a, Int b) { return {a.builder(), a.builder().CreateShl(a.value(), b.value())}; }
inline Int operator>>(Int a, Int b) { return {a.builder(), a.builder().CreateAShr(a.value(), b.value())}; }
inline Int operator+(Int a, std::int64_t c) { return a + a.same(static_cast<std::uint64_t>(c)); }
inline Int operator-(Int a, std::int64_t c) { return a - a.same(static_cast<std::uint64_t>(c)); }
inline Int operator-(std::int64_t c, Int a) { return a.same(static_cast<std::uint64_t>(c)) - a; }
inline Int operator&(Int a, std::uint64_t c) { return a & a.same(c); }
inline Int operator|(Int a, std::uint64_t c) { return a | a.same(c); }
inline Int operator^(Int a, std::uint64_t c) { return a ^ a.same(c); }
inline Int operator<<(Int a, std::uint64_t c) { return a << a.same(c); }
inline Int operator>>(Int a, std::uint64_t c) { return a >> a.same(c); }
inline Int operator!(Int a) { return {a.builder(), a.builder().CreateNot(a.value())}; }
inline Int operator==(Int a, Int b) { return {a.builder(), a.builder().CreateICmpEQ(a.value(), b.value())}; }
inline Int operator!=(Int a, Int b) { return {a.builder(), a.builder().CreateICmpNE(a.value(), b.value())}; }
inline Int operator<(Int a, Int b) { return {a.builder(), a.builder().CreateICmpSLT(a.value(), b.value())}; }
inline Int operator==(Int a, std::int64_t c) { return a == a.same(static_cast<std::uint64_t>(c)); }
inline Int operator!=(Int a, std::int64_t c) { return a != a.same(static_cast<std::uint64_t>(c)); }
inline Int operator<(Int a, std::int64_t c) { return a < a.same(static_cast<std::uint64_t>(c)); }

inline Int select(Int c, Int a, Int b) {
  return {c.builder(), c.builder().CreateSelect(c.value(), a.value(), b.value())};
}

// A float or a double, or a constant that takes the type of the value it meets.
class Real {
 public:
  Real(double constant) : constant_(constant) {}
  Real(Builder& b, llvm::Value* v) : b_(&b), v_(v) {}

  bool is_constant() const { return v_ == nullptr; }
  Builder& builder() const { return *b_; }
  llvm::Value* value() const { return v_; }
  llvm::Type* type() const { return v_->getType(); }
  // The operand of an instruction over the type of `like`; constants are rounded to nearest.
  llvm::Value* value(const Real& like) const {
    return v_ != nullptr ? v_ : llvm::ConstantFP::get(like.type(), constant_);
  }

  Int bits() const {
    return {*b_, b_->CreateBitCast(v_, b_->getIntNTy(v_->getType()->getPrimitiveSizeInBits()))};
  }
  Real to_f64() const { return {*b_, b_->CreateFPExt(v_, b_->getDoubleTy())}; }
  Real to_f32() const { return {*b_, b_->CreateFPTrunc(v_, b_->getFloatTy())}; }

 private:
  Builder* b_ = nullptr;
  llvm::Value* v_ = nullptr;
  double constant_ = 0;
};

inline Real Int::as_real() const {
  return {*b_, b_->CreateBitCast(v_, bits() == 32 ? b_->getFloatTy() : b_->getDoubleTy())};
}
inline Real Int::to_real(const Real& like) const { return {*b_, b_->CreateSIToFP(v_, like.type())}; }

namespace detail {

inline const Real& typed(const Real& a, const Real& b) { return a.is_constant() ? b : a; }

inline Real binary(llvm::Instruction::BinaryOps op, const Real& a, const Real& b) {
  const Real& t = typed(a, b);
  return {t.builder(), t.builder().CreateBinOp(op, a.value(t), b.value(t))};
}

inline Int compare(llvm::CmpInst::Predicate p, const Real& a, const Real& b) {
  const Real& t = typed(a, b);
  return {t.builder(), t.builder().CreateFCmp(p, a.value(t), b.value(t))};
}

inline Real unary(llvm::Intrinsic::ID id, const Real& a) {
  return {a.builder(), a.builder().CreateUnaryIntrinsic(id, a.value())};
}

inline Real binary(llvm::Intrinsic::ID id, const Real& a, const Real& b) {
  const Real& t = typed(a, b);
  return {t.builder(), t.builder().CreateBinaryIntrinsic(id, a.value(t), b.value(t))};
}

}  // namespace detail

inline Real operator+(const Real& a, const Real& b) { return detail::binary(llvm::Instruction::FAdd, a, b); }
inline Real operator-(const Real& a, const Real& b) { return detail::binary(llvm::Instruction::FSub, a, b); }
inline Real operator*(const Real& a, const Real& b) { return detail::binary(llvm::Instruction::FMul, a, b); }
inline Real operator/(const Real& a, const Real& b) { return detail::binary(llvm::Instruction::FDiv, a, b); }
inline Real operator-(const Real& a) { return {a.builder(), a.builder().CreateFNeg(a.value())}; }
// Ordered comparisons: false when an operand is NaN; != is true then.
inline Int operator<(const Real& a, const Real& b) { return detail::compare(llvm::CmpInst::FCMP_OLT, a, b); }
inline Int operator<=(const Real& a, const Real& b) { return detail::compare(llvm::CmpInst::FCMP_OLE, a, b); }
inline Int operator>(const Real& a, const Real& b) { return detail::compare(llvm::CmpInst::FCMP_OGT, a, b); }
inline Int operator>=(const Real& a, const Real& b) { return detail::compare(llvm::CmpInst::FCMP_OGE, a, b); }
inline Int operator==(const Real& a, const Real& b) { return detail::compare(llvm::CmpInst::FCMP_OEQ, a, b); }
inline Int operator!=(const Real& a, const Real& b) { return detail::compare(llvm::CmpInst::FCMP_UNE, a, b); }

inline Real select(const Int& c, const Real& a, const Real& b) {
  const Real& t = detail::typed(a, b);
  return {c.builder(), c.builder().CreateSelect(c.value(), a.value(t), b.value(t))};
}
// c ? a : b of two constants, in the type of `like`.
inline Real select(const Int& c, double a, double b, const Real& like) {
  return {c.builder(), c.builder().CreateSelect(c.value(), Real(a).value(like), Real(b).value(like))};
}

// a * b + c with one rounding.
inline Real fma(const Real& a, const Real& b, const Real& c) {
  const Real& t = detail::typed(detail::typed(a, b), c);
  llvm::Value* args[] = {a.value(t), b.value(t), c.value(t)};
  return {t.builder(), t.builder().CreateIntrinsic(llvm::Intrinsic::fma, {t.type()}, args)};
}
inline Real abs(const Real& a) { return detail::unary(llvm::Intrinsic::fabs, a); }
inline Real trunc(const Real& a) { return detail::unary(llvm::Intrinsic::trunc, a); }
inline Real copysign(const Real& a, const Real& sign) {
  return detail::binary(llvm::Intrinsic::copysign, a, sign);
}
// Smaller and larger of two; NaN if either is.
inline Real min(const Real& a, const Real& b) { return detail::binary(llvm::Intrinsic::minimum, a, b); }
inline Real max(const Real& a, const Real& b) { return detail::binary(llvm::Intrinsic::maximum, a, b); }
// Smaller of two; the other if one is NaN.
inline Real min_number(const Real& a, const Real& b) { return detail::binary(llvm::Intrinsic::minnum, a, b); }

// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
inline Real polynomial(const Real& x, std::span<const double> c) {
  Real y = c.back();
  for (std::size_t i = c.size() - 1; i-- > 0;) y = fma(x, y, c[i]);
  return y;
}
inline Real polynomial(const Real& x, std::initializer_list<double> c) {
  return polynomial(x, std::span<const double>(c.begin(), c.size()));
}

// All of a list as one, pairwise.
template <class F>
llvm::Value* fold(Builder& b, llvm::ArrayRef<llvm::Value*> values, F combine) {
  llvm::SmallVector<llvm::Value*, 16> v(values);
  while (v.size() > 1) {
    std::size_t n = 0;
    for (std::size_t i = 0; i + 1 < v.size(); i += 2)
      v[n++] = combine(Real(b, v[i]), Real(b, v[i + 1])).value();
    if (v.size() % 2 == 1) v[n++] = v.back();
    v.resize(n);
  }
  return v.front();
}

// Emits a branch: the values of `then()` where `c` holds, of `otherwise()` elsewhere; lists of one length.
template <class Then, class Otherwise>
llvm::SmallVector<llvm::Value*, 8> branch_list(Int c, Then then, Otherwise otherwise) {
  Builder& b = c.builder();
  llvm::Function* f = b.GetInsertBlock()->getParent();
  auto* then_block = llvm::BasicBlock::Create(b.getContext(), "then", f);
  auto* else_block = llvm::BasicBlock::Create(b.getContext(), "else", f);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "done", f);
  b.CreateCondBr(c.value(), then_block, else_block);

  b.SetInsertPoint(then_block);
  llvm::SmallVector<llvm::Value*, 8> x = then();
  then_block = b.GetInsertBlock();
  b.CreateBr(done);
  b.SetInsertPoint(else_block);
  llvm::SmallVector<llvm::Value*, 8> y = otherwise();
  else_block = b.GetInsertBlock();
  b.CreateBr(done);

  b.SetInsertPoint(done);
  for (std::size_t i = 0; i < x.size(); ++i) {
    llvm::PHINode* phi = b.CreatePHI(x[i]->getType(), 2);
    phi->addIncoming(x[i], then_block);
    phi->addIncoming(y[i], else_block);
    x[i] = phi;
  }
  return x;
}

// The same of one value.
template <class Then, class Otherwise>
Real branch(Int c, Then then, Otherwise otherwise) {
  using List = llvm::SmallVector<llvm::Value*, 8>;
  return {c.builder(),
          branch_list(
              c, [&] { return List{then().value()}; }, [&] { return List{otherwise().value()}; })[0]};
}

}  // namespace bz::emit::math

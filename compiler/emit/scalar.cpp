#include "compiler/emit/scalar.h"

#include <llvm/IR/Intrinsics.h>

#include "compiler/emit/math.h"
#include "support/error.h"

namespace bz::emit {
namespace {

using llvm::Value;
using llvm::Intrinsic::ID;

Value* unary(llvm::IRBuilder<>& b, ID id, Value* x) { return b.CreateUnaryIntrinsic(id, x); }
Value* binary(llvm::IRBuilder<>& b, ID id, Value* x, Value* y) { return b.CreateBinaryIntrinsic(id, x, y); }
Value* number(Value* like, double v) { return llvm::ConstantFP::get(like->getType(), v); }
Value* infinity(Value* like) { return llvm::ConstantFP::getInfinity(like->getType()); }

// Division of integers rounding down; 0 for a divisor of 0, wrapping for -1.
Value* floor_divide(llvm::IRBuilder<>& b, Value* x, Value* y, bool remainder) {
  llvm::Type* t = x->getType();
  Value* zero = llvm::ConstantInt::get(t, 0);
  Value* one = llvm::ConstantInt::get(t, 1);
  Value* by_zero = b.CreateICmpEQ(y, zero);
  Value* by_minus_one = b.CreateICmpEQ(y, llvm::ConstantInt::getAllOnesValue(t));
  Value* safe = b.CreateSelect(b.CreateOr(by_zero, by_minus_one), one, y);
  Value* q = b.CreateSDiv(x, safe);
  Value* r = b.CreateSub(x, b.CreateMul(q, safe));
  Value* down = b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpSLT(b.CreateXor(r, safe), zero));
  if (remainder) {
    Value* m = b.CreateSelect(down, b.CreateAdd(r, safe), r);
    return b.CreateSelect(b.CreateOr(by_zero, by_minus_one), zero, m);
  }
  Value* d = b.CreateSelect(down, b.CreateSub(q, one), q);
  d = b.CreateSelect(by_minus_one, b.CreateNeg(x), d);
  return b.CreateSelect(by_zero, zero, d);
}

Value* compare(llvm::IRBuilder<>& b, ScalarOp op, Value* x, Value* y, DType t) {
  using P = llvm::CmpInst::Predicate;
  const auto pick = [&](P floating, P integer) {
    return is_float(t) ? b.CreateFCmp(floating, x, y) : b.CreateICmp(integer, x, y);
  };
  switch (op) {
    case ScalarOp::eq: return pick(P::FCMP_OEQ, P::ICMP_EQ);
    case ScalarOp::ne: return pick(P::FCMP_UNE, P::ICMP_NE);
    case ScalarOp::lt: return pick(P::FCMP_OLT, P::ICMP_SLT);
    case ScalarOp::le: return pick(P::FCMP_OLE, P::ICMP_SLE);
    case ScalarOp::gt: return pick(P::FCMP_OGT, P::ICMP_SGT);
    default: return pick(P::FCMP_OGE, P::ICMP_SGE);
  }
}

// f64 to f32 with the last bit standing for all that is lost, so that rounding again to fewer bits rounds once.
Value* narrow_to_odd(llvm::IRBuilder<>& b, Value* x) {
  Value* f = b.CreateFPTrunc(x, b.getFloatTy());
  Value* back = b.CreateFPExt(f, b.getDoubleTy());
  Value* bits = b.CreateBitCast(f, b.getInt32Ty());
  Value* above = b.CreateFCmpOGT(unary(b, llvm::Intrinsic::fabs, back), unary(b, llvm::Intrinsic::fabs, x));
  Value* inexact = b.CreateFCmpONE(back, x);
  Value* towards_zero = b.CreateSub(bits, b.CreateZExt(above, b.getInt32Ty()));
  return b.CreateBitCast(b.CreateOr(towards_zero, b.CreateZExt(inexact, b.getInt32Ty())), b.getFloatTy());
}

Value* bf16_bits(llvm::IRBuilder<>& b, Value* f) {
  Value* bits = b.CreateBitCast(f, b.getInt32Ty());
  Value* even = b.CreateAnd(b.CreateLShr(bits, 16), b.getInt32(1));
  Value* rounded = b.CreateLShr(b.CreateAdd(bits, b.CreateAdd(even, b.getInt32(0x7fff))), 16);
  Value* quiet = b.CreateOr(b.CreateLShr(bits, 16), b.getInt32(0x40));
  return b.CreateTrunc(b.CreateSelect(b.CreateFCmpUNO(f, f), quiet, rounded), b.getInt16Ty());
}

Value* bf16_float(llvm::IRBuilder<>& b, Value* bits) {
  return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, b.getInt32Ty()), 16), b.getFloatTy());
}

}  // namespace

llvm::Type* value_type(llvm::LLVMContext& c, DType t) {
  switch (t) {
    case DType::f32: return llvm::Type::getFloatTy(c);
    case DType::f16: return llvm::Type::getHalfTy(c);
    case DType::bf16: return llvm::Type::getInt16Ty(c);
    case DType::f64: return llvm::Type::getDoubleTy(c);
    case DType::i32: return llvm::Type::getInt32Ty(c);
    case DType::i64: return llvm::Type::getInt64Ty(c);
    case DType::boolean: return llvm::Type::getInt1Ty(c);
  }
  return nullptr;
}

llvm::Type* memory_type(llvm::LLVMContext& c, DType t) {
  return t == DType::boolean ? llvm::Type::getInt8Ty(c) : value_type(c, t);
}

llvm::Constant* constant(llvm::LLVMContext& c, const Scalar& s) {
  llvm::Type* t = value_type(c, s.dtype);
  if (is_float(s.dtype)) return llvm::ConstantFP::get(t, s.f);
  return llvm::ConstantInt::get(t, static_cast<std::uint64_t>(s.i), true);
}

Value* cast(llvm::IRBuilder<>& b, Value* x, DType from, DType to) {
  if (from == to) return x;
  if (from == DType::bf16) return cast(b, bf16_float(b, x), DType::f32, to);
  if (from == DType::f16 && to != DType::f64)
    return cast(b, b.CreateFPExt(x, b.getFloatTy()), DType::f32, to);
  llvm::LLVMContext& c = b.getContext();
  if (to == DType::boolean) {
    return is_float(from) ? b.CreateFCmpUNE(x, number(x, 0))
                          : b.CreateICmpNE(x, llvm::ConstantInt::get(x->getType(), 0));
  }
  if (is_float(from) && is_integer(to)) {
    return b.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {value_type(c, to), x->getType()}, {x});
  }
  if (to == DType::f16 || to == DType::bf16) {
    if (!is_float(from)) x = cast(b, x, from, from == DType::boolean ? DType::f32 : DType::f64);
    if (x->getType()->isDoubleTy()) x = narrow_to_odd(b, x);
    if (to == DType::f16) return b.CreateFPTrunc(x, b.getHalfTy());
    return b.CreateTrunc(pack_bf16(b, x, number(x, 0)), b.getInt16Ty());
  }
  if (is_float(from))
    return to == DType::f64 ? b.CreateFPExt(x, b.getDoubleTy()) : b.CreateFPTrunc(x, b.getFloatTy());
  if (is_float(to)) {
    return from == DType::boolean ? b.CreateUIToFP(x, value_type(c, to))
                                  : b.CreateSIToFP(x, value_type(c, to));
  }
  return from == DType::boolean ? b.CreateZExt(x, value_type(c, to))
                                : b.CreateSExtOrTrunc(x, value_type(c, to));
}

Value* pack_bf16(llvm::IRBuilder<>& b, Value* lo, Value* hi) {
  llvm::Module& m = *b.GetInsertBlock()->getModule();
  llvm::Function* f = m.getFunction(kPackBf16);
  if (f == nullptr) {
    auto* type = llvm::FunctionType::get(b.getInt32Ty(), {b.getFloatTy(), b.getFloatTy()}, false);
    f = llvm::Function::Create(type, llvm::Function::InternalLinkage, kPackBf16, m);
    f->addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::IRBuilder<> body(llvm::BasicBlock::Create(m.getContext(), "entry", f));
    Value* low = body.CreateZExt(bf16_bits(body, f->getArg(0)), body.getInt32Ty());
    Value* high = body.CreateZExt(bf16_bits(body, f->getArg(1)), body.getInt32Ty());
    body.CreateRet(body.CreateOr(low, body.CreateShl(high, 16)));
  }
  return b.CreateCall(f, {lo, hi});
}

Value* from_memory(llvm::IRBuilder<>& b, Value* x, DType t) {
  if (t == DType::boolean) return b.CreateICmpNE(x, b.getInt8(0));
  return cast(b, x, t, compute_dtype(t));
}

Value* to_memory(llvm::IRBuilder<>& b, Value* x, DType value, DType stored) {
  if (stored == DType::boolean) return b.CreateZExt(x, b.getInt8Ty());
  return cast(b, x, value, stored);
}

Value* apply(llvm::IRBuilder<>& b, ScalarOp op, llvm::ArrayRef<Value*> args, llvm::ArrayRef<DType> types,
             DType result) {
  namespace I = llvm::Intrinsic;
  Value* x = args[0];
  Value* y = args.size() > 1 ? args[1] : nullptr;
  Value* z = args.size() > 2 ? args[2] : nullptr;
  const DType t = types[0];
  const bool floating = is_float(t);
  if (has_math_function(op) && floating) {
    return b.CreateCall(math_function(*b.GetInsertBlock()->getModule(), op, t == DType::f64), args);
  }
  switch (op) {
    case ScalarOp::neg: return floating ? b.CreateFNeg(x) : b.CreateNeg(x);
    case ScalarOp::abs: return floating ? unary(b, I::fabs, x) : binary(b, I::abs, x, b.getFalse());
    case ScalarOp::sqrt: return unary(b, I::sqrt, x);
    case ScalarOp::rsqrt: return b.CreateFDiv(number(x, 1), unary(b, I::sqrt, x));
    case ScalarOp::reciprocal: return b.CreateFDiv(number(x, 1), x);
    case ScalarOp::floor: return unary(b, I::floor, x);
    case ScalarOp::ceil: return unary(b, I::ceil, x);
    case ScalarOp::round: return unary(b, I::roundeven, x);
    case ScalarOp::trunc: return unary(b, I::trunc, x);
    case ScalarOp::sign:
      if (floating) {
        Value* keeps = b.CreateFCmpUEQ(x, number(x, 0));  // zeros and NaN
        return b.CreateSelect(keeps, x, binary(b, I::copysign, number(x, 1), x));
      } else {
        Value* zero = llvm::ConstantInt::get(x->getType(), 0);
        return b.CreateSub(b.CreateZExt(b.CreateICmpSGT(x, zero), x->getType()),
                           b.CreateZExt(b.CreateICmpSLT(x, zero), x->getType()));
      }
    case ScalarOp::isnan: return b.CreateFCmpUNO(x, x);
    case ScalarOp::isinf: return b.CreateFCmpOEQ(unary(b, I::fabs, x), infinity(x));
    case ScalarOp::isfinite: return b.CreateFCmpOLT(unary(b, I::fabs, x), infinity(x));
    case ScalarOp::logical_not: return b.CreateNot(x);
    case ScalarOp::add: return floating ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
    case ScalarOp::sub: return floating ? b.CreateFSub(x, y) : b.CreateSub(x, y);
    case ScalarOp::mul: return floating ? b.CreateFMul(x, y) : b.CreateMul(x, y);
    case ScalarOp::div: return b.CreateFDiv(x, y);
    case ScalarOp::floordiv:
      return floating ? unary(b, I::floor, b.CreateFDiv(x, y)) : floor_divide(b, x, y, false);
    case ScalarOp::mod: return floor_divide(b, x, y, true);
    case ScalarOp::max: return binary(b, floating ? I::maximum : I::smax, x, y);
    case ScalarOp::min: return binary(b, floating ? I::minimum : I::smin, x, y);
    case ScalarOp::logical_and: return b.CreateAnd(x, y);
    case ScalarOp::logical_or: return b.CreateOr(x, y);
    case ScalarOp::logical_xor: return b.CreateXor(x, y);
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::gt:
    case ScalarOp::ge: return compare(b, op, x, y, t);
    case ScalarOp::select: return b.CreateSelect(x, y, z);
    case ScalarOp::clamp:
      return floating ? binary(b, I::minimum, binary(b, I::maximum, x, y), z)
                      : binary(b, I::smin, binary(b, I::smax, x, y), z);
    case ScalarOp::fma: return b.CreateIntrinsic(I::fma, {x->getType()}, {x, y, z});
    case ScalarOp::cast: return cast(b, x, t, result);
    case ScalarOp::exp:
    case ScalarOp::exp2:
    case ScalarOp::expm1:
    case ScalarOp::log:
    case ScalarOp::log1p:
    case ScalarOp::log2:
    case ScalarOp::sin:
    case ScalarOp::cos:
    case ScalarOp::tan:
    case ScalarOp::tanh:
    case ScalarOp::sigmoid:
    case ScalarOp::erf:
    case ScalarOp::pow:
    case ScalarOp::atan2: break;
  }
  throw InternalError("no instruction for op " + std::string(info(op).text));
}

}  // namespace bz::emit

#include "compiler/emit/pairs.h"

#include <llvm/IR/Instructions.h>

#include <algorithm>

#include "compiler/emit/scalar.h"

namespace bz::emit {
namespace {

using llvm::Value;

struct Extremum {
  ScalarOp op;
  DType dtype;
  const char* name;
};
constexpr Extremum kExtrema[] = {{ScalarOp::max, DType::bf16, "bz.max.bf16x2"},
                                 {ScalarOp::min, DType::bf16, "bz.min.bf16x2"},
                                 {ScalarOp::max, DType::f16, "bz.max.f16x2"},
                                 {ScalarOp::min, DType::f16, "bz.min.f16x2"}};

llvm::Intrinsic::ID intrinsic(ScalarOp op) {
  return op == ScalarOp::max ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum;
}

// The halves as f32, the result back: it is one of the two, so nothing is rounded.
llvm::Function* define(llvm::Module& m, const Extremum& e) {
  llvm::Type* word = llvm::Type::getInt32Ty(m.getContext());
  auto* f = llvm::Function::Create(llvm::FunctionType::get(word, {word, word}, false),
                                   llvm::Function::InternalLinkage, e.name, m);
  f->addFnAttr(llvm::Attribute::AlwaysInline);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(m.getContext(), "entry", f));
  const Pairs x{e.dtype, {f->getArg(0)}}, y{e.dtype, {f->getArg(1)}};
  Value* halves[2];
  for (int i = 0; i < 2; ++i) {
    Value* best = b.CreateBinaryIntrinsic(intrinsic(e.op), unpack(b, x, i), unpack(b, y, i));
    if (e.dtype == DType::bf16) {
      halves[i] = b.CreateLShr(b.CreateBitCast(best, word), 16);
    } else {
      Value* half = b.CreateBitCast(b.CreateFPTrunc(best, b.getHalfTy()), b.getInt16Ty());
      halves[i] = b.CreateZExt(half, word);
    }
  }
  b.CreateRet(b.CreateOr(halves[0], b.CreateShl(halves[1], 16)));
  return f;
}

}  // namespace

Value* unpack(llvm::IRBuilder<>& b, const Pairs& pairs, int lane) {
  Value* word = pairs.words[static_cast<std::size_t>(lane / 2)];
  const bool high = lane % 2 == 1;
  if (pairs.dtype == DType::bf16) {
    Value* bits = high ? b.CreateAnd(word, b.getInt32(0xffff0000)) : b.CreateShl(word, 16);
    return b.CreateBitCast(bits, b.getFloatTy());
  }
  Value* bits = b.CreateTrunc(high ? b.CreateLShr(word, 16) : word, b.getInt16Ty());
  return b.CreateFPExt(b.CreateBitCast(bits, b.getHalfTy()), b.getFloatTy());
}

std::optional<Pairs> select(llvm::IRBuilder<>& b, Value* condition, const Pairs& pairs, Value* value) {
  const auto* constant = llvm::dyn_cast<llvm::ConstantFP>(value);
  if (constant == nullptr) return std::nullopt;
  llvm::APFloat narrow = constant->getValueAPF();
  bool inexact = false;
  narrow.convert(pairs.dtype == DType::bf16 ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                 llvm::APFloat::rmNearestTiesToEven, &inexact);
  if (inexact) return std::nullopt;
  const auto half = static_cast<std::uint32_t>(narrow.bitcastToAPInt().getZExtValue());
  Pairs out{pairs.dtype, {}};
  for (Value* word : pairs.words)
    out.words.push_back(b.CreateSelect(condition, word, b.getInt32(half << 16 | half)));
  return out;
}

Pairs at_least(llvm::IRBuilder<>& b, const Pairs& pairs, Value* floor) {
  Value* word = nullptr;
  if (pairs.dtype == DType::bf16) {
    word = pack_bf16(b, floor, floor);
  } else {
    Value* half = b.CreateBitCast(b.CreateFPTrunc(floor, b.getHalfTy()), b.getInt16Ty());
    word = b.CreateZExt(half, b.getInt32Ty());
    word = b.CreateOr(word, b.CreateShl(word, 16));
  }
  Pairs out{pairs.dtype, {}};
  for (Value* w : pairs.words) out.words.push_back(extremum(b, ScalarOp::max, pairs.dtype, w, word));
  return out;
}

bool is_extremum(ScalarOp op) { return op == ScalarOp::max || op == ScalarOp::min; }

Value* extremum(llvm::IRBuilder<>& b, ScalarOp op, DType dtype, Value* x, Value* y) {
  llvm::Module& m = *b.GetInsertBlock()->getModule();
  const Extremum& e =
      *llvm::find_if(kExtrema, [&](const Extremum& k) { return k.op == op && k.dtype == dtype; });
  llvm::Function* f = m.getFunction(e.name);
  return b.CreateCall(f != nullptr ? f : define(m, e), {x, y});
}

Pairs extremum(llvm::IRBuilder<>& b, ScalarOp op, const Pairs& x, const Pairs& y) {
  Pairs out{x.dtype, {}};
  for (std::size_t i = 0; i < x.words.size(); ++i)
    out.words.push_back(extremum(b, op, x.dtype, x.words[i], y.words[i]));
  return out;
}

Value* extremum_of(llvm::IRBuilder<>& b, ScalarOp op, llvm::ArrayRef<const Pairs*> all) {
  Pairs last{all[0]->dtype, {}};
  auto& words = last.words;
  for (const Pairs* pairs : all) words.append(pairs->words);
  while (words.size() > 1) {  // by threes, for which there is an instruction
    std::size_t n = 0;
    for (std::size_t i = 0; i < words.size(); i += 3) {
      Value* best = words[i];
      for (std::size_t j = i + 1; j < std::min(i + 3, words.size()); ++j)
        best = extremum(b, op, last.dtype, best, words[j]);
      words[n++] = best;
    }
    words.resize(n);
  }
  return b.CreateBinaryIntrinsic(intrinsic(op), unpack(b, last, 0), unpack(b, last, 1));
}

void bind_extrema(llvm::Module& m) {
  for (const Extremum& e : kExtrema) {
    llvm::Function* f = m.getFunction(e.name);
    if (f == nullptr) continue;
    llvm::LLVMContext& c = m.getContext();
    auto* pair = llvm::FixedVectorType::get(
        e.dtype == DType::bf16 ? llvm::Type::getBFloatTy(c) : llvm::Type::getHalfTy(c), 2);
    f->deleteBody();
    f->setLinkage(llvm::GlobalValue::InternalLinkage);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(c, "entry", f));
    Value* best = b.CreateBinaryIntrinsic(intrinsic(e.op), b.CreateBitCast(f->getArg(0), pair),
                                          b.CreateBitCast(f->getArg(1), pair));
    b.CreateRet(b.CreateBitCast(best, b.getInt32Ty()));
  }
}

}  // namespace bz::emit

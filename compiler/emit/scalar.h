// Scalar operations as LLVM instructions.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "ir/ops.h"

namespace bz::emit {

// Types of values in registers: i1 for bool; f16 as half, bf16 as its bits in an i16 (both only between a cast and the
// next); in memory bool is i8.
llvm::Type* value_type(llvm::LLVMContext& c, DType t);
llvm::Type* memory_type(llvm::LLVMContext& c, DType t);

llvm::Constant* constant(llvm::LLVMContext& c, const Scalar& s);

// `types`: of the operands.
llvm::Value* apply(llvm::IRBuilder<>& b, ScalarOp op, llvm::ArrayRef<llvm::Value*> args,
                   llvm::ArrayRef<DType> types, DType result);
llvm::Value* cast(llvm::IRBuilder<>& b, llvm::Value* x, DType from, DType to);
// Two f32 rounded to bf16 and packed, `lo` in the low half: a call of @bz.bf16x2, which the module defines in integer
// arithmetic and the PTX step replaces by the instruction where there is one.
llvm::Value* pack_bf16(llvm::IRBuilder<>& b, llvm::Value* lo, llvm::Value* hi);
inline constexpr const char* kPackBf16 = "bz.bf16x2";
// Between memory_type and value_type of a storage type; f16 and bf16 become f32 in `load`.
llvm::Value* from_memory(llvm::IRBuilder<>& b, llvm::Value* x, DType t);
llvm::Value* to_memory(llvm::IRBuilder<>& b, llvm::Value* x, DType value, DType stored);

}  // namespace bz::emit

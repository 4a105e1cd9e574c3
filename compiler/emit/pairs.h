// Numbers of 16 bits that stay two to a register, as memory has them, until something needs them as f32. The larger and
// the smaller of two are exact in 16 bits, and one instruction takes them for both halves.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <optional>

#include "ir/ops.h"

namespace bz::emit {

struct Pairs {
  DType dtype = DType::bf16;                 // or f16
  llvm::SmallVector<llvm::Value*, 4> words;  // i32 each: lane 2i in the low half, lane 2i + 1 in the high one
};

constexpr bool comes_in_pairs(DType t) { return t == DType::bf16 || t == DType::f16; }

// One lane as f32.
llvm::Value* unpack(llvm::IRBuilder<>& b, const Pairs& pairs, int lane);

// All lanes of `pairs` where the condition holds, else `value` in each lane; nullopt where `value` is no constant of 16 bits.
std::optional<Pairs> select(llvm::IRBuilder<>& b, llvm::Value* condition, const Pairs& pairs,
                            llvm::Value* value);
// Each lane or `floor`, an f32 that is rounded, whichever is larger.
Pairs at_least(llvm::IRBuilder<>& b, const Pairs& pairs, llvm::Value* floor);

// max or min of two words half by half, as ScalarOp has them: NaN if either is, +0 above -0. A call of a function that the module
// defines over f32 and the PTX step replaces by the instruction where there is one.
bool is_extremum(ScalarOp op);
llvm::Value* extremum(llvm::IRBuilder<>& b, ScalarOp op, DType dtype, llvm::Value* x, llvm::Value* y);
Pairs extremum(llvm::IRBuilder<>& b, ScalarOp op, const Pairs& x, const Pairs& y);
// Of all lanes of all, as f32.
llvm::Value* extremum_of(llvm::IRBuilder<>& b, ScalarOp op, llvm::ArrayRef<const Pairs*> all);

// Makes the calls instructions, for targets that have them (sm_80 and newer).
void bind_extrema(llvm::Module& m);

}  // namespace bz::emit

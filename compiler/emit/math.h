// The device math library: exp, tanh, pow, ... as LLVM IR that every backend compiles alike, so that a GPU
// and the simulator give the same bits. Nothing outside the module is called: no libdevice, no libm.
//
//   if (has_math_function(ScalarOp::tanh))
//     y = builder.CreateCall(math_function(module, ScalarOp::tanh, /*f64=*/false), {x});  // @bz.math.tanh.f32
//
// Errors are at most 2 ulp in f32 and 4 ulp in f64 for every input, subnormal and huge ones included;
// infinities, NaN and signed zeros follow C99 Annex F. The bodies need IEEE arithmetic: a backend must
// neither contract multiplications and additions into fma (TargetOptions::AllowFPOpFusion = Strict) nor flush
// subnormals.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "ir/ops.h"

namespace bz::emit {

// True for the operations that math_function() defines; the others are single LLVM instructions or
// intrinsics. mod is defined for floating operands only.
bool has_math_function(ScalarOp op);

// Returns the internal function `bz.math.<op>.<f32|f64>` of `m` (operands and result are of that type), with
// its body, creating it on first use. has_math_function(op) must hold.
llvm::Function* math_function(llvm::Module& m, ScalarOp op, bool f64);

// exp in f32 of arguments that are never above 0 (NaN stays NaN); a larger one gives anything. The elements of a list share
// a branch: where `least`, the least of them (NaN if one is), is not below -87, which results that are subnormal or 0 need, they
// take fewer instructions. Without it there is no branch. The bits of an element do not depend on the others. With few terms the error
// is 1.86 ulp, otherwise 0.88.
enum class ExpTerms : std::uint8_t { many, few };
llvm::SmallVector<llvm::Value*, 8> exp_nonpositive(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x,
                                                   ExpTerms terms, llvm::Value* least = nullptr);

// The sum of exp in f32 of some x, none above kHighestTerm (NaN stays NaN): terms of a sum that is at least 1 where any number is in it. A
// term below -87 counts as exp(-87), and the others, with the errors above, err by another 0.032 ulp for each power of two that
// they are below 1: what is summed has no use for more.
llvm::Value* sum_of_terms(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x, ExpTerms terms);
// The same of exp(x - pivot) for x of 16 bits, with few instructions as long as the pivot is not huge: no difference is taken, a term
// below -56, give or take 16, counts as one of that size, and all are scaled by one more exponential, which errs by another 1.9 ulp.
// `elements(floor)` are the x or, in pairs, `floor` where that is larger;
// nullptr: as they are.
using Elements = llvm::SmallVector<llvm::Value*, 8>;
llvm::Value* sum_of_terms(llvm::IRBuilder<>& b, llvm::Value* pivot,
                          llvm::function_ref<Elements(llvm::Value* floor)> elements, ExpTerms terms);

// exp(x - pivot) / factor(pivot) of a list, for what is rounded to 16 bits: with that factor the error is 8 ulp at most, of exp of the
// rounded difference where one is taken. No x is above the pivot, unless one is NaN. The factor is between 0.7 and 1.42. No difference is
// needed where the pivot is not huge and `least`, which no x is below, is not more than 86 below it: `no_difference` says so, of all x.
llvm::Value* needs_no_difference(llvm::IRBuilder<>& b, llvm::Value* pivot, llvm::Value* least);
Elements scaled_exp(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> x, llvm::Value* pivot,
                    llvm::Value* no_difference);
llvm::Value* factor(llvm::IRBuilder<>& b, llvm::Value* pivot);

// Under fast_math, in f32: the operations for which has_fast_math() holds (those with a fast_error) as a few instructions.
// docs/numerics.md has their bounds. Approximate instructions are calls of the internal functions below, which the module
// defines with the exact function, subnormal numbers counted as 0 where the instruction does; the PTX step replaces them.
bool has_fast_math(ScalarOp op);
llvm::Value* fast_math(llvm::IRBuilder<>& b, ScalarOp op, llvm::ArrayRef<llvm::Value*> args);

namespace approximate {
inline constexpr const char *kEx2 = "bz.approx.ex2", *kLg2 = "bz.approx.lg2", *kSin = "bz.approx.sin",
                            *kCos = "bz.approx.cos", *kTanh = "bz.approx.tanh", *kRcp = "bz.approx.rcp",
                            *kSqrt = "bz.approx.sqrt", *kRsqrt = "bz.approx.rsqrt";
}

}  // namespace bz::emit

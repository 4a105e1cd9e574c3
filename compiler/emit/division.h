// Exact division in f32 of several elements by one number, without the division instruction: that checks the range of
// every element by itself, and its branch keeps elements from being interleaved.
//
//   if (const auto d = Divisor::of(builder, y, /*reused=*/true))
//     quotients = d->divide(builder, elements);
//
// The quotients have the bits of fdiv for every element, subnormal, infinite and NaN ones included. Elements for which
// the short way is not exact, tiny ones above all, send the whole list into a branch that divides.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>

#include <optional>

namespace bz::emit {

class Divisor {
 public:
  // Nothing when the division instruction is to be used: for other types, for constants without a proof, and for
  // values that divide too few elements (not `reused`) to earn their reciprocal.
  static std::optional<Divisor> of(llvm::IRBuilder<>& b, llvm::Value* y, bool reused);

  llvm::SmallVector<llvm::Value*, 8> divide(llvm::IRBuilder<>& b,
                                            llvm::ArrayRef<llvm::Value*> elements) const;

 private:
  Divisor() = default;
  static std::optional<Divisor> of_constant(llvm::ConstantFP* c);
  static Divisor of_value(llvm::IRBuilder<>& b, llvm::Value* y);

  llvm::Value* y_ = nullptr;
  llvm::Value* hi_ = nullptr;  // 1 / y rounded towards 0
  llvm::Value* lo_ = nullptr;  // 1 / y - hi, rounded
  llvm::Value* nearest_ =
      nullptr;  // 1 / y rounded to nearest, to correct the quotient with; none for a constant
  llvm::Value* out_of_range_ = nullptr;  // y is not what the proof asks for; none for a constant
  llvm::Value* tiny_ = nullptr;  // smaller elements, by a constant, or quotients are not proved to be exact
};

}  // namespace bz::emit

// The bodies of the math library, one function an operation and precision, for math.cpp to wrap. Each emits
// its formula at the builder's place and leaves the builder where the result is live.
#pragma once

#include <llvm/IR/Module.h>

#include "compiler/emit/math.h"
#include "compiler/emit/math_builder.h"

namespace bz::emit::math {

// A new internal function of `m` that touches no memory, with an empty entry block.
llvm::Function* define_internal(llvm::Module& m, llvm::StringRef name, llvm::FunctionType* type);

// |x|^y with the sign that x and y give it and the special values of C99 Annex F. `magnitude` is |x|^y wherever |x| is not 1
// and y not 0.
Real with_pow_specials(Real x, Real y, Real magnitude);

namespace f32 {
Real exp(Real x);
Real exp_nonpositive(Real x, ExpTerms terms);
Real exp_to_87(Real x, ExpTerms terms);
// exp(x) as a product, for x from kLeastTerm to 80 or NaN.
inline constexpr double kLeastTerm = -87;
struct Term {
  Real significand, power;
};
Term term(Real x, ExpTerms terms);
// exp(x - p) = 2^-k exp(x) exp(k ln 2 - p) for the integer k nearest p / ln 2: the last factor is the same for all x, and no
// difference is taken. Of p up to kFarthestPivot and x from p + kLeastTerm on. So far bf16 rounds p + kFloor by 16 at most, and 2^31
// terms of exp(-40) do not change a sum of 1.
inline constexpr double kFarthestPivot = 0x1p12, kFloor = -56;
class Pivot {
 public:
  explicit Pivot(Real p);
  Term term(Real x, ExpTerms terms) const;  // without the factor
  Real exp(Real x, ExpTerms terms) const;   // as well, as one number: of x from p - 86 to p
  Real factor() const;
  // exp(x - p) times `last` / 2^64, of any x up to p: for what is rounded to 16 bits.
  Real exp_of_difference(Real x, Real last) const;
  Real inverse_factor() const;

 private:
  Real p_, k_;
};
Real exp2(Real x);
Real expm1(Real x);
Real log(Real x);
Real log1p(Real x);
Real log2(Real x);
Real sin(Real x);
Real cos(Real x);
Real tan(Real x);
Real tanh(Real x);
Real sigmoid(Real x);
Real erf(Real x);
Real pow(Real x, Real y);
Real atan2(Real y, Real x);
Real mod(Real a, Real b);
}  // namespace f32

namespace f64 {
Real exp(Real x);
Real exp2(Real x);
Real expm1(Real x);
Real log(Real x);
Real log1p(Real x);
Real log2(Real x);
Real sin(Real x);
Real cos(Real x);
Real tan(Real x);
Real tanh(Real x);
Real sigmoid(Real x);
Real erf(Real x);
Real pow(Real x, Real y);
Real atan2(Real y, Real x);
Real mod(Real a, Real b);
}  // namespace f64

}  // namespace bz::emit::math

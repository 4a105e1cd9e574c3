// Exponentials, logarithms and their kin in f32. Fused kernels are bound by the instructions they issue, so
// these are straight lines of few instructions: no branch, no table, no division instruction (whose range
// check is a branch on a GPU and keeps the elements of a vector from being interleaved). Coefficients are
// minimax (Remez exchange on the relative error of the result, each coefficient rounded to f32 and the rest
// fitted again).
#include "compiler/emit/math_functions.h"

namespace bz::emit::math::f32 {
namespace {

constexpr double kLog2e = 0x1.715476p+0;
constexpr double kLn2Hi = 0x1.62e430p-1;  // nearest f32, above ln 2
constexpr double kLn2Lo = -0x1.05c610p-29;

// Adding kRound leaves the nearest integer n in the low bits of the sum; kRoundBiased leaves n + 127, so that
// shifting the sum's bits left by 23 gives 2^n.
constexpr double kRound = 0x1.8p+23;
constexpr double kRoundBiased = kRound + 127;

Real power_of_two(Real biased) { return (biased.bits() << 23).as_real(); }

// exp(x) for x in [-104, 89] or NaN. Reducing by 2 ln 2 instead of ln 2 costs one more coefficient and saves
// splitting the exponent: with n = 2h both factors 2^h are normal even where the result is not.
Real exp_in_range(Real x) {
  Real t = fma(x, kLog2e / 2, kRoundBiased);
  Real h = t - kRoundBiased;
  Real r = fma(h, -2 * kLn2Lo, fma(h, -2 * kLn2Hi, x));
  Real p = polynomial(r, {1.0, 1.0, 0.5000008940696716, 0.1666673719882965, 0.04165731370449066,
                          0.008327861316502094, 0.0014166344190016389, 0.00020847887208219618});
  Real s = power_of_two(t);
  return p * s * s;
}

// exp(r) for r from -ln 2 / 2 to ln 2 / 2.
Real exp_of_rest(Real r, ExpTerms terms) {
  if (terms == ExpTerms::few) {
    return polynomial(r, {1.0, 0.999999463558197, 0.49999144673347473, 0.16668173670768738,
                          0.04189855605363846, 0.008262657560408115});
  }
  return polynomial(r, {1.0, 1.0, 0.4999999403953552, 0.1666652113199234, 0.04166826233267784,
                        0.00836867280304432, 0.0013821044703945518});
}

// exp(x - n ln 2), n being the integer nearest x / ln 2.
Real exp_reduced(Real x, Real n, ExpTerms terms) {
  return exp_of_rest(fma(n, -kLn2Lo, fma(n, -kLn2Hi, x)), terms);
}

// n / (1 + e) where y is the reciprocal of 1 + e to 7 bits and minus_d is -(1 + e), rounded: one Newton step
// and one correction of the quotient q, which leave the error of a correctly rounded division but for about
// 2^-28. The Newton step errs to one side only; the constant above 1 centres its error. The remainder is
// formed from e itself, as (n - q) - q e whose difference is exact for n between q / 2 and 2 q, so that the
// rounding of 1 + e has no effect.
Real divide_by_1_plus(Real n, Real e, Real minus_d, Real y) {
  y = fma(y, fma(minus_d, y, 1.0 + 0x1.ap-15), y);
  Real q = n * y;
  return fma(fma(-q, e, n - q), y, q);
}

struct Split {
  Real f;  // in [-1/3, 1/3]
  Real n;
};

// log(1 + f) without the relative error of 1 + f.
Real log1p_reduced(Real f) {
  Real q = polynomial(
      f, {-0.5, 0.33333197236061096, -0.24999919533729553, 0.20011435449123383, -0.16674445569515228,
          0.13989631831645966, -0.1227349266409874, 0.14061157405376434, -0.12487518042325974});
  return fma(f * f, q, f);
}

constexpr std::uint64_t kTwoThirds = 0x3f2aaaab;
constexpr std::uint64_t kExponentMask = 0xff800000;

// x = (1 + f) 2^n for positive finite x.
Split split(Real x) {
  Int tiny = x < 0x1p-126;
  Int bits = select(tiny, x * 0x1p23, x).bits();
  Int e = (bits - kTwoThirds) & kExponentMask;
  return {(bits - e).as_real() - 1.0, fma(e.to_real(x), 0x1p-23, select(tiny, -23.0, 0.0, x))};
}

// `y` for positive finite x, and what a logarithm is elsewhere.
Real with_log_specials(Real x, Real y) {
  y = select(x.bits().ult(0x7f800000), y, fma(x, kInf, kInf));
  return select(x == 0.0, -kInf, y);
}

}  // namespace

Real exp(Real x) { return exp_in_range(max(min(x, 89.0), -104.0)); }

// For x in [-87, 0] the result is normal: n is added to the exponent.
Real exp_to_87(Real x, ExpTerms terms) {
  Real t = fma(x, kLog2e, kRound);
  Real p = exp_reduced(x, t - kRound, terms);
  return (p.bits() + (t.bits() << 23)).as_real();
}

// ln 2 is its nearest f32 here: off by 2^-29, which n makes 2^-22 at most.
Term term(Real x, ExpTerms terms) {
  Real t = fma(x, kLog2e, kRoundBiased);
  return {exp_of_rest(fma(t - kRoundBiased, -kLn2Hi, x), terms), power_of_two(t)};
}

Pivot::Pivot(Real p) : p_(p), k_(fma(p, kLog2e, kRound) - kRound) {}

Term Pivot::term(Real x, ExpTerms terms) const {
  const Real origin = -k_ + kRoundBiased;
  Real t = fma(x, kLog2e, origin);
  return {exp_of_rest(fma(t - origin, -kLn2Hi, x), terms), power_of_two(t)};
}

Real Pivot::exp(Real x, ExpTerms terms) const {
  const Real origin = -k_ + kRound;
  Real t = fma(x, kLog2e, origin);
  return (exp_of_rest(fma(t - origin, -kLn2Hi, x), terms).bits() + (t.bits() << 23)).as_real();
}

Real Pivot::factor() const { return exp_of_rest(fma(k_, kLn2Hi, -p_), ExpTerms::many); }
Real Pivot::inverse_factor() const { return exp_of_rest(fma(k_, -kLn2Hi, p_), ExpTerms::many); }

// Without overflow to think of, one factor 2^(n + 64) is normal, and 2^-64 rounds the result once where it is subnormal.
constexpr double kRoundRaised = kRoundBiased + 64;

// ln 2 is its nearest f32 here: off by 2^-29, which n makes 2^-21.7 at most. exp(-105) is 0, also divided by the factor.
Real Pivot::exp_of_difference(Real x, Real last) const {
  x = max(x - p_, -105.0);
  Real t = fma(x, kLog2e, kRoundRaised);
  return exp_of_rest(fma(t - kRoundRaised, -kLn2Hi, x), ExpTerms::few) * power_of_two(t) * last;
}

Real exp_nonpositive(Real x, ExpTerms terms) {
  x = max(x, -104.0);
  Real t = fma(x, kLog2e, kRoundRaised);
  return exp_reduced(x, t - kRoundRaised, terms) * power_of_two(t) * 0x1p-64;
}

// 2^n is exact because r is 0 then; the exponent is split in halves, both biased by kRound + 254.
Real exp2(Real x) {
  constexpr double kRoundTwice = kRound + 254;
  x = max(min(x, 129.0), -151.0);
  Real t = x + kRoundTwice;
  Real r = x - (t - kRoundTwice);
  Real p = polynomial(r, {1.0, 0.6931471824645996, 0.24022594094276428, 0.055503662675619125,
                          0.009625445120036602, 0.0013387927319854498, 0.0001333248073933646});
  Int low = t.bits() >> 1;
  return p * (low << 23).as_real() * ((t.bits() - low) << 23).as_real();
}

// 2^n (1 + q) - 1 with q = expm1(r), taken at half scale because 2^128 is no f32.
Real expm1(Real x) {
  constexpr double kRoundHalf = kRound + 126;
  Real c = max(min(x, 89.0), -18.0);
  Real t = fma(c, kLog2e, kRoundHalf);
  Real n = t - kRoundHalf;
  Real r = fma(n, -kLn2Lo, fma(n, -kLn2Hi, c));
  Real p = polynomial(r, {0.4999999701976776, 0.16666539013385773, 0.04166775569319725, 0.008367123082280159,
                          0.001383566064760089});
  Real q = fma(r * r, p, r);
  Real half = power_of_two(t);
  Real y = fma(half, q, half - 0.5) * 2.0;
  return select(abs(x) < 0x1p-100, x, y);  // halving is inexact there; keeps -0
}

Real log(Real x) {
  Split s = split(x);
  return with_log_specials(x, fma(s.n, kLn2Hi, log1p_reduced(s.f)));
}

Real log2(Real x) {
  Split s = split(x);
  return with_log_specials(x, fma(log1p_reduced(s.f), kLog2e, s.n));
}

// n is chosen from the rounded 1 + x, but f = 2^-n x + (2^-n - 1) is formed from x itself. 2^-n is scaled by
// 4 to be normal for every n.
Real log1p(Real x) {
  Int e = ((x + 1.0).bits() - kTwoThirds) & kExponentMask;
  Real scale = (e.same(0x40800000) - e).as_real();
  Real f = (x.bits() - e).as_real() + fma(scale, 0.25, -1.0);
  Real y = fma(e.to_real(x), kLn2Hi * 0x1p-23, log1p_reduced(f));
  y = select((x > -1.0) & (x < kInf), y, select(x == -1.0, -kInf, fma(x, kInf, kInf)));
  return copysign(y, x);
}

// With a = |x| and E = exp(-2a) = 2^n exp(-2z): u = (1 - E) / 2 has no cancellation when written with
// q = (1 - exp(-2z)) / 2, and tanh(a) = u / (1 - u) = u + u w with w = 1 / (1 - u) - 1. y is the reciprocal of 1 - u to 9 bits; 1 - y is exact, so
// that e, which it lacks, is; and w = y (1 + e + e^2) - 1 is less than 1, so that it adds little to the last rounding.
Real tanh(Real x) {
  Real a = min(abs(x), 9.1);
  Real t = fma(a, -2 * kLog2e, kRoundBiased);
  Real z = fma(t - kRoundBiased, kLn2Hi / 2, a);
  Real p =
      polynomial(z, {-1.0, 0.6666615605354309, -0.333332896232605, 0.1338735967874527, -0.04453633725643158});
  Real q = fma(z * z, p, z);
  Real s = power_of_two(t);
  Real u = fma(s, q, fma(s, -0.5, 0.5));
  Real y = polynomial(u, {0.9982668757438660, 1.1091854572296143, 0.0, 3.5493934154510498});
  Real rest = 1.0 - y;
  Real e = fma(u, y, rest);
  Real w = fma(y, fma(e, e, e), -rest);
  return copysign(fma(u, w, u), x);
}

// With E = exp(-|x|): 1 / (1 + E) for positive x, E / (1 + E) for negative x. As E is at most 1, its exponent
// raised by 30 is normal for every x.
Real sigmoid(Real x) {
  constexpr double kRoundRaised = kRoundBiased + 30;
  Real c = max(-abs(x), -104.0);
  Real t = fma(c, kLog2e, kRoundRaised);
  Real n = t - kRoundRaised;
  Real r = fma(n, -kLn2Lo, fma(n, -kLn2Hi, c));
  Real p = polynomial(r, {1.0, 1.0, 0.4999987483024597, 0.1666654348373413, 0.041700370609760284,
                          0.008366525173187256, 0.0011899308301508427});
  Real e = p * power_of_two(t) * 0x1p-30;
  Real minus_d = -1.0 - e;
  Real y = polynomial(minus_d, {4.242424011230469 / 2, 5.818181037902832 / 4, 2.58585786819458 / 8});
  return divide_by_1_plus(select(x < 0.0, e, 1.0), e, minus_d, y);
}

// A polynomial near 0; 1 - 2^w with w a polynomial near log2(erfc(a)) from 0.93 on.
Real erf(Real x) {
  Real a = min(abs(x), 4.0);
  Real w =
      polynomial(a, {-0.0002823257236741483, -1.6268919706344604, -0.9192596673965454, -0.14994174242019653,
                     0.03206683695316315, -0.004390512127429247, 0.0002826902491506189});
  Real t = w + kRoundBiased;
  Real r = w - (t - kRoundBiased);
  Real p = polynomial(r, {1.0, 0.6931470036506653, 0.2402222454547882, 0.05550650879740715,
                          0.009672654792666435, 0.0013303708983585238});
  Real large = copysign(fma(-power_of_two(t), p, 1.0), x);
  Real q =
      polynomial(x * x, {0.12837916612625122, -0.3761262893676758, 0.11283625662326813, -0.026855740696191788,
                         0.0051924604922533035, -0.0008050804026424885, 8.002774848137051e-05});
  return select(a < 0.93, fma(x, q, x), large);
}

}  // namespace bz::emit::math::f32

// Exponentials, logarithms and their kin in f64: the shape of the f32 ones, but rare enough that a division,
// a branch or a few instructions more are no matter.
#include "compiler/emit/math_functions.h"

namespace bz::emit::math::f64 {
namespace {

constexpr double kLog2e = 0x1.71547652b82fep+0;
constexpr double kLn2Hi = 0x1.62e42fefa39efp-1;
constexpr double kLn2Lo = 0x1.abc9e3b39803fp-56;

// Adding kRound leaves the nearest integer in the low bits of the sum.
constexpr double kRound = 0x1.8p+52;

// exp(r) - 1 for |r| <= ln(2) / 2.
Real expm1_reduced(Real r) {
  Real p = polynomial(
      r, {0.5, 0.16666666666666677, 0.04166666666666651, 0.008333333333321697, 0.001388888888896233,
          0.0001984126988595119, 2.4801587172605336e-05, 2.755724439055302e-06, 2.7557402604437163e-07,
          2.510897267750453e-08, 2.0875335684115685e-09});
  return fma(r * r, p, r);
}

// p 2^n for t = kRound + 2046 + n. The exponent is split in halves, each biased, to be normal for every n.
Real scale(Real p, Real t) {
  Int low = t.bits() >> 1;
  return p * (low << 52).as_real() * ((t.bits() - low) << 52).as_real();
}

// n and r of x = n ln 2 + r, n in the form of a sum t with `round`.
struct Reduced {
  Real t;
  Real r;
};

Reduced reduce(Real x, double round) {
  Real t = fma(x, kLog2e, round);
  Real n = t - round;
  return {t, fma(n, -kLn2Lo, fma(n, -kLn2Hi, x))};
}

constexpr double kRoundScaled = kRound + 2046;

Real exp_in_range(Real x) {
  Reduced a = reduce(x, kRoundScaled);
  return scale(expm1_reduced(a.r) + 1.0, a.t);
}

// log(1 + f) by the series of the inverse hyperbolic tangent: with s = f / (2 + f) it is 2s + s R(s s), and
// 2s = f - f f / 2 + s f f / 2.
Real log1p_reduced(Real f) {
  Real s = f / (f + 2.0);
  Real z = s * s;
  Real r = z * polynomial(z, {0.6666666666666735, 0.3999999999940701, 0.2857142874425672, 0.22222198365733986,
                              0.18183575872743818, 0.1531373656558204, 0.14799268685835876});
  Real half = f * 0.5 * f;
  return f - (half - s * (half + r));
}

constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
constexpr std::uint64_t kExponentMask = 0xfff0000000000000;

struct Split {
  Real f;  // 1 + f in [sqrt(1/2), sqrt(2))
  Real n;
};

// x = (1 + f) 2^n for positive finite x.
Split split(Real x) {
  Int tiny = x < 0x1p-1022;
  Int bits = select(tiny, x * 0x1p52, x).bits();
  Int e = (bits - kSqrtHalf) & kExponentMask;
  return {(bits - e).as_real() - 1.0, (e >> 52).to_real(x) + select(tiny, -52.0, 0.0, x)};
}

// `y` for positive finite x, and what a logarithm is elsewhere.
Real with_log_specials(Real x, Real y) {
  y = select(x.bits().ult(0x7ff0000000000000), y, fma(x, kInf, kInf));
  return select(x == 0.0, -kInf, y);
}

}  // namespace

Real exp(Real x) { return exp_in_range(max(min(x, 710.0), -746.0)); }

Real exp2(Real x) {
  x = max(min(x, 1025.0), -1076.0);
  Real t = x + kRoundScaled;
  Real r = x - (t - kRoundScaled);
  return scale(expm1_reduced(r * kLn2Hi) + 1.0, t);
}

// 2^n (1 + q) - 1 with q = expm1(r), taken at half scale because 2^1024 is no f64.
Real expm1(Real x) {
  Reduced a = reduce(max(min(x, 710.0), -40.0), kRound + 1022);
  Real half = (a.t.bits() << 52).as_real();
  Real y = fma(half, expm1_reduced(a.r), half - 0.5) * 2.0;
  return select(abs(x) < 0x1p-900, x, y);  // halving is inexact there; keeps -0
}

Real log(Real x) {
  Split s = split(x);
  return with_log_specials(x, fma(s.n, kLn2Hi, fma(s.n, kLn2Lo, log1p_reduced(s.f))));
}

Real log2(Real x) {
  Split s = split(x);
  return with_log_specials(x, fma(log1p_reduced(s.f), kLog2e, s.n));
}

// See f32::log1p.
Real log1p(Real x) {
  Int e = ((x + 1.0).bits() - kSqrtHalf) & kExponentMask;
  Real scale = (e.same(0x4010000000000000) - e).as_real();
  Real f = (x.bits() - e).as_real() + fma(scale, 0.25, -1.0);
  Real n = (e >> 52).to_real(x);
  Real y = fma(n, kLn2Hi, fma(n, kLn2Lo, log1p_reduced(f)));
  y = select((x > -1.0) & (x < kInf), y, select(x == -1.0, -kInf, fma(x, kInf, kInf)));
  return copysign(y, x);
}

// With m = expm1(-2 |x|): tanh |x| = -m / (2 + m), free of cancellation.
Real tanh(Real x) {
  Reduced a = reduce(min(abs(x), 22.0) * -2.0, kRound + 1023);
  Real s = (a.t.bits() << 52).as_real();
  Real m = fma(s, expm1_reduced(a.r), s - 1.0);
  return copysign(m / (m + 2.0), x);
}

// With E = exp(-|x|): 1 / (1 + E) for positive x, E / (1 + E) for negative x.
Real sigmoid(Real x) {
  Real e = exp_in_range(max(-abs(x), -746.0));
  return select(x < 0.0, e, 1.0) / (e + 1.0);
}

// A polynomial below 1; beyond, 1 - exp(-a a) g with g = exp(a a) erfc(a) a polynomial of (a - 2) / (a + 2).
Real erf(Real x) {
  Real a = min(abs(x), 6.0);
  Real square = a * a;
  Real square_lo = fma(a, a, -square);
  Real q = (a - 2.0) / (a + 2.0);
  Real g = polynomial(
      q, {0.2553956763105068, -0.42718584741398086, 0.24165819424071405, -0.07897858102700868,
          0.0037328926383626477, 0.006997464529243544, -0.0008471425113520416, -0.0009820886099270218,
          4.307478848067706e-05, 0.00017465129065136892, 3.420854430604697e-05, -1.070033506956897e-05});
  Real e = exp_in_range(-square);
  Real large = 1.0 - fma(e, -square_lo, e) * g;
  Real p =
      polynomial(square, {0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072893,
                          0.005223977624780838, -0.0008548326978740622, 0.000120553310368449,
                          -1.4925593505645053e-05, 1.646097279815068e-06, -1.6350025034086767e-07,
                          1.4657878650325638e-08, -1.1365661644367267e-09, 5.945254923277616e-11});
  return select(a < 1.0, fma(x, p, x), copysign(large, x));
}

}  // namespace bz::emit::math::f64

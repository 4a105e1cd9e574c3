// pow in f32 and f64: 2^(y log2 |x|), with the logarithm in more precision than the result needs (f64 for
// f32, a pair of doubles for f64), and the special values of C99 Annex F.
#include "compiler/emit/math_functions.h"

namespace bz::emit::math {
namespace {

constexpr double kRound = 0x1.8p+52;
constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
constexpr std::uint64_t kExponentMask = 0xfff0000000000000;

// |x| = m 2^n with m in [sqrt(1/2), sqrt(2)), for normal x.
struct Split {
  Real m;
  Real n;
};

Split split(Real ax) {
  Int e = (ax.bits() - kSqrtHalf) & kExponentMask;
  return {(ax.bits() - e).as_real(), (e >> 52).to_real(ax)};
}

// log2 of zero, infinities and NaN, where the formula for finite values means nothing. What follows from -inf
// and inf is right: y log2(x) is infinite, then 2 to that.
Real with_log_specials(Real ax, Real log) { return select(ax == 0.0, -kInf, select(ax < kInf, log, ax)); }

}  // namespace

Real with_pow_specials(Real x, Real y, Real magnitude) {
  Real ax = abs(x);
  Real half = y * 0.5;
  Int integer = trunc(y) == y;
  Int odd = integer & (trunc(half) != half);
  magnitude = select((ax == 1.0) & (y == y), 1.0, magnitude);
  Real r = select(odd, copysign(magnitude, x), magnitude);
  r = select((x < 0.0) & (ax < kInf) & !integer, kNan, r);
  return select((y == 0.0) | (x == 1.0), 1.0, r);
}

// Everything in f64, whose exponents hold every intermediate result, then one rounding.
Real f32::pow(Real x, Real y) {
  Real ax = abs(x).to_f64();
  Split a = split(ax);
  Real s = (a.m - 1.0) / (a.m + 1.0);
  Real series = polynomial(s * s, {2.8853900817902742, 0.9617966731040145, 0.5770836310382398,
                                   0.4116699057066016, 0.3407831350760114});
  Real log = with_log_specials(ax, fma(s, series, a.n));

  constexpr double kRoundBiased = kRound + 1023;
  Real w = max(min(y.to_f64() * log, 160.0), -160.0);
  Real t = w + kRoundBiased;
  Real p = polynomial(w - (t - kRoundBiased),
                      {1.0000000005540948, 0.6931472057369156, 0.24022646890807564, 0.05550328777172691,
                       0.009618488938211439, 0.0013399931138829938, 0.00015345817051879747});
  return with_pow_specials(x, y, (p * (t.bits() << 52).as_real()).to_f32());
}

Real f64::pow(Real x, Real y) {
  // |x| = m 2^n; s + s_lo = (m - 1) / (m + 1) as a pair.
  Real ax = abs(x);
  Int tiny = ax < 0x1p-1022;
  Split a = split(select(tiny, ax * 0x1p52, ax));
  Real n = a.n + select(tiny, -52.0, 0.0, x);
  Real f = a.m - 1.0;
  Real g = a.m + 1.0;
  Real g_lo = a.m - (g - 1.0);
  Real s = f / g;
  Real s_lo = (fma(-s, g, f) - s * g_lo) / g;

  // v + v_lo = z / 3 + z z P(z), so that atanh(s) = s (1 + v).
  constexpr double kThirdHi = 0x1.5555555555555p-2, kThirdLo = 0x1.5555555555555p-56;
  Real z = s * s;
  Real z_lo = fma(s, s, -z) + s * s_lo * 2.0;
  Real third = z * kThirdHi;
  Real third_lo = fma(z, kThirdHi, -third) + fma(z, kThirdLo, z_lo * kThirdHi);
  Real tail =
      z * z *
      polynomial(z, {0.19999999999999987, 0.14285714285722675, 0.11111111108738977, 0.09090909438749015,
                     0.07692278190300066, 0.06668168150007525, 0.05837217463430682, 0.05996105221502211});
  Real v = third + tail;
  Real v_lo = (third - v) + tail + third_lo;

  // h + h_lo = s (1 + v); log + log_lo = n + 2 / ln(2) h.
  Real sv = s * v;
  Real sv_lo = fma(s, v, -sv) + fma(s, v_lo, s_lo * v);
  Real h = s + sv;
  Real h_lo = (s - h) + sv + (sv_lo + s_lo);
  constexpr double kScaleHi = 0x1.71547652b82fep+1, kScaleLo = 0x1.777d0ffda0d24p-55;
  Real u = h * kScaleHi;
  Real u_lo = fma(h, kScaleHi, -u) + fma(h_lo, kScaleHi, h * kScaleLo);
  Real log = n + u;
  Real log_lo = (n - log) + u + u_lo;
  log = with_log_specials(ax, log);

  // 2^(w + w_lo) = 2^k exp(r + r_lo).
  constexpr double kLn2Hi = 0x1.62e42fefa39efp-1, kLn2Lo = 0x1.abc9e3b39803fp-56;
  constexpr double kRoundTwice = kRound + 2046;
  Real product = y * log;
  Real w_lo = select(abs(product) < 1100.0, fma(y, log, -product) + y * log_lo, 0.0);
  Real w = max(min(product, 1100.0), -1100.0);
  Real t = w + kRoundTwice;
  Real b = w - (t - kRoundTwice);
  Real r = b * kLn2Hi;
  Real r_lo = fma(b, kLn2Hi, -r) + fma(b, kLn2Lo, w_lo * kLn2Hi);
  Real e = polynomial(
      r, {0.5, 0.16666666666666677, 0.04166666666666651, 0.008333333333321697, 0.001388888888896233,
          0.0001984126988595119, 2.4801587172605336e-05, 2.755724439055302e-06, 2.7557402604437163e-07,
          2.510897267750453e-08, 2.0875335684115685e-09});
  Real q = fma(r * r, e, r);
  Real p = fma(q + 1.0, r_lo, q) + 1.0;
  Int low = t.bits() >> 1;
  return with_pow_specials(x, y, p * (low << 52).as_real() * ((t.bits() - low) << 52).as_real());
}

}  // namespace bz::emit::math

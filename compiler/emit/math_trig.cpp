// Sine, cosine and tangent in f32 and f64. Arguments are reduced to [-pi/4, pi/4] as a sum hi + lo: by Cody
// and Waite (three parts of pi/2, exact where it matters thanks to fma) up to Precision::limit, by Payne and
// Hanek (the product with those bits of 2/pi that matter, in integers) beyond, in a function of its own that
// is rarely called.
#include <span>
#include <string>

#include "compiler/emit/math_functions.h"

namespace bz::emit::math {
namespace {

// 2/pi = 0.kTwoOverPi32..., in words of 32 and 64 bits. The zero in front is there for arguments whose window
// begins before the point.
constexpr std::uint64_t kTwoOverPi32[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                          0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
constexpr std::uint64_t kTwoOverPi64[] = {0,
                                          0xa2f9836e4e441529,
                                          0xfc2757d1f534ddc0,
                                          0xdb6295993c439041,
                                          0xfe5163abdebbc561,
                                          0xb7246e3a424dd2e0,
                                          0x06492eea09d1921c,
                                          0xfe1deb1cb129a73e,
                                          0xe88235f52ebb4484,
                                          0xe99c7026b45f7e41,
                                          0x3991d639835339f4,
                                          0x9c845f8bbdf9283b,
                                          0x1ff897ffde05980f,
                                          0xef2f118b5a0a6d1f,
                                          0x6d367ecf27cb09b7,
                                          0x4f463f669e5fea2d,
                                          0x7527bac7ebe5f17b,
                                          0x3d0739f78a5292ea,
                                          0x6bfb5fb11f8d5d08,
                                          0x56033046fc7b6bab};

struct Precision {
  int mantissa;  // bits, the hidden one included
  int bias;
  double limit;  // Cody and Waite up to here
  double round;  // adding it leaves the nearest integer in the low bits
  double pi_half[3];
  std::span<const std::uint64_t> two_over_pi;
  std::span<const double> sin;  // sin(r) = r + r s P(s), s = r r
  std::span<const double> cos;  // cos(r) = 1 - s/2 + s s P(s)
};

constexpr double kSin32[] = {-0.16666655242443085, 0.008332188241183758, -0.0001951809535967186};
constexpr double kCos32[] = {0.04166664555668831, -0.0013887309469282627, 2.4432327336398885e-05};
constexpr double kSin64[] = {-0.1666666666666663,  0.008333333333322068,    -0.0001984126982954764,
                             2.75573136063463e-06, -2.5050745333177384e-08, 1.5896085187605403e-10};
constexpr double kCos64[] = {0.041666666666666595,   -0.0013888888888872984, 2.480158728880582e-05,
                             -2.755731416568802e-07, 2.0875698946264966e-09, -1.1358436083212835e-11};

constexpr Precision kF32 = {
    .mantissa = 24,
    .bias = 127,
    .limit = 0x1p+16,
    .round = 0x1.8p+23,
    .pi_half = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50},
    .two_over_pi = kTwoOverPi32,
    .sin = kSin32,
    .cos = kCos32,
};
constexpr Precision kF64 = {
    .mantissa = 53,
    .bias = 1023,
    .limit = 0x1p+25,
    .round = 0x1.8p+52,
    .pi_half = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110},
    .two_over_pi = kTwoOverPi64,
    .sin = kSin64,
    .cos = kCos64,
};

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;

const Precision& precision(const Real& x) { return x.type()->isFloatTy() ? kF32 : kF64; }

// x = quadrant pi/2 + hi + lo; only the two low bits of the quadrant (i32) count.
struct Reduced {
  Real hi;
  Real lo;
  Int quadrant;
};

Reduced cody_waite(Real x, const Precision& p) {
  Real t = fma(x, kTwoOverPi, p.round);
  Real n = t - p.round;
  Real r = fma(n, -p.pi_half[0], x);
  // r, which is exact, less n times the rest of pi / 2.
  Real part = n * -p.pi_half[1];
  Real part_lo = fma(n, -p.pi_half[1], -part);
  Real hi = r + part;
  Real taken = hi - r;
  Real hi_error = (r - (hi - taken)) + (part - taken);
  return {hi, fma(n, -p.pi_half[2], hi_error + part_lo), t.bits().trunc(32)};
}

// words[index + offset] for an index below words.size() - offset, as selections between immediates: neither
// GPU nor host needs a table in memory.
Int word_at(Int index, int offset, std::span<const std::uint64_t> words, int last_index) {
  Int w = index.same(words[offset]);
  for (int i = 1; i <= last_index; ++i) w = select(index == i, index.same(words[i + offset]), w);
  return w;
}

// For |x| > limit, infinities and NaN. With x = m 2^e, bits of 2/pi of weight 2^(2-e) and more give multiples
// of 4 quadrants; of the rest three words are enough for the smallest remainder there is.
Reduced payne_hanek(Real x, const Precision& p) {
  const int w = static_cast<int>(x.bits().bits());
  const int last_window = static_cast<int>(p.two_over_pi.size()) - 4;
  Int bits = abs(x).bits();
  Int m = (bits & ((1ull << (p.mantissa - 1)) - 1)) | (1ull << (p.mantissa - 1));
  Int e = bits.lshr(p.mantissa - 1) - (p.bias + p.mantissa - 1);

  Int start = e + (w - 2);  // the bit of weight 2^(1-e), counted in the padded words
  Int index = start.lshr(w == 32 ? 5 : 6);
  Int shift = (start & (w - 1)).zext(2 * w);
  Int word[4] = {word_at(index, 0, p.two_over_pi, last_window), word_at(index, 1, p.two_over_pi, last_window),
                 word_at(index, 2, p.two_over_pi, last_window),
                 word_at(index, 3, p.two_over_pi, last_window)};
  auto window = [&](int i) {
    return (((word[i].zext(2 * w) << static_cast<std::uint64_t>(w)) | word[i + 1].zext(2 * w)) << shift)
        .lshr(w);
  };
  Int wide = m.zext(2 * w);
  // The upper two words of the three-word product modulo 4 quadrants.
  Int product =
      ((wide * window(0)) << static_cast<std::uint64_t>(w)) + wide * window(1) + (wide * window(2)).lshr(w);

  Int fraction = product << 2ull;  // of a quadrant, signed: in [-1/2, 1/2)
  Int below = fraction < 0;
  Int quadrant = product.lshr(2 * w - 2).trunc(32) + below.zext(32);
  Int magnitude = select(below, fraction.same(0) - fraction, fraction);
  Int zeros = magnitude.leading_zeros();
  magnitude = magnitude << zeros;
  Real scale = ((p.bias - zeros.trunc(w)) << static_cast<std::uint64_t>(p.mantissa - 1)).as_real();
  Real top = magnitude.lshr(2 * w - p.mantissa).trunc(w).to_real(x);
  Real next =
      (magnitude << static_cast<std::uint64_t>(p.mantissa)).lshr(2 * w - p.mantissa).trunc(w).to_real(x);
  const double unit = 1.0 / static_cast<double>(1ull << p.mantissa);
  top = top * unit * scale;
  next = next * (unit * unit) * scale;

  Real hi = top * p.pi_half[0];
  Real lo = fma(next, p.pi_half[0], fma(top, p.pi_half[1], fma(top, p.pi_half[0], -hi)));
  Int flip = below ^ (x < 0.0);
  Int finite = abs(x) < kInf;
  return {select(finite, select(flip, -hi, hi), kNan), select(flip, -lo, lo),
          select(x < 0.0, quadrant.same(0) - quadrant, quadrant)};
}

// The function `bz.math.reduce.<f32|f64>` of the module that `x` belongs to: {hi, lo, quadrant}.
llvm::Function* payne_hanek_function(Real x) {
  llvm::Module& m = *x.builder().GetInsertBlock()->getModule();
  std::string name = x.type()->isFloatTy() ? "bz.math.reduce.f32" : "bz.math.reduce.f64";
  if (llvm::Function* known = m.getFunction(name)) return known;
  auto* result = llvm::StructType::get(x.type(), x.type(), llvm::Type::getInt32Ty(m.getContext()));
  llvm::Function* f = define_internal(m, name, llvm::FunctionType::get(result, {x.type()}, false));
  f->addFnAttr(llvm::Attribute::NoInline);
  Builder b(&f->getEntryBlock());
  Reduced r = payne_hanek(Real(b, f->getArg(0)), precision(x));
  llvm::Value* members[] = {r.hi.value(), r.lo.value(), r.quadrant.value()};
  b.CreateAggregateRet(members, 3);
  return f;
}

Reduced reduce(Real x) {
  const Precision& p = precision(x);
  Builder& b = x.builder();
  Reduced fast = cody_waite(x, p);
  auto* from = b.GetInsertBlock();
  auto* slow_block = llvm::BasicBlock::Create(b.getContext(), "huge", from->getParent());
  auto* done = llvm::BasicBlock::Create(b.getContext(), "reduced", from->getParent());
  b.CreateCondBr((abs(x) <= p.limit).value(), done, slow_block);
  b.SetInsertPoint(slow_block);
  llvm::Value* slow = b.CreateCall(payne_hanek_function(x), {x.value()});
  llvm::Value* parts[] = {b.CreateExtractValue(slow, 0), b.CreateExtractValue(slow, 1),
                          b.CreateExtractValue(slow, 2)};
  b.CreateBr(done);

  b.SetInsertPoint(done);
  auto join = [&](llvm::Value* a, llvm::Value* c) {
    llvm::PHINode* phi = b.CreatePHI(a->getType(), 2);
    phi->addIncoming(a, from);
    phi->addIncoming(c, slow_block);
    return phi;
  };
  return {Real(b, join(fast.hi.value(), parts[0])), Real(b, join(fast.lo.value(), parts[1])),
          Int(b, join(fast.quadrant.value(), parts[2]))};
}

Real sin_reduced(const Reduced& r) {
  Real s = r.hi * r.hi;
  return r.hi + fma(r.hi * s, polynomial(s, precision(r.hi).sin), r.lo);
}

Real cos_reduced(const Reduced& r) {
  Real s = r.hi * r.hi;
  Real half = s * -0.5;
  Real top = half + 1.0;
  Real rest = fma(s * s, polynomial(s, precision(r.hi).cos), (1.0 - top) + half);
  return top + fma(-r.hi, r.lo, rest);
}

// The sine of a quadrant's angle from the sine and cosine of the reduced one.
Real turn(Real sin, Real cos, Int quadrant) {
  Real y = select((quadrant & 1) == 0, sin, cos);
  return select((quadrant & 2) == 0, y, -y);
}

// x itself where it is so small that sin(x) and tan(x) round to it; keeps -0.
Real keep_tiny(Real x, Real y) { return select(abs(x) < (x.type()->isFloatTy() ? 0x1p-13 : 0x1p-27), x, y); }

Real any_sin(Real x) {
  Reduced r = reduce(x);
  return keep_tiny(x, turn(sin_reduced(r), cos_reduced(r), r.quadrant));
}

Real any_cos(Real x) {
  Reduced r = reduce(x);
  return turn(sin_reduced(r), cos_reduced(r), r.quadrant + 1);
}

}  // namespace

namespace f32 {

Real sin(Real x) { return any_sin(x); }
Real cos(Real x) { return any_cos(x); }

// The quotient of sine and cosine would add up the errors of both; a polynomial has one.
Real tan(Real x) {
  Reduced r = reduce(x);
  Real s = r.hi * r.hi;
  Real q = polynomial(s, {0.33333349227905273, 0.13332673907279968, 0.05405917763710022, 0.02128450945019722,
                          0.010832494124770164, 9.118420712184161e-05, 0.0043764542788267136});
  Real cube = r.hi * s * q;
  Real t = r.hi + cube;
  // d tan(r) = (1 + tan(r)^2) dr
  Real y = r.hi + fma(r.hi * s, q, fma(t * t, r.lo, r.lo));
  return keep_tiny(x, select((r.quadrant & 1) == 0, y, -1.0 / y));
}

}  // namespace f32

namespace f64 {

Real sin(Real x) { return any_sin(x); }
Real cos(Real x) { return any_cos(x); }

Real tan(Real x) {
  Reduced r = reduce(x);
  Real s = sin_reduced(r);
  Real c = cos_reduced(r);
  Int even = (r.quadrant & 1) == 0;
  return keep_tiny(x, select(even, s, -c) / select(even, c, s));
}

}  // namespace f64

}  // namespace bz::emit::math

// atan2 and floored mod, in f32 and f64.
#include <span>

#include "compiler/emit/math_functions.h"

namespace bz::emit::math {
namespace {

struct Arctangent {
  double pi_hi;
  double pi_lo;
  std::span<const double> series;  // atan(t) = t + t s P(s), s = t t, for t in [0, 1]
};

constexpr double kAtan32[] = {-0.33333298563957214,  0.1999852955341339,   -0.14264015853405,
                              0.10950880497694016,   -0.08399306237697601, 0.05788138136267662,
                              -0.031096961349248886, 0.010868660174310207, -0.00178281229455024};
constexpr double kAtan64[] = {
    -0.3333333333333307,    0.19999999999951462,   -0.1428571428257522,     0.11111111007029653,
    -0.0909090700305795,    0.07692279840114019,   -0.06666404064542403,    0.05880527857093659,
    -0.05253518745059799,   0.047223228755666605,  -0.042191806902964056,   0.036641946281006206,
    -0.02990391447228713,   0.02198492194632477,   -0.013900624531885397,   0.007196548716248294,
    -0.0028849418559264584, 0.0008313301029747095, -0.00015216265238312846, 1.3225254470365015e-05};

constexpr Arctangent kArctangent32 = {0x1.921fb6p+1, -0x1.777a5cp-24, kAtan32};
constexpr Arctangent kArctangent64 = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53, kAtan64};

// The angle is base +- atan(t) with t in [0, 1], the smaller coordinate by the larger.
Real any_atan2(Real y, Real x, const Arctangent& k) {
  Real ay = abs(y);
  Real ax = abs(x);
  Real larger = max(ax, ay);
  Real smaller = min(ax, ay);
  Real t = smaller / larger;
  t = select(larger == 0.0, 0.0, select(smaller == kInf, 1.0, t));
  Real s = t * t;
  Real angle = fma(t * s, polynomial(s, k.series), t);

  Int steep = ay > ax;
  Int left = x.bits() < 0;
  Real base = select(steep, k.pi_hi / 2, select(left, k.pi_hi, 0.0, x));
  Real base_lo = select(steep, k.pi_lo / 2, select(left, k.pi_lo, 0.0, x));
  Real signed_angle = select(steep ^ left, -angle, angle);
  return copysign(base + (signed_angle + base_lo), y);
}

// What the exact remainder needs to know of a format.
struct Format {
  int mantissa;     // bits, the hidden one included
  double smallest;  // the smallest subnormal
  int bias;
  int step;  // quotient bits that a 64-bit remainder yields at once
};

constexpr Format kFormat32 = {24, 0x1p-149, 127, 40};
constexpr Format kFormat64 = {53, 0x1p-1074, 1023, 11};

// Value = mantissa 2^exponent times the smallest subnormal.
struct Scaled {
  Int mantissa;  // 64 bits
  Int exponent;
};

Scaled take_apart(Real magnitude, const Format& k) {
  Int bits = magnitude.bits();
  Int field = bits.lshr(k.mantissa - 1);
  Int subnormal = field == 0;
  Int fraction = bits & ((1ull << (k.mantissa - 1)) - 1);
  Int mantissa = select(subnormal, fraction, fraction | (1ull << (k.mantissa - 1)));
  return {mantissa.bits() == 64 ? mantissa : mantissa.zext(64), select(subnormal, field, field - 1)};
}

// The remainder of a by b, both positive, a at least b, by long division on the mantissas.
Real long_remainder(Real a, Real b, const Format& k) {
  Builder& builder = a.builder();
  Scaled x = take_apart(a, k);
  Scaled y = take_apart(b, k);
  Int divisor = select(y.mantissa == 0, y.mantissa.same(1), y.mantissa);
  Int first = x.mantissa.urem(divisor);
  Int count = x.exponent - y.exponent;

  auto* from = builder.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(builder.getContext(), "more", from->getParent());
  auto* body = llvm::BasicBlock::Create(builder.getContext(), "step", from->getParent());
  auto* done = llvm::BasicBlock::Create(builder.getContext(), "remainder", from->getParent());
  builder.CreateBr(head);
  builder.SetInsertPoint(head);
  llvm::PHINode* remainder_phi = builder.CreatePHI(first.value()->getType(), 2);
  llvm::PHINode* left_phi = builder.CreatePHI(count.value()->getType(), 2);
  Int remainder(builder, remainder_phi);
  Int left(builder, left_phi);
  builder.CreateCondBr((left.same(0) < left).value(), body, done);
  builder.SetInsertPoint(body);
  Int step = select(left < k.step, left, left.same(k.step));
  Int next = (remainder << (step.bits() == 64 ? step : step.zext(64))).urem(divisor);
  Int next_left = left - step;
  builder.CreateBr(head);
  remainder_phi->addIncoming(first.value(), from);
  remainder_phi->addIncoming(next.value(), body);
  left_phi->addIncoming(count.value(), from);
  left_phi->addIncoming(next_left.value(), body);

  // Scaled in two exact steps: 2^exponent may be too large for the format.
  builder.SetInsertPoint(done);
  Int low = y.exponent.lshr(1);
  auto power = [&](Int e) { return ((e + k.bias) << static_cast<std::uint64_t>(k.mantissa - 1)).as_real(); };
  return remainder.to_real(a) * k.smallest * power(low) * power(y.exponent - low);
}

// a - floor(a / b) b of the exact remainder. Most quotients are small: then truncating the rounded one is
// right but for being one too large, and fma makes the remainder exact.
Real any_mod(Real a, Real b, const Format& k) {
  Real aa = abs(a);
  Real ab = abs(b);
  Real quotient = aa / ab;
  Real r = branch(
      quotient < static_cast<double>(1ull << (k.mantissa - 2)),
      [&] {
        Real m = fma(-trunc(quotient), ab, aa);
        m = select(m < 0.0, m + ab, m);
        return select(ab == kInf, aa, m);
      },
      [&] { return select((aa < kInf) & (ab > 0.0), long_remainder(aa, ab, k), kNan); });
  Int opposite = (a.bits() ^ b.bits()) < 0;
  Real m = copysign(r, a);
  return select(r == 0.0, copysign(r, b), select(opposite, m + b, m));
}

}  // namespace

Real f32::atan2(Real y, Real x) { return any_atan2(y, x, kArctangent32); }
Real f64::atan2(Real y, Real x) { return any_atan2(y, x, kArctangent64); }
Real f32::mod(Real a, Real b) { return any_mod(a, b, kFormat32); }
Real f64::mod(Real a, Real b) { return any_mod(a, b, kFormat64); }

}  // namespace bz::emit::math

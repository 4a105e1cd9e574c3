// What of a kernel is emitted as a list of elements, of several statements and lanes: exponentials, sums of them, divisions.
#include <algorithm>

#include "compiler/emit/division.h"
#include "compiler/emit/kernel_emitter.h"
#include "compiler/emit/math_builder.h"
#include "compiler/emit/scalar.h"

namespace bz::emit {

using namespace kernel;
using llvm::Value;

// Exponentials or divisions that follow each other, none of which needs another: their branch is for all of them. Not so
// many that their values fill the registers. fast_math has no branches to share.
KernelEmitter::List KernelEmitter::list_at(const Block& stmts, std::size_t first) const {
  constexpr int kMostLanes = 16;
  List list;
  if (options_.fast_math) return list;
  int lanes = 0;
  for (std::size_t i = first; i < stmts.size(); ++i) {
    const auto* s = std::get_if<Apply>(&stmts[i].op);
    if (s == nullptr || (s->op != ScalarOp::exp && s->op != ScalarOp::div)) break;
    if (s->op == ScalarOp::exp && !s->nonpositive) break;
    if (info(s->args[0]).dtype != DType::f32) break;
    const auto follows = [&](const Apply* earlier) {
      return std::find(s->args.begin(), s->args.end(), earlier->result) == s->args.end();
    };
    const bool alike = list.empty() || (s->op == list[0]->op &&
                                        (s->op == ScalarOp::exp ? terms(s->args[0]) == terms(list[0]->args[0])
                                                                : s->args[1] == list[0]->args[1]));
    lanes += info(s->result).width;
    if (!alike || !std::all_of(list.begin(), list.end(), follows) || (!list.empty() && lanes > kMostLanes))
      break;
    list.push_back(s);
  }
  return list;
}

// The branch that exponentials of a list share takes 4 instructions and saves 2 an element.
constexpr std::size_t kListed = 4;

bool KernelEmitter::emit(const List& list) {
  if (list.empty()) return false;
  if (list[0]->op == ScalarOp::div) return divide(list);
  Lanes x;
  llvm::SmallVector<ValueId, 8> exponents;
  for (const Apply* s : list) {
    exponents.push_back(s->args[0]);
    for (int i = 0; i < info(s->result).width; ++i) x.push_back(lane(s->args[0], i));
  }
  Value* least = x.size() >= kListed ? least_of(exponents, x) : nullptr;
  const Lanes y = exp_nonpositive(b_, x, terms(exponents[0]), least);
  const auto* next = y.begin();
  for (const Apply* s : list) {
    const auto* end = next + info(s->result).width;
    values_[s->result] = Lanes(next, end);
    next = end;
  }
  return true;
}

// One branch is for all lanes then, and there is a factor.
bool KernelEmitter::is_scaled(ValueId pivot) const {
  return info(pivot).dtype == DType::f32 && info(pivot).width == 1 && !options_.fast_math;
}

Value* KernelEmitter::no_difference(const ScaledExp& s) {
  const auto known = no_difference_.find({s.pivot, s.least});
  return known != no_difference_.end() ? known->second
                                       : needs_no_difference(b_, lane(s.pivot, 0), lane(s.least, 0));
}

// Those of a loop's exponentials, if they are known before it.
const ScaledExp* KernelEmitter::loop_exp(const Block& body) const {
  for (const Stmt& s : body) {
    const auto* exp = std::get_if<ScaledExp>(&s.op);
    if (exp != nullptr && is_scaled(exp->pivot) && values_.contains(exp->pivot) &&
        values_.contains(exp->least) && !no_difference_.contains({exp->pivot, exp->least}))
      return exp;
  }
  return nullptr;
}

void KernelEmitter::emit(const ScaledExp& s) {
  Lanes all;
  for (const ValueId v : s.x) all.append(lanes(v));
  if (is_scaled(s.pivot)) {
    all = scaled_exp(b_, all, lane(s.pivot, 0), no_difference(s));
  } else {
    const DType t = info(s.pivot).dtype;
    const auto width = static_cast<std::size_t>(info(s.x[0]).width);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = b_.CreateFSub(all[i], lane(s.pivot, static_cast<int>(i % width)));
    if (t == DType::f32 && !options_.fast_math) {
      const auto min = [](const math::Real& l, const math::Real& r) { return math::min(l, r); };
      all = exp_nonpositive(b_, all, narrow_.contains(s.x[0]) ? ExpTerms::few : ExpTerms::many,
                            all.size() >= kListed ? math::fold(b_, all, min) : nullptr);
    } else {
      for (Value*& v : all)
        v = t == DType::f32 ? fast_math(b_, ScalarOp::exp, {v}) : apply(b_, ScalarOp::exp, {v}, {t}, t);
    }
  }
  const auto* next = all.begin();
  for (const ValueId v : s.results) {
    const auto* end = next + info(v).width;
    values_[v] = Lanes(next, end);
    next = end;
  }
}

void KernelEmitter::emit(const ExpFactor& s) {
  Value* pivot = lane(s.pivot, 0);
  values_[s.result] = {is_scaled(s.pivot) ? factor(b_, pivot) : llvm::ConstantFP::get(pivot->getType(), 1)};
}

// The least of the exponents whose elements are `x`.
Value* KernelEmitter::least_of(llvm::ArrayRef<ValueId> exponents, llvm::ArrayRef<Value*> x) {
  // Rounding keeps the order: the least x has the least x - m.
  if (const std::optional<PairDifferences> p = pair_differences(exponents))
    return b_.CreateFSub(extremum_of(b_, ScalarOp::min, p->minuends), p->subtrahend);
  return math::fold(b_, x, [](const math::Real& l, const math::Real& r) { return min(l, r); });
}

ValueId KernelEmitter::subtrahend(llvm::ArrayRef<ValueId> exponents) const {
  ValueId common = kNone;
  for (const ValueId exponent : exponents) {
    const auto difference = differences_.find(exponent);
    if (difference == differences_.end()) return kNone;
    const ValueId subtracted = difference->second->args[1];
    if (info(subtracted).width != 1 || (common != kNone && subtracted != common)) return kNone;
    common = subtracted;
  }
  return common;
}

// Elements x of 16 bits are rounded far more coarsely than the error of exp(x - m) with few terms, and their rows have no time for more.
ExpTerms KernelEmitter::terms(ValueId exponent) const {
  const auto difference = differences_.find(exponent);
  const bool narrow = difference != differences_.end() && narrow_.contains(difference->second->args[0]);
  return narrow ? ExpTerms::few : ExpTerms::many;
}

// Of exponents that are differences of pairs and one value that they share; nullopt if they are not.
std::optional<KernelEmitter::PairDifferences> KernelEmitter::pair_differences(
    llvm::ArrayRef<ValueId> exponents) {
  const ValueId common = subtrahend(exponents);
  if (common == kNone) return std::nullopt;
  PairDifferences out{{}, lane(common, 0)};
  for (const ValueId exponent : exponents) {
    const Pairs* p = pairs(differences_.at(exponent)->args[0]);
    if (p == nullptr) return std::nullopt;
    out.minuends.push_back(p);
  }
  return out;
}

// Lanes with one divisor are divided together.
bool KernelEmitter::divide(const List& list) {
  constexpr double kReused = 16;  // a reciprocal costs about 20 instructions and saves 2 to 3 each time
  const ValueId by = list[0]->args[1];
  for (const Apply* s : list) values_[s->result] = Lanes(static_cast<std::size_t>(info(s->result).width));
  const Lanes& divisors = lanes(by);
  for (const auto* y = divisors.begin(); y != divisors.end(); ++y) {
    if (std::find(divisors.begin(), y, *y) != y) continue;
    Lanes elements;
    llvm::SmallVector<Value**, 16> places;
    for (const Apply* s : list) {
      for (int i = 0; i < info(s->result).width; ++i) {
        if (lane(by, i) != *y) continue;
        elements.push_back(lane(s->args[0], i));
        places.push_back(&values_[s->result][static_cast<std::size_t>(i)]);
      }
    }
    const double uses =
        divisions_[by] * static_cast<double>(std::count(divisors.begin(), divisors.end(), *y));
    const auto divisor = Divisor::of(b_, *y, uses >= kReused);
    if (!divisor) return false;
    const Lanes quotients = divisor->divide(b_, elements);
    for (std::size_t i = 0; i < places.size(); ++i) *places[i] = quotients[i];
  }
  return true;
}

// At most kMostLanes lanes of a result share a branch: more would fill the registers.
void KernelEmitter::emit(const SumOfTerms& s) {
  constexpr int kMostLanes = 32;
  const kernel::Value& result = info(s.result);
  const bool plain = result.dtype != DType::f32 || options_.fast_math;
  Lanes sums(static_cast<std::size_t>(result.width), nullptr);
  const auto add = [&](std::size_t at, Value* term) {
    sums[at] = sums[at] == nullptr ? term : b_.CreateFAdd(sums[at], term);
  };
  for (std::size_t first = 0, end = 0; first < s.args.size(); first = end) {
    const ExpTerms few_or_many = terms(s.args[first]);
    int count = 0;
    for (end = first; end < s.args.size(); ++end) {
      count += info(s.args[end]).width;
      if (end > first && (count > kMostLanes * result.width || terms(s.args[end]) != few_or_many)) break;
    }
    const llvm::ArrayRef<ValueId> args = llvm::ArrayRef(s.args).slice(first, end - first);
    // One subtrahend for all lanes: they are of one sum.
    if (const std::optional<PairDifferences> p = plain ? std::nullopt : pair_differences(args)) {
      const auto elements = [&](Value* floor) {
        Lanes all;
        for (const Pairs* minuend : p->minuends) {
          const Pairs x = floor == nullptr ? *minuend : at_least(b_, *minuend, floor);
          for (std::size_t i = 0; i < 2 * x.words.size(); ++i)
            all.push_back(unpack(b_, x, static_cast<int>(i)));
        }
        return all;
      };
      add(0, sum_of_terms(b_, p->subtrahend, elements, few_or_many));
      continue;
    }
    std::vector<Lanes> x(sums.size());  // by lane of the result
    for (const ValueId a : args) {
      for (int i = 0; i < info(a).width; ++i) x[static_cast<std::size_t>(i) % x.size()].push_back(lane(a, i));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!plain) {
        add(i, sum_of_terms(b_, x[i], few_or_many));
        continue;
      }
      for (Value*& v : x[i])
        v = options_.fast_math && result.dtype == DType::f32
                ? fast_math(b_, ScalarOp::exp, {v})
                : apply(b_, ScalarOp::exp, {v}, {result.dtype}, result.dtype);
      add(i, math::fold(b_, x[i], [](const math::Real& l, const math::Real& r) { return l + r; }));
    }
  }
  values_[s.result] = std::move(sums);
}

}  // namespace bz::emit

#include "compiler/emit/kernel_emitter.h"

#include <fmt/format.h>
#include <llvm/IR/ConstantRange.h>

#include <algorithm>
#include <limits>

#include "compiler/emit/division.h"
#include "compiler/emit/math.h"
#include "compiler/emit/scalar.h"
#include "ir/simt.h"
#include "support/error.h"

namespace bz::emit {

using namespace kernel;
using llvm::Value;

namespace {

llvm::StringRef ref(std::string_view s) { return {s.data(), s.size()}; }

// Whether every value of the expression is a multiple of n.
bool divisible(const Index& e, std::int64_t n) {
  return e.constant() % n == 0 && std::all_of(e.terms().begin(), e.terms().end(),
                                              [&](const Index::Term& t) { return t.coef % n == 0; });
}

// The largest power of two that divides every value of the expression, at most `most`.
std::int64_t common_power(const Index& e, std::int64_t most) {
  while (most > 1 && !divisible(e, most)) most /= 2;
  return most;
}

// Whether all intermediate sums fit in 31 bits.
bool small(const Index& e) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t sum = std::abs(e.constant());
  for (const Index::Term& t : e.terms()) {
    const std::int64_t most = std::max(std::abs(t.atom->lo), std::abs(t.atom->hi));
    if (most > kMost || std::abs(t.coef) > kMost) return false;
    sum += std::abs(t.coef) * most;
    if (sum > kMost) return false;
    if (t.atom->kind != Index::Atom::Kind::var && !small(t.atom->argument)) return false;
  }
  return true;
}

}  // namespace

KernelEmitter::KernelEmitter(llvm::Module& module, const Kernel& k, const Options& options)
    : module_(module),
      context_(module.getContext()),
      k_(k),
      options_(options),
      b_(context_),
      line_(first_line(k) - 1) {
  count_divisions(k.body, 1);
}

void KernelEmitter::count_divisions(const Block& stmts, double times) {
  for (const Stmt& s : stmts) {
    if (const auto* loop = std::get_if<For>(&s.op)) {
      count_divisions(loop->body,
                      loop->level == Level::serial ? times * static_cast<double>(loop->var.extent) : times);
    } else if (const auto* turns = std::get_if<Turns>(&s.op)) {
      count_divisions(turns->body, times);
    } else if (const auto* branch = std::get_if<If>(&s.op)) {
      count_divisions(branch->body, times);
    } else {
      std::visit(
          [&](const auto& op) {
            if constexpr (requires { op.result; }) executions_[op.result] = times;
          },
          s.op);
      const auto* apply = std::get_if<Apply>(&s.op);
      if (apply == nullptr || apply->op != ScalarOp::div) continue;
      const ValueId by = apply->args[1];
      divisions_[by] += times / executions_[by] * info(apply->result).width / info(by).width;
    }
  }
}

llvm::Function* KernelEmitter::run() {
  llvm::Type* pointer = llvm::PointerType::get(context_, 1);
  const std::vector<llvm::Type*> params(k_.buffers.size(), pointer);
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), params, false);
  function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, k_.name, module_);
  function_->addFnAttr(llvm::Attribute::NoUnwind);
  // Block size: lets the code generator divide the registers.
  function_->addFnAttr("nvvm.reqntid", fmt::format("{}", k_.block));
  if (k_.cluster > 1) function_->addFnAttr("nvvm.cluster_dim", fmt::format("{}", k_.cluster));
  if (k_.blocks_together > 1) function_->addFnAttr("nvvm.minctasm", fmt::format("{}", k_.blocks_together));
  for (unsigned i = 0; i < params.size(); ++i) {
    const Buffer& buffer = k_.buffers[i];
    llvm::Argument* arg = function_->getArg(i);
    arg->setName(buffer.name);
    arg->addAttr(llvm::Attribute::NoAlias);
    arg->addAttr(buffer.written ? llvm::Attribute::WriteOnly : llvm::Attribute::ReadOnly);
    arg->addAttr(llvm::Attribute::getWithAlignment(
        context_, llvm::Align(static_cast<std::uint64_t>(buffer.alignment))));
  }
  b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
  for (std::size_t i = 0; i < k_.arrays.size(); ++i) {
    const Array& a = k_.arrays[i];
    if (a.space != Space::registers) continue;
    auto* slots = b_.CreateAlloca(
        llvm::ArrayType::get(memory_type(context_, a.dtype), static_cast<std::uint64_t>(a.elements)));
    slots->setAlignment(llvm::Align(16));
    slots->setName(a.name);
    arrays_[static_cast<ArrayId>(i)] = slots;
  }
  block(k_.body);
  b_.CreateRetVoid();
  return function_;
}

void KernelEmitter::block(const Block& stmts) {
  for (std::size_t i = 0; i < stmts.size();) {
    if (const List list = list_at(stmts, i); emit(list)) {
      line_ += static_cast<int>(list.size());
      i += list.size();
      continue;
    }
    ++line_;
    std::visit([&](const auto& op) { emit(op); }, stmts[i].op);
    ++i;
  }
}

llvm::Instruction* KernelEmitter::mark(llvm::Instruction* i) const {
  auto* number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context_), static_cast<std::uint64_t>(line_));
  i->setMetadata(ref(simt::kLine), llvm::MDNode::get(context_, llvm::ConstantAsMetadata::get(number)));
  return i;
}

llvm::Function* KernelEmitter::primitive(std::string_view name, llvm::Type* result,
                                         llvm::ArrayRef<llvm::Type*> args) {
  if (llvm::Function* f = module_.getFunction(ref(name))) return f;
  auto* type = llvm::FunctionType::get(result, args, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, ref(name), module_);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  f->addFnAttr(llvm::Attribute::WillReturn);
  if (name == simt::kThread || name == simt::kBlock || name == simt::kBlocks || name == simt::kShared ||
      name == simt::kClusterShared) {
    f->setDoesNotAccessMemory();
    // A block that the cluster has not is asked for where a condition keeps it from being used.
    if (name != simt::kClusterShared) f->addFnAttr(llvm::Attribute::Speculatable);
  } else {
    f->setConvergent();
    if (name == simt::kShuffleXor) f->setOnlyAccessesInaccessibleMemory();
  }
  return f;
}

Value* KernelEmitter::thread() {
  auto* call = b_.CreateCall(primitive(simt::kThread, b_.getInt32Ty(), {}));
  call->addRangeRetAttr(
      llvm::ConstantRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<std::uint64_t>(k_.block))));
  return call;
}

// ---- index expressions ----

Index KernelEmitter::with_lane(const Index& e, int lane) const {
  const Index value(lane);
  return e.substitute([&](std::int32_t id) -> const Index* { return id == kLaneVar ? &value : nullptr; });
}

Value* KernelEmitter::index(const Index& e) {
  llvm::Type* type = small(e) ? b_.getInt32Ty() : b_.getInt64Ty();
  const auto number = [&](std::int64_t n) {
    return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(n), true);
  };
  Value* sum = nullptr;
  bool positive = true;
  const auto plus = [&](Value* v, bool v_positive) {
    positive = positive && v_positive;
    sum = sum == nullptr ? v : b_.CreateAdd(sum, v, "", positive, true);
  };
  for (const Index::Term& t : e.terms()) {
    Value* atom = nullptr;
    if (t.atom->kind == Index::Atom::Kind::var) {
      atom = vars_.at(t.atom->variable.id);
    } else {
      const Index& argument = t.atom->argument;
      Value* a = index(argument);
      auto* c = llvm::ConstantInt::get(a->getType(), static_cast<std::uint64_t>(t.atom->divisor));
      const bool div = t.atom->kind == Index::Atom::Kind::div;
      if (argument.lo() >= 0) {
        atom = div ? b_.CreateUDiv(a, c) : b_.CreateURem(a, c);
      } else {  // rounding down, of a number that may be negative
        Value* r = b_.CreateSRem(a, c);
        Value* negative = b_.CreateICmpSLT(r, llvm::ConstantInt::get(a->getType(), 0));
        atom = div ? b_.CreateAdd(b_.CreateSDiv(a, c), b_.CreateSExt(negative, a->getType()))
                   : b_.CreateSelect(negative, b_.CreateAdd(r, c), r);
      }
    }
    atom = b_.CreateSExtOrTrunc(atom, type);
    const bool term_positive = t.atom->lo >= 0 && t.coef >= 0;
    plus(t.coef == 1 ? atom : b_.CreateMul(atom, number(t.coef), "", term_positive, true), term_positive);
  }
  if (sum == nullptr) return number(e.constant());
  if (e.constant() != 0) plus(number(e.constant()), e.constant() > 0);
  return sum;
}

Value* KernelEmitter::index64(const Index& e) {
  Value* v = index(e);
  return e.lo() >= 0 ? b_.CreateZExt(v, b_.getInt64Ty()) : b_.CreateSExt(v, b_.getInt64Ty());
}

Value* KernelEmitter::inside(const std::vector<IndexBound>& bounds, int lane) {
  Value* all = nullptr;
  for (const IndexBound& bound : bounds) {
    const Index e = with_lane(bound.e, lane);
    Value* v = index(e);
    const auto number = [&](std::int64_t n) {
      return llvm::ConstantInt::get(v->getType(), static_cast<std::uint64_t>(n), true);
    };
    // A bound beyond the type of v cannot fail, nor can one beyond the range of e.
    if (e.lo() < bound.lo) {
      Value* c = b_.CreateICmpSGE(v, number(bound.lo));
      all = all == nullptr ? c : b_.CreateAnd(all, c);
    }
    if (e.hi() >= bound.hi) {
      Value* c = b_.CreateICmpSLT(v, number(bound.hi));
      all = all == nullptr ? c : b_.CreateAnd(all, c);
    }
  }
  return all == nullptr ? b_.getTrue() : all;
}

// ---- values ----

void KernelEmitter::emit(const Const& s) { values_[s.result] = {constant(context_, s.value)}; }

void KernelEmitter::emit(const Apply& s) {
  if (s.op == ScalarOp::cast && round_pairs(s)) return;
  Lanes out;
  llvm::SmallVector<DType, 3> types;
  for (const ValueId a : s.args) types.push_back(info(a).dtype);
  for (int i = 0; i < info(s.result).width; ++i) {
    llvm::SmallVector<Value*, 3> args;
    for (const ValueId a : s.args) args.push_back(lane(a, i));
    if (s.nonpositive && types[0] == DType::f32) {
      out.push_back(exp_nonpositive(b_, args)[0]);
      continue;
    }
    out.push_back(apply(b_, s.op, args, types, info(s.result).dtype));
  }
  values_[s.result] = std::move(out);
}

// Exponentials or divisions that follow each other, none of which needs another: their branch is for all of them. Not so
// many that their values fill the registers.
KernelEmitter::List KernelEmitter::list_at(const Block& stmts, std::size_t first) const {
  constexpr int kMostLanes = 16;
  List list;
  int lanes = 0;
  for (std::size_t i = first; i < stmts.size(); ++i) {
    const auto* s = std::get_if<Apply>(&stmts[i].op);
    if (s == nullptr || (s->op != ScalarOp::exp && s->op != ScalarOp::div)) break;
    if (s->op == ScalarOp::exp && (!s->nonpositive || s->apart)) break;
    if (info(s->args[0]).dtype != DType::f32 || (s->op == ScalarOp::div && options_.fast_math)) break;
    const auto follows = [&](const Apply* earlier) {
      return std::find(s->args.begin(), s->args.end(), earlier->result) == s->args.end();
    };
    const bool alike =
        list.empty() || (s->op == list[0]->op && (s->op == ScalarOp::exp || s->args[1] == list[0]->args[1]));
    lanes += info(s->result).width;
    if (!alike || !std::all_of(list.begin(), list.end(), follows) || (!list.empty() && lanes > kMostLanes))
      break;
    list.push_back(s);
  }
  return list;
}

bool KernelEmitter::emit(const List& list) {
  if (list.empty()) return false;
  if (list[0]->op == ScalarOp::div) return divide(list);
  Lanes x;
  for (const Apply* s : list) {
    for (int i = 0; i < info(s->result).width; ++i) x.push_back(lane(s->args[0], i));
  }
  const Lanes y = exp_nonpositive(b_, x);
  const auto* next = y.begin();
  for (const Apply* s : list) {
    const auto* end = next + info(s->result).width;
    values_[s->result] = Lanes(next, end);
    next = end;
  }
  return true;
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

// f32 to bf16 two lanes at a time, as the instruction does.
bool KernelEmitter::round_pairs(const Apply& s) {
  const kernel::Value& to = info(s.result);
  if (to.dtype != DType::bf16 || info(s.args[0]).dtype != DType::f32 || to.width % 2 != 0) return false;
  Lanes out;
  for (int i = 0; i < to.width; i += 2) {
    Value* pair = pack_bf16(b_, lane(s.args[0], i), lane(s.args[0], i + 1));
    out.push_back(b_.CreateTrunc(pair, b_.getInt16Ty()));
    out.push_back(b_.CreateTrunc(b_.CreateLShr(pair, 16), b_.getInt16Ty()));
  }
  values_[s.result] = std::move(out);
  return true;
}

void KernelEmitter::emit(const Fold& s) {
  Lanes v = lanes(s.value);
  const DType t = info(s.value).dtype;
  while (v.size() > 1) {
    for (std::size_t i = 0; i < v.size() / 2; ++i)
      v[i] = apply(b_, s.op, {v[2 * i], v[2 * i + 1]}, {t, t}, t);
    v.resize(v.size() / 2);
  }
  values_[s.result] = std::move(v);
}

void KernelEmitter::emit(const Lane& s) { values_[s.result] = {lane(s.value, s.lane)}; }

void KernelEmitter::emit(const Widen& s) {
  values_[s.result] = Lanes(static_cast<std::size_t>(info(s.result).width), lane(s.value, 0));
}

void KernelEmitter::emit(const IndexValue& s) {
  Lanes out;
  for (int i = 0; i < info(s.result).width; ++i) {
    out.push_back(b_.CreateSExt(index(with_lane(s.index, i)), b_.getInt64Ty()));
  }
  values_[s.result] = std::move(out);
}

void KernelEmitter::emit(const Inside& s) {
  Lanes out;
  for (int i = 0; i < info(s.result).width; ++i) out.push_back(inside(s.bounds, i));
  values_[s.result] = std::move(out);
}

// ---- memory ----

KernelEmitter::Place KernelEmitter::place(const Buffer& b, int id) const {
  return {function_->getArg(static_cast<unsigned>(id)), b.dtype, b.elements, b.alignment, true};
}

KernelEmitter::Place KernelEmitter::place(ArrayId id) {
  const Array& a = k_.arrays[static_cast<std::size_t>(id)];
  if (a.space == Space::registers) return {arrays_.at(id), a.dtype, a.elements, size_of(a.dtype), false};
  Value* base = b_.CreateCall(primitive(simt::kShared, llvm::PointerType::get(context_, 3), {}));
  return {b_.CreateConstInBoundsGEP1_32(b_.getInt8Ty(), base, static_cast<unsigned>(k_.shared_offset(id))),
          a.dtype, a.elements, 16, false};
}

KernelEmitter::Place KernelEmitter::place_in(ArrayId id, const Index& rank) {
  Place p = place(id);
  auto* f = primitive(simt::kClusterShared, llvm::PointerType::get(context_, 7),
                      {llvm::PointerType::get(context_, 3), b_.getInt32Ty()});
  p.base = b_.CreateCall(f, {p.base, b_.CreateZExtOrTrunc(index(rank), b_.getInt32Ty())});
  return p;
}

// The constant part is added last, so that neighbouring accesses share the rest.
Value* KernelEmitter::address(const Place& p, const Index& offset) {
  llvm::Type* element = memory_type(context_, p.dtype);
  const Index variable = offset - Index(offset.constant());
  const bool within = variable.lo() >= 0 && offset.constant() >= 0;
  const auto add = [&](Value* base, Value* n) {
    return within ? b_.CreateInBoundsGEP(element, base, n) : b_.CreateGEP(element, base, n);
  };
  Value* at = variable.is_constant() ? p.base : add(p.base, index64(variable));
  if (offset.constant() == 0) return at;
  return add(at, b_.getInt64(static_cast<std::uint64_t>(offset.constant())));
}

Value* KernelEmitter::address_if(const Place& p, const Index& offset, Value* mask) {
  Value* at = b_.CreateSelect(mask, index64(offset), b_.getInt64(0));
  return b_.CreateInBoundsGEP(memory_type(context_, p.dtype), p.base, at);
}

int KernelEmitter::piece(const Place& p, const Index& offset, int width) const {
  if (width == 1) return 1;
  const Index first = with_lane(offset, 0);
  if (!(offset - first == Index::var({kLaneVar, width}))) return 1;
  int n = std::min(width, 16 / size_of(p.dtype));
  while (n > 1 && (n * size_of(p.dtype) > p.alignment || !divisible(first, n) || p.elements < n)) n /= 2;
  return n;
}

Value* KernelEmitter::all_of(const Lanes& masks, int first, int count) {
  Value* all = masks[static_cast<std::size_t>(first)];
  for (int i = 1; i < count; ++i) all = b_.CreateAnd(all, masks[static_cast<std::size_t>(first + i)]);
  return all;
}

Value* KernelEmitter::any_of(const Lanes& masks) {
  Value* any = masks[0];
  for (std::size_t i = 1; i < masks.size(); ++i) any = b_.CreateOr(any, masks[i]);
  return any;
}

llvm::Align KernelEmitter::alignment(const Place& p, const Index& offset) const {
  const int size = size_of(p.dtype);
  return llvm::Align(
      static_cast<std::uint64_t>(size * common_power(offset, std::max(p.alignment / size, 1))));
}

void KernelEmitter::load_piece(const Place& p, Value* from, llvm::Align align, int count, Lanes& out) {
  llvm::Type* element = memory_type(context_, p.dtype);
  if (count == 1) {
    out.push_back(from_memory(b_, mark(b_.CreateAlignedLoad(element, from, align)), p.dtype));
    return;
  }
  if (p.dtype == DType::bf16) {  // in pairs: one instruction an element makes f32 of them
    auto* pairs = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(count / 2));
    Value* v = mark(b_.CreateAlignedLoad(pairs, from, align));
    for (int i = 0; i < count; i += 2) {
      Value* pair = b_.CreateExtractElement(v, static_cast<std::uint64_t>(i / 2));
      out.push_back(b_.CreateBitCast(b_.CreateShl(pair, 16), b_.getFloatTy()));
      out.push_back(b_.CreateBitCast(b_.CreateAnd(pair, b_.getInt32(0xffff0000)), b_.getFloatTy()));
    }
    return;
  }
  auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(count));
  Value* v = mark(b_.CreateAlignedLoad(vector, from, align));
  for (int i = 0; i < count; ++i)
    out.push_back(from_memory(b_, b_.CreateExtractElement(v, static_cast<std::uint64_t>(i)), p.dtype));
}

// Under lane masks: a whole vector where that is possible, single elements elsewhere.
void KernelEmitter::load_partly(const Place& p, const Index& at, const Lanes& masks, Lanes& out) {
  const int n = static_cast<int>(masks.size());
  // In global memory the neighbours may be loaded too, and aligned vectors leave a buffer at its end only.
  Value* can_load_whole = p.global ? inside({{at, 0, p.elements - n + 1}}, 0) : all_of(masks, 0, n);
  const auto load_whole = [&](Lanes& to) {
    load_piece(p, p.global ? address_if(p, at, any_of(masks)) : address(p, at), alignment(p, at), n, to);
  };
  if (can_load_whole == b_.getTrue()) return load_whole(out);
  auto* whole = llvm::BasicBlock::Create(context_, "whole", function_);
  auto* part = llvm::BasicBlock::Create(context_, "part", function_);
  auto* join = llvm::BasicBlock::Create(context_, "join", function_);
  b_.CreateCondBr(can_load_whole, whole, part);
  Lanes a, b;
  b_.SetInsertPoint(whole);
  load_whole(a);
  auto* whole_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(part);
  for (int j = 0; j < n; ++j) {
    const Index element = at + Index(j);
    load_piece(p, address_if(p, element, masks[static_cast<std::size_t>(j)]), alignment(p, element), 1, b);
  }
  auto* part_end = b_.GetInsertBlock();
  b_.CreateBr(join);
  b_.SetInsertPoint(join);
  for (std::size_t j = 0; j < a.size(); ++j) {
    auto* phi = b_.CreatePHI(a[j]->getType(), 2);
    phi->addIncoming(a[j], whole_end);
    phi->addIncoming(b[j], part_end);
    out.push_back(phi);
  }
}

KernelEmitter::Lanes KernelEmitter::load(const Place& p, const Index& offset, int width, ValueId mask) {
  const bool lane_masks = mask != kNone && info(mask).width > 1;
  const int n = piece(p, offset, offset.uses(kLaneVar) ? width : 1);
  Lanes out;
  for (int i = 0; i < width; i += n) {
    const Index at = with_lane(offset, i);
    if (n > 1 && lane_masks) {
      const Lanes& masks = lanes(mask);
      load_partly(p, at, Lanes(masks.begin() + i, masks.begin() + i + n), out);
      continue;
    }
    // Under a false mask the first elements are read instead: no branch, and always a good address.
    Value* from = mask == kNone ? address(p, at) : address_if(p, at, lane(mask, i));
    load_piece(p, from, alignment(p, at), n, out);
  }
  return out;
}

template <class F>
void KernelEmitter::guarded(Value* condition, F&& body) {
  auto* then = llvm::BasicBlock::Create(context_, "then", function_);
  auto* after = llvm::BasicBlock::Create(context_, "after", function_);
  b_.CreateCondBr(condition, then, after);
  b_.SetInsertPoint(then);
  body();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

void KernelEmitter::store_piece(const Place& p, const Index& offset, llvm::ArrayRef<Value*> values, DType t) {
  Value* to = address(p, offset);
  const llvm::Align align = alignment(p, offset);
  if (values.size() == 1) {
    mark(b_.CreateAlignedStore(to_memory(b_, values[0], t, p.dtype), to, align));
    return;
  }
  if (p.dtype == DType::bf16 && t == DType::f32) {
    Value* v = llvm::PoisonValue::get(
        llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(values.size() / 2)));
    for (std::size_t i = 0; i < values.size(); i += 2) {
      v = b_.CreateInsertElement(v, pack_bf16(b_, values[i], values[i + 1]), i / 2);
    }
    mark(b_.CreateAlignedStore(v, to, align));
    return;
  }
  Value* v = llvm::PoisonValue::get(
      llvm::FixedVectorType::get(memory_type(context_, p.dtype), static_cast<unsigned>(values.size())));
  for (std::size_t i = 0; i < values.size(); ++i)
    v = b_.CreateInsertElement(v, to_memory(b_, values[i], t, p.dtype), i);
  mark(b_.CreateAlignedStore(v, to, align));
}

void KernelEmitter::store(const Place& p, const Index& offset, int width, ValueId value, ValueId mask) {
  const DType t = info(value).dtype;
  const bool lane_masks = mask != kNone && info(mask).width > 1;
  const int n = piece(p, offset, width);
  const auto whole = [&](int first, int count) {
    llvm::SmallVector<Value*, 8> values;
    for (int j = 0; j < count; ++j) values.push_back(lane(value, first + j));
    store_piece(p, with_lane(offset, first), values, t);
  };
  const auto all = [&] {
    for (int i = 0; i < width; i += n) whole(i, n);
  };
  if (mask == kNone) return all();
  if (!lane_masks) return guarded(lane(mask, 0), all);
  for (int i = 0; i < width; i += n) {
    if (n == 1) {
      guarded(lane(mask, i), [&] { whole(i, 1); });
      continue;
    }
    auto* part = llvm::BasicBlock::Create(context_, "part", function_);
    auto* full = llvm::BasicBlock::Create(context_, "whole", function_);
    auto* join = llvm::BasicBlock::Create(context_, "join", function_);
    b_.CreateCondBr(all_of(lanes(mask), i, n), full, part);
    b_.SetInsertPoint(full);
    whole(i, n);
    b_.CreateBr(join);
    b_.SetInsertPoint(part);
    for (int j = 0; j < n; ++j) guarded(lane(mask, i + j), [&] { whole(i + j, 1); });
    b_.CreateBr(join);
    b_.SetInsertPoint(join);
  }
}

void KernelEmitter::emit(const Load& s) {
  values_[s.result] = load(place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer), s.offset,
                           info(s.result).width, s.mask);
}

void KernelEmitter::emit(const Store& s) {
  store(place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer), s.offset, s.width, s.value, s.mask);
}

void KernelEmitter::emit(const Get& s) {
  values_[s.result] = load(place(s.array), s.at, info(s.result).width, s.mask);
}

void KernelEmitter::emit(const Set& s) {
  store(s.rank ? place_in(s.array, *s.rank) : place(s.array), s.at, s.width, s.value, s.mask);
}

// ---- asynchronous copies ----

// How many bytes of `n` elements from `offset` on are copied: not those beyond the end of the buffer, none before its
// beginning or under a false mask. Null when it is always all.
Value* KernelEmitter::valid_bytes(const Place& from, const Index& offset, int n, ValueId mask) {
  const auto number = [&](std::int64_t v) { return b_.getInt64(static_cast<std::uint64_t>(v)); };
  Value* valid = nullptr;
  if (offset.hi() + n > from.elements) {
    Value* left = b_.CreateSub(number(from.elements), index64(offset));
    left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, number(n));
    left = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, number(0));
    valid = b_.CreateTrunc(b_.CreateMul(left, number(size_of(from.dtype))), b_.getInt32Ty());
  }
  Value* starts = mask == kNone ? nullptr : lane(mask, 0);
  // Where rows are aligned to another access; a piece is an aligned one, so all of it lies before the beginning.
  if (offset.lo() < 0) {
    Value* begun = inside({{offset, 0, from.elements}}, 0);
    starts = starts == nullptr ? begun : b_.CreateAnd(starts, begun);
  }
  if (starts == nullptr) return valid;
  if (valid == nullptr) valid = b_.getInt32(static_cast<std::uint32_t>(n * size_of(from.dtype)));
  return b_.CreateSelect(starts, valid, b_.getInt32(0));
}

// In pieces of 16, 8 or 4 bytes, which is what there are instructions for; elements of smaller ones are loaded and stored.
void KernelEmitter::emit(const Copy& s) {
  constexpr int kLeastBytes = 4;
  const Place from = place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer), to = place(s.array);
  int n = std::min(piece(from, s.offset, s.width), piece(to, s.at, s.width));
  if (n * size_of(from.dtype) < kLeastBytes) n = 1;
  const int bytes = n * size_of(from.dtype);
  for (int i = 0; i < s.width; i += n) {
    const Index offset = with_lane(s.offset, i);
    Value* valid = valid_bytes(from, offset, n, s.mask);
    Value* any = valid == nullptr ? nullptr : b_.CreateICmpNE(valid, b_.getInt32(0));
    Value* source = any == nullptr ? address(from, offset) : address_if(from, offset, any);
    const Index at = with_lane(s.at, i);
    Value* target = address(to, at);
    if (bytes < kLeastBytes) {
      llvm::Type* element = memory_type(context_, from.dtype);
      Value* v = mark(b_.CreateAlignedLoad(element, source, alignment(from, offset)));
      if (any != nullptr) v = b_.CreateSelect(any, v, llvm::Constant::getNullValue(element));
      mark(b_.CreateAlignedStore(v, target, alignment(to, at)));
      continue;
    }
    auto* copy = primitive(simt::kCopy, b_.getVoidTy(),
                           {llvm::PointerType::get(context_, 3), llvm::PointerType::get(context_, 1),
                            b_.getInt32Ty(), b_.getInt32Ty()});
    Value* all = b_.getInt32(static_cast<std::uint32_t>(bytes));
    mark(b_.CreateCall(copy, {target, source, all, valid == nullptr ? all : valid}));
  }
}

void KernelEmitter::emit(const Commit&) {
  mark(b_.CreateCall(primitive(simt::kCopyCommit, b_.getVoidTy(), {})));
}

void KernelEmitter::emit(const Await& s) {
  auto* await = primitive(simt::kCopyAwait, b_.getVoidTy(), {b_.getInt32Ty()});
  mark(b_.CreateCall(await, {b_.getInt32(static_cast<std::uint32_t>(s.pending))}));
}

// ---- threads ----

void KernelEmitter::emit(const Barrier& s) {
  const std::string_view name = s.scope == Scope::cluster ? simt::kClusterBarrier : simt::kBarrier;
  mark(b_.CreateCall(primitive(name, b_.getVoidTy(), {})));
}

Value* KernelEmitter::shuffle32(Value* bits, int mask) {
  auto* f = primitive(simt::kShuffleXor, b_.getInt32Ty(), {b_.getInt32Ty(), b_.getInt32Ty()});
  return mark(b_.CreateCall(f, {bits, b_.getInt32(static_cast<std::uint32_t>(mask))}));
}

void KernelEmitter::emit(const Shuffle& s) {
  Lanes out;
  for (Value* v : lanes(s.value)) {
    llvm::Type* t = v->getType();
    const unsigned width = t->getPrimitiveSizeInBits();
    if (width == 64) {
      Value* bits = b_.CreateBitCast(v, b_.getInt64Ty());
      Value* lo = shuffle32(b_.CreateTrunc(bits, b_.getInt32Ty()), s.mask);
      Value* hi = shuffle32(b_.CreateTrunc(b_.CreateLShr(bits, 32), b_.getInt32Ty()), s.mask);
      bits = b_.CreateOr(b_.CreateZExt(lo, b_.getInt64Ty()),
                         b_.CreateShl(b_.CreateZExt(hi, b_.getInt64Ty()), 32));
      out.push_back(b_.CreateBitCast(bits, t));
    } else {
      Value* bits = b_.CreateZExt(b_.CreateBitCast(v, b_.getIntNTy(width)), b_.getInt32Ty());
      out.push_back(b_.CreateBitCast(b_.CreateTrunc(shuffle32(bits, s.mask), b_.getIntNTy(width)), t));
    }
  }
  values_[s.result] = std::move(out);
}

// ---- structure ----

void KernelEmitter::emit(const Turns& s) {
  llvm::Type* type =
      s.next.extent <= std::numeric_limits<std::int32_t>::max() ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* teams = b_.CreateCall(primitive(simt::kBlocks, b_.getInt32Ty(), {}));
  if (k_.cluster > 1) teams = b_.CreateUDiv(teams, b_.getInt32(static_cast<std::uint32_t>(k_.cluster)));
  Value* first = b_.CreateZExtOrTrunc(vars_.at(s.first), type);
  auto* before = b_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(context_, "turn", function_);
  auto* after = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  auto* turn = b_.CreatePHI(type, 2, k_.vars[static_cast<std::size_t>(s.var.id)]);
  turn->addIncoming(first, before);
  Value* next = b_.CreateAdd(turn, b_.CreateZExt(teams, type), "", true, true);
  vars_[s.var.id] = turn;
  vars_[s.next.id] = next;
  block(s.body);
  turn->addIncoming(next, b_.GetInsertBlock());
  auto* extent = llvm::ConstantInt::get(type, static_cast<std::uint64_t>(s.var.extent));
  b_.CreateCondBr(b_.CreateICmpSLT(next, extent), body, after);
  b_.SetInsertPoint(after);
}

void KernelEmitter::emit(const If& s) {
  guarded(lane(s.condition, 0), [&] { block(s.body); });
}

void KernelEmitter::emit(const For& s) {
  const std::int32_t id = s.var.id;
  switch (s.level) {
    case Level::grid:
    case Level::cluster: {
      Value* b = b_.CreateCall(primitive(simt::kBlock, b_.getInt32Ty(), {}));
      if (k_.cluster > 1) {
        Value* n = b_.getInt32(static_cast<std::uint32_t>(k_.cluster));
        b = s.level == Level::grid ? b_.CreateUDiv(b, n) : b_.CreateURem(b, n);
      }
      vars_[id] = b;
      return block(s.body);
    }
    case Level::thread: {
      // Threads are numbered with the innermost loop fastest.
      std::int64_t inside = 1;
      for (const Block* inner = &s.body; !inner->empty();) {
        const For* next = std::get_if<For>(&inner->front().op);
        if (next == nullptr || next->level != Level::thread) break;
        inside *= next->var.extent;
        inner = &next->body;
      }
      Value* t = b_.CreateUDiv(thread(), b_.getInt32(static_cast<std::uint32_t>(inside)));
      vars_[id] = b_.CreateURem(t, b_.getInt32(static_cast<std::uint32_t>(s.var.extent)));
      return block(s.body);
    }
    case Level::serial: {
      if (s.var.extent == 1) {
        vars_[id] = b_.getInt32(0);
        return block(s.body);
      }
      auto* before = b_.GetInsertBlock();
      auto* body = llvm::BasicBlock::Create(context_, "loop", function_);
      auto* after = llvm::BasicBlock::Create(context_, "done", function_);
      llvm::Type* type =
          s.var.extent <= std::numeric_limits<std::int32_t>::max() ? b_.getInt32Ty() : b_.getInt64Ty();
      b_.CreateBr(body);
      b_.SetInsertPoint(body);
      auto* i = b_.CreatePHI(type, 2, k_.vars[static_cast<std::size_t>(id)]);
      i->addIncoming(llvm::ConstantInt::get(type, 0), before);
      vars_[id] = i;
      block(s.body);
      Value* next = b_.CreateAdd(i, llvm::ConstantInt::get(type, 1), "", true, true);
      i->addIncoming(next, b_.GetInsertBlock());
      auto* extent = llvm::ConstantInt::get(type, static_cast<std::uint64_t>(s.var.extent));
      b_.CreateCondBr(b_.CreateICmpNE(next, extent), body, after);
      b_.SetInsertPoint(after);
      return;
    }
  }
}

}  // namespace bz::emit

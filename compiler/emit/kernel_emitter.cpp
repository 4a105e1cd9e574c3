#include "compiler/emit/kernel_emitter.h"

#include <fmt/format.h>
#include <llvm/IR/ConstantRange.h>

#include <algorithm>
#include <limits>

#include "compiler/emit/cache_hints.h"
#include "compiler/emit/math.h"
#include "compiler/emit/math_builder.h"
#include "compiler/emit/scalar.h"
#include "ir/simt.h"
#include "support/error.h"

namespace bz::emit {

using namespace kernel;
using llvm::Value;

namespace {

llvm::StringRef ref(std::string_view s) { return {s.data(), s.size()}; }

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
  llvm::FastMathFlags flags;
  flags.setAllowContract(options.fast_math);
  b_.setFastMathFlags(flags);
  count_uses(k.body, 1);
}

void KernelEmitter::count_uses(const Block& stmts, double times) {
  for (const Stmt& s : stmts) {
    if (const auto* loop = std::get_if<For>(&s.op)) {
      count_uses(loop->body,
                 loop->level == Level::serial ? times * static_cast<double>(loop->var.extent) : times);
    } else if (const auto* turns = std::get_if<Turns>(&s.op)) {
      count_uses(turns->body, times);
    } else if (const auto* branch = std::get_if<If>(&s.op)) {
      count_uses(branch->body, times);
    } else {
      std::visit(
          [&](const auto& op) {
            if constexpr (requires { op.result; }) executions_[op.result] = times;
            if constexpr (requires(ValueId id) { id = op.value; }) ++uses_[op.value];
          },
          s.op);
      // Extrema take pairs as they are.
      if (const auto* fold = std::get_if<Fold>(&s.op); fold != nullptr && is_extremum(fold->op))
        --uses_[fold->value];
      if (const auto* exp = std::get_if<ScaledExp>(&s.op)) {
        for (const ValueId x : exp->x) ++uses_[x];
      }
      if (const auto* terms = std::get_if<SumOfTerms>(&s.op)) {
        for (const ValueId a : terms->args) ++uses_[a];
      }
      const auto* apply = std::get_if<Apply>(&s.op);
      if (apply == nullptr) continue;
      if (!is_extremum(apply->op)) {
        for (const ValueId a : apply->args) ++uses_[a];
      }
      if (apply->op != ScalarOp::div) continue;
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
  if (k_.cluster > 1 && !k_.gang) function_->addFnAttr("nvvm.cluster_dim", fmt::format("{}", k_.cluster));
  if (k_.blocks_together > 1) function_->addFnAttr("nvvm.minctasm", fmt::format("{}", k_.blocks_together));
  for (unsigned i = 0; i < params.size(); ++i) {
    const Buffer& buffer = k_.buffers[i];
    llvm::Argument* arg = function_->getArg(i);
    arg->setName(buffer.name);
    if (!buffer.shared) {
      arg->addAttr(llvm::Attribute::NoAlias);
      arg->addAttr(buffer.written ? llvm::Attribute::WriteOnly : llvm::Attribute::ReadOnly);
    }
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
  if (evict_) set_evict(*i, *evict_);
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

KernelEmitter::Lanes KernelEmitter::lanes(ValueId id) {
  if (pairs(id) == nullptr) return values_.at(id);
  Lanes out;
  for (int i = 0; i < info(id).width; ++i) out.push_back(lane(id, i));
  return out;
}

Value* KernelEmitter::lane(ValueId id, int i) {
  if (const Pairs* p = pairs(id)) return unpack(b_, *p, i);
  const Lanes& l = values_.at(id);
  return l.size() == 1 ? l[0] : l[static_cast<std::size_t>(i)];
}

const Pairs* KernelEmitter::pairs(ValueId id) const {
  const auto at = pairs_.find(id);
  return at == pairs_.end() ? nullptr : &at->second;
}

void KernelEmitter::emit(const Apply& s) {
  if (s.op == ScalarOp::cast && round_pairs(s)) return;
  if (is_extremum(s.op)) {
    const Pairs *x = pairs(s.args[0]), *y = pairs(s.args[1]);
    if (x != nullptr && y != nullptr && x->dtype == y->dtype) {
      pairs_[s.result] = extremum(b_, s.op, *x, *y);
      return;
    }
  }
  if (s.op == ScalarOp::sub) differences_[s.result] = &s;
  if (s.op == ScalarOp::select && narrow_.contains(s.args[1])) {
    narrow_.insert(s.result);
    const Pairs* x = pairs(s.args[1]);
    // Unpacked at each use, as what is loaded (kernel_memory.cpp).
    if (x != nullptr && info(s.args[0]).width == 1 && info(s.args[2]).width == 1 && uses_[s.result] <= 1) {
      if (std::optional<Pairs> chosen = select(b_, lane(s.args[0], 0), *x, lane(s.args[2], 0))) {
        pairs_[s.result] = std::move(*chosen);
        return;
      }
    }
  }
  Lanes out;
  llvm::SmallVector<DType, 3> types;
  for (const ValueId a : s.args) types.push_back(info(a).dtype);
  for (int i = 0; i < info(s.result).width; ++i) {
    llvm::SmallVector<Value*, 3> args;
    for (const ValueId a : s.args) args.push_back(lane(a, i));
    if (options_.fast_math && has_fast_math(s.op) && types[0] == DType::f32) {
      out.push_back(fast_math(b_, s.op, args));
    } else if (s.nonpositive && types[0] == DType::f32) {
      out.push_back(exp_nonpositive(b_, args, terms(s.args[0]))[0]);
    } else {
      out.push_back(apply(b_, s.op, args, types, info(s.result).dtype));
    }
  }
  values_[s.result] = std::move(out);
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
  if (const Pairs* p = pairs(s.value); p != nullptr && is_extremum(s.op)) {
    values_[s.result] = {extremum_of(b_, s.op, p)};
    return;
  }
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

// ---- structure ----

void KernelEmitter::emit(const Let& s) { vars_[s.var.id] = index(s.value); }

void KernelEmitter::emit(const Teams& s) {
  Value* blocks = b_.CreateCall(primitive(simt::kBlocks, b_.getInt32Ty(), {}));
  vars_[s.var.id] =
      k_.cluster == 1 ? blocks : b_.CreateUDiv(blocks, b_.getInt32(static_cast<std::uint32_t>(k_.cluster)));
}

void KernelEmitter::emit(const Turns& s) {
  llvm::Type* type =
      s.next.extent <= std::numeric_limits<std::int32_t>::max() ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* teams = b_.CreateZExt(vars_.at(s.teams), type);
  auto* end =
      b_.CreateAdd(llvm::ConstantInt::get(type, static_cast<std::uint64_t>(s.end)),
                   b_.CreateMul(teams, llvm::ConstantInt::get(type, static_cast<std::uint64_t>(s.lag))));
  Value* first = b_.CreateZExtOrTrunc(vars_.at(s.first), type);
  auto* before = b_.GetInsertBlock();
  auto* body = llvm::BasicBlock::Create(context_, "turn", function_);
  auto* after = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateBr(body);
  b_.SetInsertPoint(body);
  auto* turn = b_.CreatePHI(type, 2, k_.vars[static_cast<std::size_t>(s.var.id)]);
  turn->addIncoming(first, before);
  auto* round = b_.CreatePHI(type, 2, k_.vars[static_cast<std::size_t>(s.round.id)]);
  round->addIncoming(llvm::ConstantInt::get(type, 0), before);
  Value* next = b_.CreateAdd(turn, teams, "", true, true);
  Value* next_round = b_.CreateAdd(round, llvm::ConstantInt::get(type, 1), "", true, true);
  vars_[s.var.id] = turn;
  vars_[s.next.id] = next;
  vars_[s.round.id] = round;
  block(s.body);
  turn->addIncoming(next, b_.GetInsertBlock());
  round->addIncoming(next_round, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), body, after);
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
        // Blocks that follow each other are neighbours on the device and share its paths to memory. Those of a gang are not: of 16 gangs the
        // slowest then took longer than all need on average (layer_norm of 4096 x 65536 f32 0.548 ms, 0.539 so; H200, 2026-11).
        const bool outer = (s.level == Level::grid) != k_.gang;
        if (k_.gang) n = b_.CreateUDiv(b_.CreateCall(primitive(simt::kBlocks, b_.getInt32Ty(), {})), n);
        b = outer ? b_.CreateUDiv(b, n) : b_.CreateURem(b, n);
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
      return serial_loop(s);
    }
  }
}

// Where all iterations take the same side of the branch of their exponentials, there are two loops.
void KernelEmitter::serial_loop(const For& s) {
  const ScaledExp* exp = loop_exp(s.body);
  if (exp == nullptr) return loop(s);
  const std::pair key(exp->pivot, exp->least);
  Value* condition = no_difference(*exp);
  auto* then = llvm::BasicBlock::Create(context_, "then", function_);
  auto* otherwise = llvm::BasicBlock::Create(context_, "else", function_);
  auto* done = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateCondBr(condition, then, otherwise);
  for (const bool side : {true, false}) {
    b_.SetInsertPoint(side ? then : otherwise);
    no_difference_[key] = b_.getInt1(side);
    loop(s);
    b_.CreateBr(done);
  }
  no_difference_.erase(key);
  b_.SetInsertPoint(done);
}

void KernelEmitter::loop(const For& s) {
  const std::int32_t id = s.var.id;
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
  auto* back = b_.CreateCondBr(b_.CreateICmpNE(next, extent), body, after);
  if (s.unroll > 1) {
    auto* count = llvm::ConstantAsMetadata::get(b_.getInt32(static_cast<std::uint32_t>(s.unroll)));
    auto* wanted =
        llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.unroll.count"), count});
    auto* loop = llvm::MDNode::getDistinct(context_, {nullptr, wanted});
    loop->replaceOperandWith(0, loop);
    back->setMetadata(llvm::LLVMContext::MD_loop, loop);
  }
  b_.SetInsertPoint(after);
}

}  // namespace bz::emit

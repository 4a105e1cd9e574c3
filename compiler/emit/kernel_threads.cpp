// What threads and blocks do together: barriers, shuffles, messages between blocks of a cluster, queues, gangs.
#include "compiler/emit/kernel_emitter.h"
#include "compiler/emit/scalar.h"
#include "ir/simt.h"

namespace bz::emit {

using namespace kernel;
using llvm::Value;

void KernelEmitter::emit(const Barrier& s) { barrier(s.scope); }

void KernelEmitter::barrier(Scope scope) {
  const std::string_view name = scope == Scope::cluster ? simt::kClusterBarrier : simt::kBarrier;
  mark(b_.CreateCall(primitive(name, b_.getVoidTy(), {})));
}

// ---- queues ----

Value* KernelEmitter::first_thread() { return b_.CreateICmpEQ(thread(), b_.getInt32(0)); }

void KernelEmitter::emit(const Signal& s) {
  auto* signal = primitive(simt::kSignal, b_.getVoidTy(), {llvm::PointerType::get(context_, 1)});
  barrier(Scope::block);
  guarded(first_thread(), [&] {
    const Place counters = place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer);
    mark(b_.CreateCall(signal, {address(counters, s.offset)}));
  });
}

void KernelEmitter::emit(const Wait& s) {
  auto* wait = primitive(simt::kWait, b_.getVoidTy(), {llvm::PointerType::get(context_, 1), b_.getInt32Ty()});
  guarded(first_thread(), [&] {
    const Place counters = place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer);
    mark(
        b_.CreateCall(wait, {address(counters, s.offset), b_.getInt32(static_cast<std::uint32_t>(s.count))}));
  });
  barrier(Scope::block);
}

void KernelEmitter::emit(const Ticket& s) {
  auto* take = primitive(simt::kTicket, b_.getInt32Ty(), {llvm::PointerType::get(context_, 1)});
  const Place queue = place(k_.buffers[static_cast<std::size_t>(s.queue)], s.queue);
  Value* slot = place(s.slot).base;
  guarded(first_thread(), [&] {
    mark(b_.CreateAlignedStore(mark(b_.CreateCall(take, {queue.base})), slot, llvm::Align(4)));
  });
  barrier(Scope::block);
  vars_[s.var.id] = mark(b_.CreateAlignedLoad(b_.getInt32Ty(), slot, llvm::Align(4)));
}

// ---- gangs ----

// Rounds count from 1: a slot is 0 at first.
void KernelEmitter::emit(const Post& s) {
  auto* post = primitive(simt::kPost, b_.getVoidTy(),
                         {llvm::PointerType::get(context_, 1), b_.getInt32Ty(), b_.getInt32Ty()});
  const Place slots = place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer);
  Value* round = b_.CreateZExtOrTrunc(index(s.round + Index(1)), b_.getInt32Ty());
  mark(b_.CreateCall(post,
                     {address(slots, s.offset), b_.CreateBitCast(lane(s.value, 0), b_.getInt32Ty()), round}));
}

// Who looks before it can be there delays those who post.
void KernelEmitter::emit(const Collect& s) {
  auto* peek = primitive(simt::kPeek, b_.getInt64Ty(), {llvm::PointerType::get(context_, 1)});
  const Place slots = place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer);
  Value* round = b_.CreateZExtOrTrunc(index(s.round + Index(1)), b_.getInt64Ty());
  Lanes addresses;
  for (const Index& offset : s.offsets) addresses.push_back(address(slots, offset));
  auto* look = llvm::BasicBlock::Create(context_, "look", function_);
  auto* again = llvm::BasicBlock::Create(context_, "again", function_);
  auto* all = llvm::BasicBlock::Create(context_, "all", function_);
  auto* pause = primitive(simt::kPause, b_.getVoidTy(), {b_.getInt32Ty()});
  mark(b_.CreateCall(pause, {b_.getInt32(0)}));
  b_.CreateBr(look);
  b_.SetInsertPoint(look);
  Lanes words;
  for (Value* at : addresses) words.push_back(mark(b_.CreateCall(peek, {at})));
  Value* there = b_.getTrue();
  for (Value* word : words) there = b_.CreateAnd(there, b_.CreateICmpEQ(b_.CreateLShr(word, 32), round));
  b_.CreateCondBr(there, all, again);
  b_.SetInsertPoint(again);
  mark(b_.CreateCall(pause, {b_.getInt32(1)}));
  b_.CreateBr(look);
  b_.SetInsertPoint(all);
  for (std::size_t i = 0; i < s.results.size(); ++i) {
    Value* bits = b_.CreateTrunc(words[i], b_.getInt32Ty());
    Lanes out;
    out.push_back(b_.CreateBitCast(bits, value_type(context_, info(s.results[i]).dtype)));
    values_[s.results[i]] = std::move(out);
  }
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

// ---- messages ----

// A thread each opens a mailbox.
void KernelEmitter::emit(const Start& s) {
  if (s.boxes != kNone) {
    const Place boxes = place(s.boxes);
    auto* open = primitive(simt::kBoxOpen, b_.getVoidTy(), {llvm::PointerType::get(context_, 3)});
    for (std::int64_t i = 0; i < boxes.elements; ++i) {
      Value* own = b_.CreateICmpEQ(thread(), b_.getInt32(static_cast<std::uint32_t>(i % k_.block)));
      guarded(own, [&] { mark(b_.CreateCall(open, {address(boxes, Index(i))})); });
    }
  }
  mark(b_.CreateCall(primitive(simt::kClusterStart, b_.getVoidTy(), {})));
}

void KernelEmitter::emit(const Started&) {
  mark(b_.CreateCall(primitive(simt::kClusterStarted, b_.getVoidTy(), {})));
}

void KernelEmitter::emit(const Send& s) {
  llvm::Type* remote = llvm::PointerType::get(context_, 7);
  auto* send = primitive(simt::kSend, b_.getVoidTy(), {remote, b_.getInt64Ty(), b_.getInt32Ty(), remote});
  const Place to = place_in(s.array, s.rank);
  Value* box = address(place_in(s.boxes, s.rank), s.box);
  const int bytes = size_of(to.dtype);
  for (int i = 0; i < info(s.value).width; ++i) {
    Value* bits = b_.CreateBitCast(lane(s.value, i), b_.getIntNTy(8 * static_cast<unsigned>(bytes)));
    mark(b_.CreateCall(send, {address(to, with_lane(s.at, i)), b_.CreateZExt(bits, b_.getInt64Ty()),
                              b_.getInt32(static_cast<std::uint32_t>(bytes)), box}));
  }
}

void KernelEmitter::emit(const Receive& s) {
  llvm::Type* own = llvm::PointerType::get(context_, 3);
  auto* expect = primitive(simt::kBoxExpect, b_.getVoidTy(), {own, b_.getInt32Ty()});
  auto* receive = primitive(simt::kBoxReceive, b_.getVoidTy(), {own, b_.getInt32Ty()});
  Value* box = address(place(s.boxes), s.box);
  guarded(first_thread(), [&] {
    mark(b_.CreateCall(expect, {box, b_.getInt32(static_cast<std::uint32_t>(s.bytes))}));
  });
  mark(b_.CreateCall(receive, {box, b_.CreateZExtOrTrunc(index(mod(s.round, 2)), b_.getInt32Ty())}));
}

}  // namespace bz::emit

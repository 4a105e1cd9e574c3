// Loads, stores and copies of a kernel: where they go, and in which pieces.
#include <algorithm>

#include "compiler/emit/kernel_emitter.h"
#include "compiler/emit/math_builder.h"
#include "compiler/emit/scalar.h"
#include "ir/simt.h"

namespace bz::emit {

using namespace kernel;
using llvm::Value;

namespace {

constexpr int kVectorBytes = 16;

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

}  // namespace

KernelEmitter::Place KernelEmitter::place(const Buffer& b, int id) const {
  return {function_->getArg(static_cast<unsigned>(id)), b.dtype, b.elements, b.alignment, true, b.shared};
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

bool KernelEmitter::follow_each_other(const Index& offset, int width) const {
  return offset - with_lane(offset, 0) == Index::var({kLaneVar, width});
}

// Lanes may follow each other in pieces alone, as of a view, or of a vector that shared memory has in two places.
int KernelEmitter::piece(const Place& p, const Index& offset, int width) const {
  const bool all = follow_each_other(offset, width);
  const auto lane = [&](int i) { return all ? with_lane(offset, 0) + Index(i) : with_lane(offset, i); };
  const auto is_whole = [&](int first, int n) {
    if (!divisible(lane(first), n)) return false;
    for (int i = 1; i < n && !all; ++i) {
      if (!(lane(first + i) - lane(first) == Index(i))) return false;
    }
    return true;
  };
  for (int n = std::min(width, kVectorBytes / size_of(p.dtype)); n > 1; n /= 2) {
    bool whole = n * size_of(p.dtype) <= p.alignment && n <= p.elements;
    for (int i = 0; i < (all ? 1 : width) && whole; i += n) whole = is_whole(i, n);
    if (whole) return n;
  }
  return 1;
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

Pairs KernelEmitter::load_pairs(DType dtype, Value* from, llvm::Align align, int count) {
  auto* words = llvm::FixedVectorType::get(b_.getInt32Ty(), static_cast<unsigned>(count / 2));
  Value* v = mark(b_.CreateAlignedLoad(words, from, align));
  Pairs out{dtype, {}};
  for (int i = 0; i < count / 2; ++i)
    out.words.push_back(b_.CreateExtractElement(v, static_cast<std::uint64_t>(i)));
  return out;
}

void KernelEmitter::load_piece(const Place& p, Value* from, llvm::Align align, int count, Lanes& out) {
  llvm::Type* element = memory_type(context_, p.dtype);
  if (count == 1) {
    out.push_back(from_memory(b_, mark(b_.CreateAlignedLoad(element, from, align)), p.dtype));
    return;
  }
  if (comes_in_pairs(p.dtype)) {
    const Pairs pairs = load_pairs(p.dtype, from, align, count);
    for (int i = 0; i < count; ++i) out.push_back(unpack(b_, pairs, i));
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
  const auto whole = [&] {
    Lanes all;
    load_piece(p, p.global ? address_if(p, at, any_of(masks)) : address(p, at), alignment(p, at), n, all);
    return all;
  };
  const auto single = [&] {
    Lanes all;
    for (int j = 0; j < n; ++j) {
      const Index element = at + Index(j);
      load_piece(p, address_if(p, element, masks[static_cast<std::size_t>(j)]), alignment(p, element), 1,
                 all);
    }
    return all;
  };
  out.append(can_load_whole == b_.getTrue()
                 ? whole()
                 : math::branch_list(math::Int(b_, can_load_whole), whole, single));
}

// Zeros where the condition does not hold.
void KernelEmitter::load_if(const Place& p, const Index& at, int count, Value* condition, Lanes& out) {
  Lanes zeros;
  const auto loaded = [&] {
    Lanes all;
    load_piece(p, address(p, at), alignment(p, at), count, all);
    for (Value* v : all) zeros.push_back(llvm::Constant::getNullValue(v->getType()));
    return all;
  };
  out.append(math::branch_list(math::Int(b_, condition), loaded, [&] { return zeros; }));
}

// A vector of 16-bit elements that begins anywhere, and so far from the ends of its buffer that the aligned ones that it is in are inside.
bool KernelEmitter::can_realign(const Place& p, const Index& offset, int width) const {
  if (!comes_in_pairs(p.dtype) || !p.global || p.shared || width * size_of(p.dtype) != kVectorBytes ||
      p.alignment % kVectorBytes != 0 || piece(p, offset, width) > 2)
    return false;
  const Index first = with_remainders(with_lane(offset, 0));
  return follow_each_other(offset, width) && first.lo() >= 0 && first.hi() + 2 * width <= p.elements;
}

// Of two aligned vectors what lies in the middle. One by one the elements would take a load each, and each of those as many lines
// of L1 as a whole vector: layer_norm of 65535 bf16, whose scales lie so, took 0.89 ms and takes 0.73. Elements of 32 bits are
// half as many (rms_norm of 65535 f32 took 0.54 ms with single loads, 0.60 so; H200, 2026-11).
Pairs KernelEmitter::load_realigned(const Place& p, const Index& first) {
  const int elements_of_vector = kVectorBytes / size_of(p.dtype);
  constexpr std::size_t kWords = kVectorBytes / 4;
  const Index off = mod(first, elements_of_vector), aligned = first - off;
  llvm::SmallVector<Value*, 8> words;
  for (const int next : {0, elements_of_vector})
    llvm::append_range(words, load_pairs(p.dtype, address(p, aligned + Index(next)),
                                         llvm::Align(kVectorBytes), elements_of_vector)
                                  .words);
  Value* elements = b_.CreateTrunc(index64(off), b_.getInt32Ty());
  const auto bit = [&](std::uint32_t n) { return b_.CreateAnd(elements, b_.getInt32(n)); };
  for (const std::size_t by : {2, 1}) {  // words
    Value* moves = b_.CreateICmpNE(bit(static_cast<std::uint32_t>(2 * by)), b_.getInt32(0));
    for (std::size_t i = 0; i + by < words.size(); ++i)
      words[i] = b_.CreateSelect(moves, words[i + by], words[i]);
  }
  Value* bits = b_.CreateShl(bit(1), 4);
  Pairs out{p.dtype, {}};
  for (std::size_t i = 0; i < kWords; ++i) {
    out.words.push_back(
        b_.CreateIntrinsic(llvm::Intrinsic::fshr, {b_.getInt32Ty()}, {words[i + 1], words[i], bits}));
  }
  return out;
}

// Whole vectors of 16-bit elements stay pairs until the one statement that needs them as f32, if it is one: they take half of
// the registers until then. Several would convert them several times (log_softmax took up to 7 % longer, H200, 2026-11).
void KernelEmitter::load(const Place& p, const Index& offset, ValueId mask, ValueId result) {
  const int width = info(result).width;
  if (comes_in_pairs(p.dtype)) narrow_.insert(result);
  if (can_realign(p, offset, width)) {
    const Pairs loaded = load_realigned(p, with_lane(offset, 0));
    for (int i = 0; i < width; ++i) values_[result].push_back(unpack(b_, loaded, i));
    return;
  }
  const int n = piece(p, offset, offset.uses(kLaneVar) ? width : 1);
  const bool whole = mask == kNone || (info(mask).width == 1 && !p.shared);
  if (!comes_in_pairs(p.dtype) || n == 1 || !whole || uses_[result] > 1) {
    values_[result] = load_lanes(p, offset, width, mask);
    return;
  }
  Pairs& out = pairs_[result] = {p.dtype, {}};
  for (int i = 0; i < width; i += n) {
    const Index at = with_lane(offset, i);
    Value* from = mask == kNone ? address(p, at) : address_if(p, at, lane(mask, 0));
    llvm::append_range(out.words, load_pairs(p.dtype, from, alignment(p, at), n).words);
  }
}

KernelEmitter::Lanes KernelEmitter::load_lanes(const Place& p, const Index& offset, int width, ValueId mask) {
  const bool lane_masks = mask != kNone && info(mask).width > 1;
  const int n = p.shared && lane_masks ? 1 : piece(p, offset, offset.uses(kLaneVar) ? width : 1);
  Lanes out;
  for (int i = 0; i < width; i += n) {
    const Index at = with_lane(offset, i);
    if (p.shared && mask != kNone) {
      load_if(p, at, n, lane(mask, i), out);
      continue;
    }
    if (n > 1 && lane_masks) {
      const Lanes masks = lanes(mask);
      load_partly(p, at, Lanes(masks.begin() + i, masks.begin() + i + n), out);
      continue;
    }
    // Under a false mask the first elements are read instead: no branch, and always a good address.
    Value* from = mask == kNone ? address(p, at) : address_if(p, at, lane(mask, i));
    load_piece(p, from, alignment(p, at), n, out);
  }
  return out;
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
  evict_ = s.evict;
  load(place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer), s.offset, s.mask, s.result);
  evict_.reset();
}

void KernelEmitter::emit(const Store& s) {
  store(place(k_.buffers[static_cast<std::size_t>(s.buffer)], s.buffer), s.offset, s.width, s.value, s.mask);
}

void KernelEmitter::emit(const Get& s) { load(place(s.array), s.at, s.mask, s.result); }

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

}  // namespace bz::emit

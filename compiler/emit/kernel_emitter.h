// Writes one kernel into an LLVM module.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "compiler/emit/emit.h"
#include "compiler/emit/math.h"
#include "compiler/emit/pairs.h"
#include "ir/kernel.h"

namespace bz::emit {

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const kernel::Kernel& k, const Options& options);
  llvm::Function* run();

 private:
  using Lanes = llvm::SmallVector<llvm::Value*, 8>;

  void block(const kernel::Block& stmts);
  void count_uses(const kernel::Block& stmts, double times);
  void emit(const kernel::Const& s);
  void emit(const kernel::Apply& s);
  bool round_pairs(const kernel::Apply& s);  // false when it is no cast of pairs to bf16
  void emit(const kernel::Fold& s);
  void emit(const kernel::Lane& s);
  void emit(const kernel::Widen& s);
  void emit(const kernel::IndexValue& s);
  void emit(const kernel::Inside& s);
  void emit(const kernel::Load& s);
  void emit(const kernel::Store& s);
  void emit(const kernel::Get& s);
  void emit(const kernel::Set& s);
  void emit(const kernel::Copy& s);
  void emit(const kernel::Commit& s);
  void emit(const kernel::Await& s);
  void emit(const kernel::Barrier& s);
  void emit(const kernel::Start& s);
  void emit(const kernel::Started& s);
  void emit(const kernel::Send& s);
  void emit(const kernel::Receive& s);
  void emit(const kernel::Shuffle& s);
  void emit(const kernel::Signal& s);
  void emit(const kernel::Wait& s);
  void emit(const kernel::Let& s);
  void emit(const kernel::For& s);
  void emit(const kernel::Turns& s);
  void emit(const kernel::Ticket& s);
  void emit(const kernel::Post& s);
  void emit(const kernel::Teams& s);
  void emit(const kernel::Collect& s);
  void emit(const kernel::If& s);
  void serial_loop(const kernel::For& s);
  void loop(const kernel::For& s);
  void emit(const kernel::Comment&) {}

  // ---- lists ---- (kernel_lists.cpp)
  // Statements that are emitted together, as one list of elements.
  using List = llvm::SmallVector<const kernel::Apply*, 8>;
  List list_at(const kernel::Block& stmts,
               std::size_t first) const;  // none when the first is not of that kind
  bool emit(const List& list);            // false when they are to be emitted one by one
  void emit(const kernel::SumOfTerms& s);
  void emit(const kernel::ScaledExp& s);
  void emit(const kernel::ExpFactor& s);
  llvm::Value* no_difference(const kernel::ScaledExp& s);
  const kernel::ScaledExp* loop_exp(const kernel::Block& body) const;
  bool is_scaled(kernel::ValueId pivot) const;  // whether there is a factor
  ExpTerms terms(kernel::ValueId exponent) const;
  // What all exponents have subtracted as one value; kNone where they do not.
  kernel::ValueId subtrahend(llvm::ArrayRef<kernel::ValueId> exponents) const;
  llvm::Value* least_of(llvm::ArrayRef<kernel::ValueId> exponents, llvm::ArrayRef<llvm::Value*> x);
  struct PairDifferences {
    llvm::SmallVector<const Pairs*, 8> minuends;
    llvm::Value* subtrahend;
  };
  std::optional<PairDifferences> pair_differences(llvm::ArrayRef<kernel::ValueId> exponents);
  bool divide(const List& list);  // false when the division instruction is to be used

  // ---- index expressions ----
  Index with_lane(const Index& e, int lane) const;
  llvm::Value* index(const Index& e);  // as i32 or i64, whichever holds it
  llvm::Value* index64(const Index& e);
  llvm::Value* inside(const std::vector<IndexBound>& bounds, int lane);

  // ---- memory ---- (kernel_memory.cpp)
  struct Place {  // where an access goes
    llvm::Value* base;
    DType dtype;
    std::int64_t elements;
    int alignment;
    bool global;
    bool shared = false;  // by blocks that write there meanwhile: nothing is loaded but what a mask allows
  };
  Place place(const kernel::Buffer& b, int id) const;
  Place place(kernel::ArrayId id);
  Place place_in(kernel::ArrayId id, const Index& rank);  // in another block of the cluster
  llvm::Value* address(const Place& p, const Index& offset);
  llvm::Value* address_if(const Place& p, const Index& offset, llvm::Value* mask);  // else that of element 0
  llvm::Align alignment(const Place& p, const Index& offset) const;
  bool follow_each_other(const Index& offset, int width) const;  // whether lanes do
  // Lanes that one instruction can move: a power of two.
  int piece(const Place& p, const Index& offset, int width) const;
  llvm::Value* all_of(const Lanes& masks, int first, int count);
  llvm::Value* any_of(const Lanes& masks);
  Pairs load_pairs(DType dtype, llvm::Value* from, llvm::Align align, int count);
  void load_piece(const Place& p, llvm::Value* from, llvm::Align align, int count, Lanes& out);
  void store_piece(const Place& p, const Index& offset, llvm::ArrayRef<llvm::Value*> values, DType t);
  void load_partly(const Place& p, const Index& at, const Lanes& masks, Lanes& out);
  void load_if(const Place& p, const Index& at, int count, llvm::Value* condition, Lanes& out);
  bool can_realign(const Place& p, const Index& offset, int width) const;
  Pairs load_realigned(const Place& p, const Index& first);
  Lanes load_lanes(const Place& p, const Index& offset, int width, kernel::ValueId mask);
  void load(const Place& p, const Index& offset, kernel::ValueId mask, kernel::ValueId result);
  void store(const Place& p, const Index& offset, int width, kernel::ValueId value, kernel::ValueId mask);
  llvm::Value* valid_bytes(const Place& from, const Index& offset, int n, kernel::ValueId mask);
  template <class F>
  void guarded(llvm::Value* condition, F&& body) {
    auto* then = llvm::BasicBlock::Create(context_, "then", function_);
    auto* after = llvm::BasicBlock::Create(context_, "after", function_);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
    body();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }

  // ---- values ----
  Lanes lanes(kernel::ValueId id);
  llvm::Value* lane(kernel::ValueId id, int i);
  const Pairs* pairs(kernel::ValueId id) const;  // null where they are no pairs
  const kernel::Value& info(kernel::ValueId id) const { return k_.values[static_cast<std::size_t>(id)]; }
  llvm::Function* primitive(std::string_view name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> args);
  void barrier(kernel::Scope scope);
  llvm::Value* first_thread();
  llvm::Value* shuffle32(llvm::Value* bits, int mask);
  llvm::Value* thread();
  // Names the statement's line of kernel IR on an access or a call that threads take part in together, and the hint of a load.
  llvm::Instruction* mark(llvm::Instruction* i) const;

  llvm::Module& module_;
  llvm::LLVMContext& context_;
  const kernel::Kernel& k_;
  const Options& options_;
  std::unordered_map<kernel::ValueId, double> executions_;  // of the statement that makes a value
  std::unordered_map<kernel::ValueId, double> divisions_;   // by a value, for each time that it is made
  llvm::IRBuilder<> b_;
  llvm::Function* function_ = nullptr;
  int line_;                                       // of kernel::print(), of the statement being emitted
  std::optional<kernel::Evict> evict_;             // of what it loads
  std::unordered_map<kernel::ValueId, int> uses_;  // of a value, other than by extrema
  // A value has the one or the other.
  std::unordered_map<kernel::ValueId, Lanes> values_;
  std::unordered_map<kernel::ValueId, Pairs> pairs_;
  std::unordered_map<kernel::ValueId, const kernel::Apply*> differences_;  // that have been emitted
  // By pivot and least x, in the loop that is emitted: whether scaled exponentials need no difference.
  std::map<std::pair<kernel::ValueId, kernel::ValueId>, llvm::Value*> no_difference_;
  std::unordered_set<kernel::ValueId> narrow_;           // elements of 16 bits, as they were loaded
  std::unordered_map<std::int32_t, llvm::Value*> vars_;  // i32 or i64
  std::unordered_map<kernel::ArrayId, llvm::Value*> arrays_;
};

}  // namespace bz::emit

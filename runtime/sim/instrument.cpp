#include "runtime/sim/instrument.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <utility>

#include "ir/simt.h"
#include "runtime/sim/primitives.h"
#include "support/error.h"

namespace bz::sim {
namespace {

constexpr unsigned kGlobalSpace = 1;
constexpr unsigned kSharedSpace = 3;
constexpr unsigned kClusterSpace = 7;

llvm::StringRef ref(std::string_view s) { return {s.data(), s.size()}; }

class Instrumenter {
 public:
  Instrumenter(llvm::Module& module, const Plan& plan) : module_(module), b_(module.getContext()) {
    out_.sites.emplace_back();
    for (const PlanKernel& k : plan.kernels) {
      if (const llvm::Function* f = module.getFunction(k.name)) out_.stored[k.name].resize(f->arg_size());
    }
  }

  Instrumentation run(bool check_memory) {
    for (const auto& [primitive, bound] :
         {std::pair{simt::kBarrier, kSimBarrier}, std::pair{simt::kClusterBarrier, kSimClusterBarrier},
          std::pair{simt::kClusterStart, kSimClusterStart},
          std::pair{simt::kClusterStarted, kSimClusterStarted}, std::pair{simt::kBoxOpen, kSimBoxOpen},
          std::pair{simt::kBoxExpect, kSimBoxExpect}, std::pair{simt::kBoxReceive, kSimBoxReceive},
          std::pair{simt::kShuffleXor, kSimShuffleXor}, std::pair{simt::kPause, kSimPause}}) {
      bind(primitive, bound);
    }
    bind_copies();
    bind_messages();
    for (const auto& [primitive, bound] :
         {std::pair{simt::kTicket, kSimTicket}, std::pair{simt::kSignal, kSimSignal},
          std::pair{simt::kWait, kSimWait}}) {
      bind(primitive, bound,
           [&](const llvm::CallInst& call) { return number(counter_of(call, sizeof(std::int32_t))); });
    }
    for (const auto& [primitive, bound] :
         {std::pair{simt::kPost, kSimPost}, std::pair{simt::kPeek, kSimPeek}}) {
      bind(primitive, bound,
           [&](const llvm::CallInst& call) { return number(counter_of(call, sizeof(std::int64_t))); });
    }
    if (check_memory) {
      for (llvm::Function& f : module_) note_accesses(f);
      for (const auto& [access, number] : accesses_) check(*access, number);
    }
    return std::move(out_);
  }

 private:
  int number(Site site) {
    out_.sites.push_back(site);
    bz::check(out_.sites.size() <= std::size_t{1} << Event::kSiteBits, "too many accesses for the simulator");
    return static_cast<int>(out_.sites.size()) - 1;
  }

  static int line_of(const llvm::Instruction& i) {
    const llvm::MDNode* line = i.getMetadata(ref(simt::kLine));
    const auto* n =
        line == nullptr ? nullptr : llvm::mdconst::dyn_extract<llvm::ConstantInt>(line->getOperand(0));
    return n == nullptr ? 0 : static_cast<int>(n->getZExtValue());
  }

  // Copies call the simulator with the number of the load's site, which the store's follows.
  void bind_copies() {
    bind(simt::kCopy, kSimCopy, [&](const llvm::CallInst& call) {
      const auto* bytes = llvm::cast<llvm::ConstantInt>(call.getArgOperand(2));
      Site load{.bytes = static_cast<std::int64_t>(bytes->getZExtValue()), .line = line_of(call)};
      load.alignment = load.bytes;
      Site store = load;
      store.store = true;
      load.argument = argument_of(*call.getArgOperand(1), stored_by(*call.getFunction()) != nullptr);
      store.argument = kSharedMemory;
      out_.shared_granule = std::min(out_.shared_granule, granule(store.bytes));
      const int first = number(load);
      number(store);
      return first;
    });
  }

  void bind_messages() {
    bind(simt::kSend, kSimSend, [&](const llvm::CallInst& call) {
      const auto bytes =
          static_cast<std::int64_t>(llvm::cast<llvm::ConstantInt>(call.getArgOperand(2))->getZExtValue());
      out_.shared_granule = std::min(out_.shared_granule, granule(bytes));
      return number({bytes, bytes, true, kClusterMemory, line_of(call)});
    });
  }

  // What a ticket, a signal or a wait is for, or a slot.
  Site counter_of(const llvm::CallInst& call, std::int64_t bytes) {
    return {.bytes = bytes,
            .alignment = bytes,
            .store = true,
            .argument = argument_of(*call.getArgOperand(0), stored_by(*call.getFunction()) != nullptr),
            .line = line_of(call)};
  }

  // Calls of `primitive` call `bound` with their number.
  void bind(std::string_view primitive, std::string_view bound) {
    bind(primitive, bound, [&](const llvm::CallInst& call) { return number({.line = line_of(call)}); });
  }
  template <class F>
  void bind(std::string_view primitive, std::string_view bound, F&& number_of) {
    llvm::Function* f = module_.getFunction(ref(primitive));
    if (f == nullptr) return;
    std::vector<llvm::Type*> types(f->getFunctionType()->params().begin(),
                                   f->getFunctionType()->params().end());
    types.push_back(b_.getInt32Ty());
    auto* to = llvm::Function::Create(llvm::FunctionType::get(f->getReturnType(), types, false),
                                      llvm::Function::ExternalLinkage, ref(bound), module_);
    to->setConvergent();
    to->setDoesNotThrow();
    to->setWillReturn();
    while (!f->use_empty()) {
      auto* call = llvm::cast<llvm::CallInst>(f->user_back());
      b_.SetInsertPoint(call);
      std::vector<llvm::Value*> arguments(call->arg_begin(), call->arg_end());
      arguments.push_back(b_.getInt32(static_cast<std::uint32_t>(number_of(*call))));
      call->replaceAllUsesWith(b_.CreateCall(to, arguments));
      call->eraseFromParent();
    }
    f->eraseFromParent();
  }

  void note_accesses(llvm::Function& f) {
    std::vector<bool>* stored = stored_by(f);
    for (llvm::Instruction& i : llvm::instructions(f)) {
      // An address out of bounds must not be poison by the time it is checked.
      if (auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&i))
        gep->setNoWrapFlags(llvm::GEPNoWrapFlags::none());
      if (!llvm::isa<llvm::LoadInst, llvm::StoreInst>(i)) continue;
      const unsigned space = llvm::getLoadStoreAddressSpace(&i);
      if (space != kGlobalSpace && space != kSharedSpace && space != kClusterSpace) continue;
      Site site{.bytes = static_cast<std::int64_t>(
                    i.getDataLayout().getTypeStoreSize(llvm::getLoadStoreType(&i)).getFixedValue()),
                .alignment = static_cast<std::int64_t>(llvm::getLoadStoreAlignment(&i).value()),
                .store = llvm::isa<llvm::StoreInst>(i),
                .argument = argument_of(i, space, stored != nullptr),
                .line = line_of(i)};
      if (space != kGlobalSpace) {
        out_.shared_granule =
            std::min({out_.shared_granule, granule(site.bytes), static_cast<int>(site.alignment)});
      } else if (site.store) {
        note_store(site.argument, stored);
      }
      accesses_.emplace_back(&i, number(site));
    }
  }

  // The largest power of two that divides the size.
  static int granule(std::int64_t bytes) { return static_cast<int>(bytes & -bytes); }

  static int argument_of(const llvm::Instruction& access, unsigned space, bool in_kernel) {
    if (space == kSharedSpace) return kSharedMemory;
    if (space == kClusterSpace) return kClusterMemory;
    return argument_of(*llvm::getLoadStorePointerOperand(&access), in_kernel);
  }
  static int argument_of(const llvm::Value& pointer, bool in_kernel) {
    const auto* argument =
        llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(&pointer, /*MaxLookup=*/0));
    return argument != nullptr && in_kernel ? static_cast<int>(argument->getArgNo()) : -1;
  }

  // Null for a function that is no kernel.
  std::vector<bool>* stored_by(const llvm::Function& f) {
    const auto kernel = out_.stored.find(f.getName().str());
    return kernel == out_.stored.end() ? nullptr : &kernel->second;
  }

  void note_store(int argument, std::vector<bool>* kernel) {
    if (kernel != nullptr && argument >= 0) {
      (*kernel)[static_cast<std::size_t>(argument)] = true;
      return;
    }
    for (auto& [name, all] : out_.stored) all.assign(all.size(), true);
  }

  void check(llvm::Instruction& access, int number) {
    const Site& site = out_.sites[static_cast<std::size_t>(number)];
    const bool read_only = site.argument >= 0 && !site.store &&
                           !(*stored_by(*access.getFunction()))[static_cast<std::size_t>(site.argument)];
    llvm::Value* pointer = llvm::getLoadStorePointerOperand(&access);
    b_.SetInsertPoint(&access);
    llvm::Value* checked = b_.CreateCall(
        read_only ? declare(kSimRead, llvm::MemoryEffects::none())
                  : declare(kSimAccess, llvm::MemoryEffects::inaccessibleMemOnly()),
        {b_.CreateAddrSpaceCast(pointer, b_.getPtrTy()), b_.getInt32(static_cast<std::uint32_t>(number))});
    access.setOperand(site.store ? 1 : 0, b_.CreateAddrSpaceCast(checked, pointer->getType()));
  }

  llvm::FunctionCallee declare(std::string_view name, llvm::MemoryEffects effects) {
    auto* type = llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy(), b_.getInt32Ty()}, false);
    llvm::FunctionCallee callee = module_.getOrInsertFunction(ref(name), type);
    auto* f = llvm::cast<llvm::Function>(callee.getCallee());
    f->setMemoryEffects(effects);
    f->setDoesNotThrow();
    f->setWillReturn();
    return callee;
  }

  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  std::vector<std::pair<llvm::Instruction*, int>> accesses_;
  Instrumentation out_;
};

}  // namespace

Instrumentation instrument(llvm::Module& module, const Plan& plan, bool check_memory) {
  return Instrumenter(module, plan).run(check_memory);
}

}  // namespace bz::sim

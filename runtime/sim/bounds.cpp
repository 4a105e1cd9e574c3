#include "runtime/sim/bounds.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/sim/block_runner.h"
#include "runtime/sim/primitives.h"

namespace bz::sim {
namespace {

constexpr unsigned kGlobalSpace = 1;
constexpr unsigned kSharedSpace = 3;

llvm::FunctionCallee declare_check(llvm::Module& module) {
  llvm::IRBuilder<> b(module.getContext());
  auto* type = llvm::FunctionType::get(
      b.getPtrTy(), {b.getPtrTy(), b.getInt64Ty(), b.getInt64Ty(), b.getInt1Ty(), b.getInt32Ty()}, false);
  llvm::FunctionCallee callee = module.getOrInsertFunction(llvm::StringRef(kCheckAccess), type);
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  // What it records is of no concern to the kernel: the optimiser may merge checks of one address.
  f->setDoesNotAccessMemory();
  f->setDoesNotThrow();
  f->setWillReturn();
  f->addParamAttr(3, llvm::Attribute::ZExt);
  return callee;
}

int argument_of(const llvm::Value* pointer, bool in_kernel) {
  const auto* argument = llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(pointer, /*MaxLookup=*/0));
  return argument != nullptr && in_kernel ? static_cast<int>(argument->getArgNo()) : -1;
}

void check(llvm::Instruction& access, llvm::FunctionCallee callee, bool in_kernel) {
  const bool store = llvm::isa<llvm::StoreInst>(access);
  llvm::Value* pointer = llvm::getLoadStorePointerOperand(&access);
  const unsigned space = llvm::getLoadStoreAddressSpace(&access);
  const int argument = space == kSharedSpace ? kSharedMemory : argument_of(pointer, in_kernel);
  const llvm::DataLayout& layout = access.getDataLayout();
  const std::uint64_t bytes = layout.getTypeStoreSize(llvm::getLoadStoreType(&access)).getFixedValue();

  llvm::IRBuilder<> b(&access);
  llvm::Value* checked =
      b.CreateCall(callee, {b.CreateAddrSpaceCast(pointer, b.getPtrTy()), b.getInt64(bytes),
                            b.getInt64(llvm::getLoadStoreAlignment(&access).value()), b.getInt1(store),
                            b.getInt32(static_cast<std::uint32_t>(argument))});
  access.setOperand(store ? 1 : 0, b.CreateAddrSpaceCast(checked, pointer->getType()));
}

}  // namespace

void instrument_accesses(llvm::Module& module, const Plan& plan) {
  std::set<std::string, std::less<>> kernels;
  for (const PlanKernel& k : plan.kernels) kernels.insert(k.name);
  const llvm::FunctionCallee callee = declare_check(module);
  for (llvm::Function& f : module) {
    std::vector<llvm::Instruction*> accesses;
    for (llvm::Instruction& i : llvm::instructions(f)) {
      // An address out of bounds must not be poison by the time it is checked.
      if (auto* gep = llvm::dyn_cast<llvm::GetElementPtrInst>(&i))
        gep->setNoWrapFlags(llvm::GEPNoWrapFlags::none());
      if (!llvm::isa<llvm::LoadInst, llvm::StoreInst>(i)) continue;
      const unsigned space = llvm::getLoadStoreAddressSpace(&i);
      if (space == kGlobalSpace || space == kSharedSpace) accesses.push_back(&i);
    }
    for (llvm::Instruction* i : accesses) check(*i, callee, kernels.contains(f.getName()));
  }
}

}  // namespace bz::sim

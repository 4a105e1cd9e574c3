#include "tests/host_math.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/ExecutionEngine/Orc/ThreadSafeModule.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <utility>

#include "support/error.h"

namespace bz {
namespace {

void optimize(llvm::Module& m, llvm::TargetMachine* machine) {
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::PassBuilder pb(machine);
  pb.registerModuleAnalyses(mam);
  pb.registerCGSCCAnalyses(cgam);
  pb.registerFunctionAnalyses(fam);
  pb.registerLoopAnalyses(lam);
  pb.crossRegisterProxies(lam, fam, cgam, mam);
  pb.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(m, mam);
}

}  // namespace

void add_loop(llvm::Module& m, const std::string& name, llvm::Type* type, std::uint64_t step,
              const LoopBody& body) {
  llvm::LLVMContext& c = m.getContext();
  llvm::Type* pointer = llvm::PointerType::get(c, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(c);
  auto* f = llvm::Function::Create(
      llvm::FunctionType::get(llvm::Type::getVoidTy(c), {pointer, pointer, pointer, i64}, false),
      llvm::GlobalValue::ExternalLinkage, name, m);
  for (unsigned i = 0; i < 3; ++i) f->addParamAttr(i, llvm::Attribute::NoAlias);
  auto* entry = llvm::BasicBlock::Create(c, "entry", f);
  auto* loop = llvm::BasicBlock::Create(c, "loop", f);
  auto* exit = llvm::BasicBlock::Create(c, "exit", f);
  llvm::IRBuilder<> b(entry);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(i64, 2);
  body(b, [&](unsigned arg, std::uint64_t j) {
    return b.CreateGEP(type, f->getArg(arg), {b.CreateAdd(i, b.getInt64(j))});
  });
  llvm::Value* next = b.CreateAdd(i, b.getInt64(step));
  i->addIncoming(b.getInt64(0), entry);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpULT(next, f->getArg(3)), loop, exit);
  b.SetInsertPoint(exit);
  b.CreateRetVoid();
}

void add_loop(llvm::Module& m, const std::string& name, llvm::Function* function, bool f64) {
  llvm::Type* type = f64 ? llvm::Type::getDoubleTy(m.getContext()) : llvm::Type::getFloatTy(m.getContext());
  add_loop(m, name, type, 1, [&](llvm::IRBuilder<>& b, const LoopElement& element) {
    llvm::SmallVector<llvm::Value*, 2> args = {b.CreateLoad(type, element(0, 0))};
    if (function->arg_size() == 2) args.push_back(b.CreateLoad(type, element(1, 0)));
    b.CreateStore(b.CreateCall(function, args), element(2, 0));
  });
}

std::string verification(const llvm::Module& m) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::verifyModule(m, &out);
  return text;
}

std::string host_math_ptx(void (*add)(llvm::Module&), const char* cpu) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) throw InternalError(error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, cpu, "+ptx83", options, std::nullopt));
  llvm::LLVMContext c;
  llvm::Module m("math_test", c);
  add(m);
  m.setDataLayout(machine->createDataLayout());
  m.setTargetTriple(triple);
  optimize(m, machine.get());
  if (const std::string problems = verification(m); !problems.empty()) throw InternalError(problems);
  llvm::SmallString<0> ptx;
  llvm::raw_svector_ostream out(ptx);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile))
    throw InternalError("the NVPTX backend emits no text");
  passes.run(m);
  return std::string(ptx.str());
}

HostMath::HostMath(void (*add)(llvm::Module&)) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto builder = llvm::cantFail(llvm::orc::JITTargetMachineBuilder::detectHost());
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  auto machine = llvm::cantFail(builder.createTargetMachine());
  auto context = std::make_unique<llvm::LLVMContext>();
  auto m = std::make_unique<llvm::Module>("math_test", *context);
  add(*m);
  m->setDataLayout(machine->createDataLayout());
  m->setTargetTriple(machine->getTargetTriple());
  optimize(*m, machine.get());
  jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(builder).create());
  llvm::cantFail(jit_->addIRModule({std::move(m), std::move(context)}));
}

}  // namespace bz

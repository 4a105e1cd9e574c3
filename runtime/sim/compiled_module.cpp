#include "runtime/sim/compiled_module.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

#include "ir/simt.h"
#include "runtime/sim/instrument.h"
#include "runtime/sim/primitives.h"
#include "support/error.h"

namespace bz::sim {
namespace {

template <class T>
T take(llvm::Expected<T> value, std::string_view what) {
  if (!value) throw InternalError(fmt::format("simulator: {}: {}", what, llvm::toString(value.takeError())));
  return std::move(*value);
}

void take(llvm::Error error, std::string_view what) {
  if (error) throw InternalError(fmt::format("simulator: {}: {}", what, llvm::toString(std::move(error))));
}

std::string entry_name(const PlanKernel& k) { return k.name + ".entry"; }

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

llvm::orc::JITTargetMachineBuilder host_machine() {
  auto builder = take(llvm::orc::JITTargetMachineBuilder::detectHost(), "this processor");
  builder.getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  builder.setRelocationModel(llvm::Reloc::PIC_);  // host functions may be further than 2 GiB away
  builder.setCodeModel(llvm::CodeModel::Small);
  builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  return builder;
}

std::unique_ptr<llvm::Module> read_module(const Plan& plan, llvm::LLVMContext& context) {
  return take(llvm::parseBitcodeFile(llvm::MemoryBufferRef(plan.bitcode, plan.name), context),
              fmt::format("bitcode of plan '{}'", plan.name));
}

void verify(const Plan& plan, const llvm::Module& module, std::string_view when) {
  std::string problems;
  llvm::raw_string_ostream out(problems);
  if (llvm::verifyModule(module, &out)) {
    throw InternalError(
        fmt::format("simulator: module of plan '{}' is not valid {}: {}", plan.name, when, problems));
  }
}

// Ids and the places of shared memory are constants of a thread.
void describe_primitives(llvm::Module& module) {
  for (std::string_view name :
       {simt::kThread, simt::kBlock, simt::kBlocks, simt::kShared, simt::kClusterShared}) {
    llvm::Function* f = module.getFunction(name);
    if (f == nullptr) continue;
    f->setDoesNotThrow();
    f->setWillReturn();
    f->setDoesNotAccessMemory();
  }
}

// Moves the module to the host: data layout, calling conventions, functions that a kernel can be inlined
// from.
void retarget(llvm::Module& module, const llvm::TargetMachine& machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.setCallingConv(llvm::CallingConv::C);
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.setVisibility(llvm::GlobalValue::DefaultVisibility);
    f.setDoesNotThrow();
    f.removeFnAttr(llvm::Attribute::NoInline);
    f.removeFnAttr(llvm::Attribute::OptimizeNone);
    f.removeFnAttr("target-cpu");
    f.removeFnAttr("target-features");
  }
}

void add_entry(llvm::Module& module, const PlanKernel& k) {
  llvm::Function* kernel = module.getFunction(k.name);
  if (kernel == nullptr || kernel->isDeclaration()) {
    throw InternalError(fmt::format("simulator: the module does not define kernel '{}'", k.name));
  }
  if (kernel->arg_size() != k.arguments.size()) {
    throw InternalError(fmt::format("simulator: kernel '{}' takes {} arguments, its plan gives {}", k.name,
                                    kernel->arg_size(), k.arguments.size()));
  }
  kernel->addFnAttr(llvm::Attribute::AlwaysInline);

  llvm::IRBuilder<> b(module.getContext());
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  auto* entry = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, entry_name(k), module);
  entry->setDoesNotThrow();
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", entry));
  std::vector<llvm::Value*> arguments;
  for (const llvm::Argument& a : kernel->args()) {
    llvm::Value* slot = b.CreateConstGEP1_64(b.getPtrTy(), entry->getArg(0), a.getArgNo());
    arguments.push_back(b.CreateLoad(a.getType(), slot, a.getName()));
  }
  b.CreateCall(kernel, arguments);
  b.CreateRetVoid();
}

// O1: most simulated kernels run for less time than LLVM takes to compile them.
void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1).run(module, modules);
}

void bind_host_functions(llvm::orc::LLJIT& jit) {
  llvm::orc::SymbolMap symbols;
  for (const HostFunction& f : host_functions()) {
    symbols[jit.mangleAndIntern(llvm::StringRef(f.name))] = {
        llvm::orc::ExecutorAddr::fromPtr(f.address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  }
  take(jit.getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))), "host functions");
}

}  // namespace

struct CompiledModule::Jit {
  std::unique_ptr<llvm::orc::LLJIT> lljit;
};

CompiledModule::CompiledModule(const Plan& plan, bool check_memory) : entries_(plan.kernels.size(), nullptr) {
  if (plan.bitcode.empty()) {
    throw DeviceError(
        fmt::format("program '{}' was compiled for sm_{}, not for the simulator; compile it for target "
                    "'sim' to run it here",
                    plan.name, plan.sm));
  }
  initialize_llvm();
  llvm::orc::JITTargetMachineBuilder builder = host_machine();
  const std::unique_ptr<llvm::TargetMachine> machine = take(builder.createTargetMachine(), "this processor");

  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = read_module(plan, context);
  verify(plan, *module, "as loaded");
  instrumentation_ = instrument(*module, plan, check_memory);
  describe_primitives(*module);
  retarget(*module, *machine);
  for (const PlanKernel& k : plan.kernels) {
    if (k.grid > 0) add_entry(*module, k);
  }
  verify(plan, *module, "with its entries");
  optimize(*module, *machine);
  auto object = take(llvm::orc::SimpleCompiler(*machine)(*module), "code generation");

  jit_ = std::make_unique<Jit>();
  jit_->lljit = take(llvm::orc::LLJITBuilder()
                         .setJITTargetMachineBuilder(std::move(builder))
                         .setPlatformSetUp(llvm::orc::setUpInactivePlatform)
                         .create(),
                     "just-in-time linker");
  bind_host_functions(*jit_->lljit);
  take(jit_->lljit->addObjectFile(std::move(object)), "linking");
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    if (plan.kernels[i].grid == 0) continue;
    entries_[i] = take(jit_->lljit->lookup(entry_name(plan.kernels[i])), "linking").toPtr<Entry>();
  }
}

CompiledModule::~CompiledModule() = default;

}  // namespace bz::sim

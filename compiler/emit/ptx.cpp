// The thin last step for GPUs: SIMT primitives become NVVM intrinsics, then LLVM optimises and generates PTX.
#include <fmt/format.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "compiler/emit/cache_hints.h"
#include "compiler/emit/emit.h"
#include "compiler/emit/math.h"
#include "compiler/emit/pairs.h"
#include "compiler/emit/read_module.h"
#include "compiler/emit/scalar.h"
#include "ir/simt.h"
#include "support/error.h"

namespace bz::emit {
namespace {

using llvm::Value;

// The newest PTX version that this LLVM writes.
constexpr int kNewestPtx = 90;
// The first with tanh.approx.f32.
constexpr int kApproximateTanhPtx = 70;

void initialize_backend() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

std::unique_ptr<llvm::TargetMachine> target_machine(int sm, int ptx) {
  initialize_backend();
  const llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string problem;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (target == nullptr) throw InternalError("no NVPTX backend: " + problem);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, fmt::format("sm_{}", sm), fmt::format("+ptx{}", ptx), options,
                                  llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

// Replaces each call of a primitive by what `bind` builds in its place.
template <class F>
void bind(llvm::Module& m, std::string_view name, F&& bind) {
  llvm::Function* f = m.getFunction({name.data(), name.size()});
  if (f == nullptr) return;
  while (!f->use_empty()) {
    auto* call = llvm::cast<llvm::CallInst>(f->user_back());
    llvm::IRBuilder<> b(call);
    Value* replacement = bind(b, *call);
    if (!call->getType()->isVoidTy()) {
      if (auto* made = llvm::dyn_cast<llvm::CallInst>(replacement);
          made != nullptr && call->hasRetAttr(llvm::Attribute::Range)) {
        made->addRetAttr(call->getRetAttr(llvm::Attribute::Range));
      }
      call->replaceAllUsesWith(replacement);
    }
    call->eraseFromParent();
  }
  f->eraseFromParent();
}

void bind_primitives(llvm::Module& m, std::span<const kernel::Kernel> kernels, int sm) {
  namespace I = llvm::Intrinsic;
  const auto intrinsic = [&](I::ID id) { return I::getOrInsertDeclaration(&m, id); };
  bind(m, simt::kThread,
       [&](auto& b, auto&) { return b.CreateCall(intrinsic(I::nvvm_read_ptx_sreg_tid_x)); });
  bind(m, simt::kBlock,
       [&](auto& b, auto&) { return b.CreateCall(intrinsic(I::nvvm_read_ptx_sreg_ctaid_x)); });
  bind(m, simt::kBlocks,
       [&](auto& b, auto&) { return b.CreateCall(intrinsic(I::nvvm_read_ptx_sreg_nctaid_x)); });
  bind(m, simt::kCopy, [&](auto& b, auto& call) {
    const auto bytes = llvm::cast<llvm::ConstantInt>(call.getArgOperand(2))->getZExtValue();
    Value* valid = call.getArgOperand(3);
    llvm::SmallVector<Value*, 3> args = {call.getArgOperand(0), call.getArgOperand(1)};
    const bool part = valid != call.getArgOperand(2);
    if (part) args.push_back(valid);
    const I::ID whole_id = bytes == 16  ? I::nvvm_cp_async_cg_shared_global_16
                           : bytes == 8 ? I::nvvm_cp_async_ca_shared_global_8
                                        : I::nvvm_cp_async_ca_shared_global_4;
    const I::ID part_id = bytes == 16  ? I::nvvm_cp_async_cg_shared_global_16_s
                          : bytes == 8 ? I::nvvm_cp_async_ca_shared_global_8_s
                                       : I::nvvm_cp_async_ca_shared_global_4_s;
    return b.CreateCall(intrinsic(part ? part_id : whole_id), args);
  });
  bind(m, simt::kCopyCommit,
       [&](auto& b, auto&) { return b.CreateCall(intrinsic(I::nvvm_cp_async_commit_group), {}); });
  bind(m, simt::kCopyAwait, [&](auto& b, auto& call) {
    return b.CreateCall(intrinsic(I::nvvm_cp_async_wait_group), {call.getArgOperand(0)});
  });
  // Between blocks of the whole device. A release and an acquire carry along what other threads of the block did before a
  // barrier and do after one.
  const auto assembly = [](auto& b, llvm::Type* result, const char* text, const char* constraints,
                           llvm::ArrayRef<Value*> args) {
    const llvm::SmallVector<llvm::Type*, 3> types(
        llvm::map_range(args, [](const Value* v) { return v->getType(); }));
    auto* type = llvm::FunctionType::get(result, types, false);
    llvm::CallInst* call =
        b.CreateCall(llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/true), args);
    call->setConvergent();
    return call;
  };
  bind(m, simt::kTicket, [&](auto& b, auto& call) {
    return assembly(b, b.getInt32Ty(), "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;", "=r,l,~{memory}",
                    {call.getArgOperand(0)});
  });
  bind(m, simt::kSignal, [&](auto& b, auto& call) {
    return assembly(b, b.getVoidTy(), "red.release.gpu.global.add.u32 [$0], 1;", "l,~{memory}",
                    {call.getArgOperand(0)});
  });
  bind(m, simt::kWait, [&](auto& b, auto& call) {
    return assembly(b, b.getVoidTy(),
                    "{\n"
                    "\t.reg .pred ready;\n"
                    "\t.reg .u32 value;\n"
                    "again:\n"
                    "\tld.acquire.gpu.global.u32 value, [$0];\n"
                    "\tsetp.ge.u32 ready, value, $1;\n"
                    "\t@ready bra done;\n"
                    "\tnanosleep.u32 64;\n"
                    "\tbra again;\n"
                    "done:\n"
                    "\t}",
                    "l,r,~{memory}", {call.getArgOperand(0), call.getArgOperand(1)});
  });
  // Bits and round are one word, so that they arrive together.
  bind(m, simt::kPost, [&](auto& b, auto& call) {
    return assembly(
        b, b.getVoidTy(),
        "{\n\t.reg .b64 word;\n\tmov.b64 word, {$1, $2};\n\tst.relaxed.gpu.global.b64 [$0], word;\n\t}",
        "l,r,r,~{memory}", {call.getArgOperand(0), call.getArgOperand(1), call.getArgOperand(2)});
  });
  bind(m, simt::kPeek, [&](auto& b, auto& call) {
    return assembly(b, b.getInt64Ty(), "ld.relaxed.gpu.global.b64 $0, [$1];", "=l,l,~{memory}",
                    {call.getArgOperand(0)});
  });
  // So long as most of what is waited for is there at the first look, and no longer: rms_norm of 393216 f32 took 93 % of the copy speed with
  // 300 ns, 91 with 800 and 89 with less (H200, 2026-11).
  bind(m, simt::kPause,
       [&](auto& b, auto&) { return assembly(b, b.getVoidTy(), "nanosleep.u32 300;", "~{memory}", {}); });
  bind(m, simt::kBarrier, [&](auto& b, auto&) {
    return b.CreateCall(intrinsic(I::nvvm_barrier_cta_sync_aligned_all), {b.getInt32(0)});
  });
  bind(m, simt::kClusterBarrier, [&](auto& b, auto&) {
    b.CreateCall(intrinsic(I::nvvm_barrier_cluster_arrive_aligned), {});
    return b.CreateCall(intrinsic(I::nvvm_barrier_cluster_wait_aligned), {});
  });
  // A round is over when one thread has said what it expects and that is there.
  bind(m, simt::kBoxOpen, [&](auto& b, auto& call) {
    return assembly(b, b.getVoidTy(), "mbarrier.init.shared.b64 [$0], 1;", "l,~{memory}",
                    {call.getArgOperand(0)});
  });
  bind(m, simt::kClusterStart, [&](auto& b, auto&) {
    assembly(b, b.getVoidTy(), "fence.mbarrier_init.release.cluster;", "~{memory}", {});
    return b.CreateCall(intrinsic(I::nvvm_barrier_cluster_arrive_relaxed_aligned), {});
  });
  bind(m, simt::kClusterStarted,
       [&](auto& b, auto&) { return b.CreateCall(intrinsic(I::nvvm_barrier_cluster_wait_aligned), {}); });
  bind(m, simt::kSend, [&](auto& b, auto& call) {
    Value* bits = call.getArgOperand(1);
    const bool wide = llvm::cast<llvm::ConstantInt>(call.getArgOperand(2))->getZExtValue() == 8;
    if (!wide) bits = b.CreateTrunc(bits, b.getInt32Ty());
    return assembly(b, b.getVoidTy(),
                    wide ? "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [$0], $1, [$2];"
                         : "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];",
                    wide ? "l,l,l,~{memory}" : "l,r,l,~{memory}",
                    {call.getArgOperand(0), bits, call.getArgOperand(3)});
  });
  bind(m, simt::kBoxExpect, [&](auto& b, auto& call) {
    return assembly(b, b.getVoidTy(), "mbarrier.arrive.expect_tx.shared.b64 _, [$0], $1;", "l,r,~{memory}",
                    {call.getArgOperand(0), call.getArgOperand(1)});
  });
  bind(m, simt::kBoxReceive, [&](auto& b, auto& call) {
    return assembly(b, b.getVoidTy(),
                    "{\n\t.reg .pred over;\nagain:\n\tmbarrier.try_wait.parity.shared.b64 over, [$0], $1;\n\t"
                    "@!over bra again;\n\t}",
                    "l,r,~{memory}", {call.getArgOperand(0), call.getArgOperand(1)});
  });
  bind(m, simt::kClusterShared, [&](auto& b, auto& call) {
    return b.CreateCall(intrinsic(I::nvvm_mapa_shared_cluster),
                        {call.getArgOperand(0), call.getArgOperand(1)});
  });
  bind(m, simt::kShuffleXor, [&](auto& b, auto& call) {
    return b.CreateCall(intrinsic(I::nvvm_shfl_sync_bfly_i32),
                        {b.getInt32(~0u), call.getArgOperand(0), call.getArgOperand(1), b.getInt32(31)});
  });
  if (sm >= 80) {
    bind(m, kPackBf16, [&](auto& b, auto& call) {
      Value* pair =
          b.CreateCall(intrinsic(I::nvvm_ff2bf16x2_rn), {call.getArgOperand(1), call.getArgOperand(0)});
      return b.CreateBitCast(pair, b.getInt32Ty());
    });
    bind_extrema(m);
  }
  constexpr std::pair<const char*, I::ID> kApproximations[] = {
      {approximate::kEx2, I::nvvm_ex2_approx_ftz},
      {approximate::kLg2, I::nvvm_lg2_approx_ftz_f},
      {approximate::kSin, I::nvvm_sin_approx_ftz_f},
      {approximate::kCos, I::nvvm_cos_approx_ftz_f},
      {approximate::kTanh, I::tanh},
      {approximate::kRcp, I::nvvm_rcp_approx_ftz_f},
      {approximate::kSqrt, I::nvvm_sqrt_approx_ftz_f},
      {approximate::kRsqrt, I::nvvm_rsqrt_approx_ftz_f},
  };
  llvm::FastMathFlags approximately;  // tanh.approx.f32 has no intrinsic of its own
  approximately.setApproxFunc();
  for (const auto& [name, instruction] : kApproximations) {
    bind(m, name, [&](auto& b, auto& call) {
      return b.CreateIntrinsic(b.getFloatTy(), instruction, {call.getArgOperand(0)}, approximately);
    });
  }
  auto* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(m.getContext()), 0);
  auto* shared = new llvm::GlobalVariable(m, bytes, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                          "bz_shared", nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  shared->setAlignment(llvm::Align(16));
  bind(m, simt::kShared, [&](auto&, auto&) { return shared; });
  if (shared->use_empty()) shared->eraseFromParent();
  for (const kernel::Kernel& k : kernels)
    m.getFunction(k.name)->setCallingConv(llvm::CallingConv::PTX_Kernel);
  for (llvm::Function& f : m) {
    if (!f.isDeclaration() && f.getCallingConv() != llvm::CallingConv::PTX_Kernel)
      f.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
}

// Register arrays become values, indices are shared and leave the loops. The code generator does the same again for
// what it expands, and the assembler of the driver unrolls and schedules, so that more passes change no kernel we have
// (LLVM's O2 took three times as long for as many instructions; 18 programs, sm_90, 2026-11-29).
void optimize(llvm::Module& m, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);

  llvm::FunctionPassManager function;
  function.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  function.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  function.addPass(llvm::SimplifyCFGPass());
  function.addPass(llvm::InstCombinePass());
  function.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                         /*UseMemorySSA=*/true));
  // Loops that ask for it: their loads then come together.
  function.addPass(llvm::LoopUnrollPass(llvm::LoopUnrollOptions(/*OptLevel=*/2, /*OnlyWhenForced=*/true)));
  function.addPass(llvm::EarlyCSEPass());
  function.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(function)));
  passes.run(m, modules);
}

bool is_negated_for_extremum(const llvm::Instruction& i) {
  using namespace llvm::PatternMatch;
  if (!i.getType()->isIntegerTy(32) || !match(&i, m_Neg(m_Value()))) return false;
  return llvm::any_of(i.users(), [](const llvm::User* u) { return llvm::isa<llvm::MinMaxIntrinsic>(u); });
}

// ptxas 13.0 and the driver of CUDA 13.0 lose the sign of a negated operand when they make one instruction of two maxima or
// minima of i32 (sm_90). A complement that they do not see through, plus one, is the same number.
void hide_negations(llvm::Module& m) {
  llvm::SmallVector<llvm::Instruction*, 8> found;
  for (llvm::Function& f : m) {
    for (llvm::Instruction& i : llvm::instructions(f)) {
      if (is_negated_for_extremum(i)) found.push_back(&i);
    }
  }
  for (llvm::Instruction* i : found) {
    llvm::IRBuilder<> b(i);
    auto* type = llvm::FunctionType::get(b.getInt32Ty(), {b.getInt32Ty()}, false);
    auto* complement = llvm::InlineAsm::get(type, "not.b32 $0, $1;", "=r,r", /*hasSideEffects=*/false);
    i->replaceAllUsesWith(b.CreateAdd(b.CreateCall(complement, {i->getOperand(1)}), b.getInt32(1)));
    i->eraseFromParent();
  }
}

void verify(llvm::Module& m) {
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(m, &stream)) throw InternalError("module after binding for PTX: " + problem);
}

}  // namespace

Ptx ptx(const std::string& bitcode, std::span<const kernel::Kernel> kernels, const Target& target) {
  const bool clusters =
      std::any_of(kernels.begin(), kernels.end(), [](const auto& k) { return k.cluster > 1 && !k.gang; });
  llvm::LLVMContext context;
  const std::unique_ptr<llvm::Module> module = read_module(bitcode, context);
  llvm::Module& m = *module;
  const bool tanh = m.getFunction(approximate::kTanh) != nullptr;
  const int least =
      std::max({minimum_ptx(target.sm), clusters ? kClusterPtx : 0, tanh ? kApproximateTanhPtx : 0});
  const int version = target.ptx == 0 ? least : target.ptx;
  if (version < least) {
    throw Error(fmt::format("PTX {}.{} does not know {}, which needs PTX {}.{} or newer", version / 10,
                            version % 10, target.name, least / 10, least % 10));
  }
  if (version > kNewestPtx) {
    throw Error(fmt::format("PTX {}.{} is newer than {}.{}, the newest that can be written", version / 10,
                            version % 10, kNewestPtx / 10, kNewestPtx % 10));
  }
  const std::unique_ptr<llvm::TargetMachine> machine = target_machine(target.sm, version);
  m.setTargetTriple(machine->getTargetTriple());
  m.setDataLayout(machine->createDataLayout());
  bind_primitives(m, kernels, target.sm);
  if (target.sm >= kCacheHintSm && version >= kCacheHintPtx) hint_loads(m);
  verify(m);
  optimize(m, *machine);
  hide_negations(m);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    throw InternalError("the NVPTX backend writes no assembly");
  }
  passes.run(m);
  return {std::string(text), version};
}

}  // namespace bz::emit

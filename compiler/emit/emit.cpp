#include "compiler/emit/emit.h"

#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "compiler/emit/kernel_emitter.h"
#include "support/error.h"

namespace bz::emit {

Module emit(std::span<const kernel::Kernel> kernels, const std::string& name, const Options& options) {
  llvm::LLVMContext context;
  llvm::Module module(name, context);
  for (const kernel::Kernel& k : kernels) {
    llvm::Function* f = KernelEmitter(module, k).run();
    if (!options.fast_math) continue;
    for (llvm::BasicBlock& block : *f) {
      for (llvm::Instruction& i : block) {
        if (llvm::isa<llvm::FPMathOperator>(i)) i.setFast(true);
      }
    }
  }
  std::string problem;
  llvm::raw_string_ostream problem_stream(problem);
  if (llvm::verifyModule(module, &problem_stream)) throw InternalError("emitted module: " + problem);
  Module out;
  llvm::raw_string_ostream text(out.text);
  module.print(text, nullptr);
  llvm::raw_string_ostream bitcode(out.bitcode);
  llvm::WriteBitcodeToFile(module, bitcode);
  return out;
}

}  // namespace bz::emit

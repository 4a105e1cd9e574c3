#include "compiler/emit/emit.h"

#include <llvm/Bitcode/BitcodeReader.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>

#include "compiler/emit/kernel_emitter.h"
#include "compiler/emit/read_module.h"
#include "support/error.h"

namespace bz::emit {

std::string emit(std::span<const kernel::Kernel> kernels, const std::string& name, const Options& options) {
  llvm::LLVMContext context;
  llvm::Module module(name, context);
  for (const kernel::Kernel& k : kernels) KernelEmitter(module, k, options).run();
  std::string problem;
  llvm::raw_string_ostream problem_stream(problem);
  if (llvm::verifyModule(module, &problem_stream)) throw InternalError("emitted module: " + problem);
  std::string bitcode;
  llvm::raw_string_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(module, stream);
  return bitcode;
}

std::unique_ptr<llvm::Module> read_module(const std::string& bitcode, llvm::LLVMContext& context) {
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, "kernels"), context);
  if (!module) throw InternalError("bitcode does not read back: " + llvm::toString(module.takeError()));
  return std::move(*module);
}

std::string assembly(const std::string& bitcode) {
  llvm::LLVMContext context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  read_module(bitcode, context)->print(stream, nullptr);
  return text;
}

}  // namespace bz::emit

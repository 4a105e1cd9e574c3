// The bitcode that emit() wrote, as a module again.
#pragma once

#include <llvm/IR/Module.h>

#include <memory>
#include <string>

namespace bz::emit {

std::unique_ptr<llvm::Module> read_module(const std::string& bitcode, llvm::LLVMContext& context);

}  // namespace bz::emit

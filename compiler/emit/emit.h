// Emission: kernel IR to LLVM IR, and LLVM IR to PTX. No LLVM types appear here.
//
// The module that emit() writes calls nothing but the SIMT primitives of ir/simt.h. It is the same for both places it
// runs: as it is in the simulator, and ptx() binds the primitives to NVVM intrinsics and generates code.
#pragma once

#include <span>
#include <string>

#include "ir/kernel.h"
#include "ir/target.h"

namespace bz::emit {

struct Options {
  bool fast_math = false;  // mul and add contract; f32 functions are approximate (math.h)
};

// A module as LLVM bitcode with one function a kernel. It is verified; a failure is an InternalError with LLVM's message.
std::string emit(std::span<const kernel::Kernel> kernels, const std::string& name, const Options& options);

// The module as LLVM assembly.
std::string assembly(const std::string& bitcode);

struct Ptx {
  std::string text;
  int version = 0;  // 10 * major + minor
};

// PTX for the target's compute capability, in its PTX version (the oldest possible one when it names none). Throws Error
// when that version is too old for the capability or unknown to LLVM.
Ptx ptx(const std::string& bitcode, std::span<const kernel::Kernel> kernels, const Target& target);

}  // namespace bz::emit

// Hints to the L2 cache (kernel::Evict) of loads. LLVM has none: they are metadata of its loads, which for PTX become assembly.
#pragma once

#include <llvm/IR/Instruction.h>
#include <llvm/IR/Module.h>

#include "ir/kernel.h"

namespace bz::emit {

// The first PTX version and capability that have them.
inline constexpr int kCacheHintPtx = 74, kCacheHintSm = 80;

void set_evict(llvm::Instruction& load, kernel::Evict evict);
// Puts assembly in the place of all loads that have a hint.
void hint_loads(llvm::Module& m);

}  // namespace bz::emit

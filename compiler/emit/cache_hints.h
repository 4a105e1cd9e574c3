// Hints to the L2 cache (kernel::Evict) in loads: LLVM's backend writes none, so that the loads become assembly.
#pragma once

#include <llvm/IR/Module.h>

#include <span>

#include "ir/kernel.h"

namespace bz::emit {

// The first PTX version and capability that have them.
inline constexpr int kCacheHintPtx = 74, kCacheHintSm = 80;

void hint_loads(llvm::Module& m, std::span<const kernel::Kernel> kernels);

}  // namespace bz::emit

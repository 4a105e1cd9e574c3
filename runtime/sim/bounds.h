// Bounds checks of the simulator, put into a module before it is optimised.
#pragma once

#include "ir/plan.h"

namespace llvm {
class Module;
}

namespace bz::sim {

// Every load from and store to global (1) and shared (3) memory goes through a checked address:
//
//   before   %v = load float, ptr addrspace(1) %p, align 4
//   after    %q = addrspacecast ptr addrspace(1) %p to ptr
//            %c = call ptr @bz.check(ptr %q, i64 4, i64 4, i1 false, i32 0)
//            %d = addrspacecast ptr %c to ptr addrspace(1)
//            %v = load float, ptr addrspace(1) %d, align 4
//
// The last argument is the number of the argument of the plan's kernel that %p was computed from, -1 when
// that cannot be seen, kSharedMemory in address space 3. Accesses that the optimiser would remove unchecked
// stay unchecked.
void instrument_accesses(llvm::Module& module, const Plan& plan);

}  // namespace bz::sim

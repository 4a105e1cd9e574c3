// The calls of compiled code into the simulator, put into a module before it is optimised.
//
// Every load from and store to global (1), shared (3) and cluster-shared (7) memory goes through a checked address,
// when memory is checked:
//
//   before   %v = load float, ptr addrspace(1) %p, align 4
//   after    %q = addrspacecast ptr addrspace(1) %p to ptr
//            %c = call ptr @bz.sim.access(ptr %q, i32 7)
//            %d = addrspacecast ptr %c to ptr addrspace(1)
//            %v = load float, ptr addrspace(1) %d, align 4
//
// Barriers, shuffles and copies become calls with one argument more: call void @bz.sim.barrier(i32 8). The number is that of a
// Site. Loads that no store of the launch can meet call @bz.sim.read, which the optimiser may merge, move and remove.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/sim/launch.h"

namespace llvm {
class Module;
}

namespace bz::sim {

struct Instrumentation {
  std::vector<Site> sites;  // by number; number 0 is no site
  // By name of the kernel, then argument: whether the kernel may store there.
  std::map<std::string, std::vector<bool>> stored;
  int shared_granule = 16;  // bytes of the smallest access to shared memory
};

Instrumentation instrument(llvm::Module& module, const Plan& plan, bool check_memory);

}  // namespace bz::sim

// A plan's LLVM module as host code.
//
//   CompiledModule m(plan, /*check_memory=*/true);
//   m.entry(0)(arguments);    // runs one thread of plan.kernels[0], on behalf of ClusterRunner::current()
//
// The module is the one a GPU gets, with the SIMT primitives bound to host functions. Each kernel gets an
// entry
//
//   define void @NAME.entry(ptr %arguments)     loads the pointers and runs @NAME, inlined
//
// and is optimised for the host's processor. Floating-point arithmetic stays IEEE: nothing is contracted or
// reordered.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ir/plan.h"
#include "runtime/sim/instrument.h"
#include "runtime/sim/launch.h"

namespace bz::sim {

class CompiledModule {
 public:
  // Throws DeviceError when the plan was not compiled for the simulator, InternalError when its module is not
  // valid.
  CompiledModule(const Plan& plan, bool check_memory);
  CompiledModule(const CompiledModule&) = delete;
  CompiledModule& operator=(const CompiledModule&) = delete;
  ~CompiledModule();

  // Null for kernels with an empty grid.
  Entry entry(std::size_t kernel) const { return entries_[kernel]; }
  const Instrumentation& instrumentation() const { return instrumentation_; }

 private:
  struct Jit;
  std::unique_ptr<Jit> jit_;
  std::vector<Entry> entries_;
  Instrumentation instrumentation_;
};

}  // namespace bz::sim

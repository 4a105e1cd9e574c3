// Hand-written LLVM modules in the simulator.
//
//   const bz::Plan plan = plan_of("define void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) { ... }",
//                                 {input(64), output(64)}, {.block = 64});
//   CHECK(fault_of({}, plan, 64, 64) == "");
#pragma once

#include <llvm/AsmParser/Parser.h>
#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "support/error.h"

namespace bz::sim_testing {

inline std::string assemble(const std::string& text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  const std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  if (module == nullptr) FAIL(diagnostic.getLineNo() << ": " << diagnostic.getMessage().str());
  std::string bitcode;
  llvm::raw_string_ostream out(bitcode);
  llvm::WriteBitcodeToFile(*module, out);
  return bitcode;
}

inline PlanBuffer buffer(std::string name, PlanBuffer::Kind kind, std::int64_t elements,
                         DType dtype = DType::f32) {
  return {std::move(name), kind, {dtype, {elements}}};
}
inline PlanBuffer input(std::int64_t elements, DType dtype = DType::f32) {
  return buffer("x", PlanBuffer::Kind::input, elements, dtype);
}
inline PlanBuffer output(std::int64_t elements, DType dtype = DType::f32) {
  return buffer("y", PlanBuffer::Kind::output, elements, dtype);
}

// A plan of one kernel @k over all of `buffers`.
inline Plan plan_of(const std::string& body, std::vector<PlanBuffer> buffers, PlanKernel kernel) {
  Plan plan;
  plan.name = "test";
  kernel.name = "k";
  kernel.arguments.resize(buffers.size());
  std::iota(kernel.arguments.begin(), kernel.arguments.end(), 0);
  plan.buffers = std::move(buffers);
  plan.kernels = {kernel};
  plan.bitcode = assemble(R"(
    declare i32 @bz.tid()
    declare i32 @bz.ctaid()
    declare void @bz.barrier()
    declare void @bz.cluster.barrier()
    declare i32 @bz.shfl.xor(i32, i32)
    declare ptr addrspace(3) @bz.shared()
    declare ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3), i32)
    declare void @bz.box.open(ptr addrspace(3))
    declare void @bz.cluster.start()
    declare void @bz.cluster.started()
    declare void @bz.send(ptr addrspace(7), i64, i32, ptr addrspace(7))
    declare void @bz.box.expect(ptr addrspace(3), i32)
    declare void @bz.box.receive(ptr addrspace(3), i32)
  )" + body);
  return plan;
}

template <class T = float>
std::vector<T> run(runtime::Device& device, const Plan& plan, const std::vector<T>& x, std::size_t outputs) {
  const std::int64_t in_bytes = static_cast<std::int64_t>(x.size() * sizeof(T));
  const std::int64_t out_bytes = static_cast<std::int64_t>(outputs * sizeof(T));
  DeviceBuffer in(device, in_bytes), out(device, out_bytes);
  device.copy_in(in.get(), x.data(), in_bytes);
  const std::vector<void*> arguments = {in.get(), out.get()};
  device.load(plan)->run(arguments, nullptr);
  device.synchronize();
  std::vector<T> y(outputs);
  device.copy_out(y.data(), out.get(), out_bytes);
  return y;
}

inline std::vector<float> ramp(std::size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

// The message of the run's fault, "" when there is none.
inline std::string fault_of(const SimOptions& options, const Plan& plan, std::size_t inputs,
                            std::size_t outputs) {
  const std::unique_ptr<runtime::Device> device = open_sim(options);
  try {
    run(*device, plan, ramp(inputs), outputs);
  } catch (const DeviceError& e) {
    return e.what();
  }
  return "";
}

}  // namespace bz::sim_testing

// A plan loaded on a CUDA device.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/context.h"
#include "runtime/runtime.h"

namespace bz::cuda {

class CudaProgram final : public Program {
 public:
  // `target` is the device's. Throws DeviceError when the device or its driver cannot run the plan.
  CudaProgram(const Plan& plan, const Target& target, std::shared_ptr<const Context> context);
  ~CudaProgram() override;

  void run(std::span<void* const> arguments, StreamHandle stream) override;
  std::int64_t workspace_bytes() const override { return temporary_bytes_; }
  void run_in(void* workspace, std::span<void* const> arguments, StreamHandle stream) override;

 private:
  // Where a kernel finds one of its arguments: among those of the run, or in the temporaries.
  struct Parameter {
    std::int64_t argument = -1;
    std::int64_t temporary_offset = 0;
  };
  struct Kernel {
    const PlanKernel* plan = nullptr;
    FunctionHandle function = nullptr;
    std::vector<Parameter> parameters;
    unsigned grid = 0;  // blocks to launch
    // "kernel 'k' of program 'p' with 8 blocks of 256 threads and 1024 bytes of shared memory"
    std::string launch;
  };
  class Temporaries;

  CudaProgram(const Plan& plan, std::shared_ptr<const Context> context);
  void check_fits(const Target& target) const;
  void load_module(const Target& target);
  std::int64_t resident_blocks(const Kernel& kernel, const Target& target) const;
  std::int64_t resident_clusters(const Kernel& kernel) const;
  void lay_out_parameters();
  Stream stream_of(StreamHandle stream) const;
  void launch(DevicePtr temporaries, std::span<void* const> arguments, Stream stream) const;

  Plan plan_;
  std::shared_ptr<const Context> context_;
  ModuleHandle module_ = nullptr;
  std::vector<Kernel> kernels_;  // those with a grid

  std::vector<Parameter> parameters_;  // by buffer
  std::int64_t temporary_bytes_ = 0;   // of all temporaries of one run
  std::int64_t zeroed_bytes_ = 0;      // of those that are 0 when a run starts: the first ones

  // Without memory pools, one block for all runs; a run waits for the one before it.
  std::mutex own_memory_mutex_;
  DevicePtr own_memory_ = 0;
  Event own_memory_free_ = nullptr;
};

}  // namespace bz::cuda

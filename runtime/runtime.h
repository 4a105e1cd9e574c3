// Running plans. A Device holds memory and loads plans; a Program is a loaded plan that can be run many
// times. The CUDA device and the simulator are the two implementations; nothing above knows which it has.
//
//   std::unique_ptr<Device> d = best_device();             // or open_cuda(), open_sim()
//   std::unique_ptr<Program> p = d->load(plan);
//   void* x = d->allocate(bytes); d->copy_in(x, host, bytes); ...
//   p->run({x, y}, nullptr);  d->synchronize();
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"
#include "ir/target.h"

namespace bz {

// A CUstream of the caller's, or nullptr for the device's own stream. The simulator ignores it.
using StreamHandle = void*;
// CUDA's default stream, which CUDA's own interfaces call nullptr.
inline const StreamHandle kDefaultStream = reinterpret_cast<StreamHandle>(1);

class Program {
 public:
  virtual ~Program() = default;
  // `arguments`: device addresses of the plan's inputs then outputs, in plan order, each aligned to
  // plan.alignment and its elements. Asynchronous on CUDA; kernels that have an empty grid are not launched. Throws
  // DeviceError, or Error when an output overlaps another argument (the front end's Executable runs in place).
  virtual void run(std::span<void* const> arguments, StreamHandle stream) = 0;

  // Bytes of device memory that the temporaries of one run take; 0 where the program has none or keeps them itself.
  virtual std::int64_t workspace_bytes() const { return 0; }
  // As run(), with the temporaries in `workspace`, workspace_bytes() at a multiple of 256. On CUDA this does nothing but
  // launch: no allocation, no lock, no lookup, so it may be captured in a graph. Runs that may overlap in time need
  // a workspace each.
  virtual void run_in(void* workspace, std::span<void* const> arguments, StreamHandle stream) {
    run(arguments, stream);
  }
};

namespace runtime {

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string kind() const = 0;  // "cuda" or "sim"
  virtual std::string name() const = 0;  // "NVIDIA H200"
  // "CUDA 13.0", the newest that the driver supports; "" in the simulator.
  virtual std::string driver_version() const = 0;
  virtual int ordinal() const { return 0; }  // among the devices of its kind
  // Target to compile for: PTX version chosen from the driver, everything else read off the device.
  virtual Target target() const = 0;
  virtual std::unique_ptr<Program> load(const Plan& plan) = 0;  // throws DeviceError

  virtual void* allocate(std::int64_t bytes) = 0;  // 256-byte aligned; never null, also for 0 bytes
  virtual void release(void* p) = 0;
  virtual void copy_in(void* device, const void* host, std::int64_t bytes) = 0;
  virtual void copy_out(void* host, const void* device, std::int64_t bytes) = 0;
  virtual void fill(void* device, unsigned char byte, std::int64_t bytes) = 0;
  virtual void synchronize() = 0;  // waits for the device's own stream; throws DeviceError on a failed kernel

  // Seconds on the device of each of `repeats` runs of `program`, after `warmup` runs; with CUDA events on
  // CUDA, the host clock in the simulator. Runs take the sets of arguments in turn: where there are more than the caches
  // hold, no run finds its data there.
  virtual std::vector<double> time(Program& program, std::span<const std::vector<void*>> sets, int warmup,
                                   int repeats) = 0;
};

}  // namespace runtime

// Memory of a device, released with the object.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(runtime::Device& device, std::int64_t bytes) : device_(&device), p_(device.allocate(bytes)) {}
  DeviceBuffer(DeviceBuffer&& o) noexcept : device_(o.device_), p_(std::exchange(o.p_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(p_, o.p_);
    return *this;
  }
  ~DeviceBuffer() {
    if (p_ != nullptr) device_->release(p_);
  }
  void* get() const { return p_; }

 private:
  runtime::Device* device_ = nullptr;
  void* p_ = nullptr;
};

struct SimOptions {
  bool nan_memory = true;    // fresh and shared memory is filled with NaN patterns (0xFF bytes)
  bool check_memory = true;  // bounds and alignment, data races, reads of what nobody wrote
  std::uint64_t seed = 0;    // order of threads in a cluster and of clusters; 0: ascending
  int workers = 0;           // host threads that run clusters; 0: one a core, at most 16
};

struct DeviceInfo {
  std::string kind, name;
  int ordinal = 0;
  Target target;
};

std::unique_ptr<runtime::Device> open_sim(const SimOptions& options = {});
// Throws DeviceError that says what is missing: no driver library, no device, a driver too old, a stub
// library. The driver is libcuda.so.1 on the library path, or the file that the environment variable
// BRAZE_CUDA_LIBRARY names.
std::unique_ptr<runtime::Device> open_cuda(int ordinal = 0);
// A CUDA device when one can be opened, else the simulator; `why_not` receives the reason there is no GPU.
std::unique_ptr<runtime::Device> best_device(std::string* why_not = nullptr);
// Every device that can be opened, the simulator last; `cuda_problem` receives why there is no CUDA device.
std::vector<DeviceInfo> list_devices(std::string* cuda_problem = nullptr);

}  // namespace bz

#include "runtime/cuda/program.h"

#include <algorithm>
#include <array>

#include "runtime/arguments.h"
#include "runtime/cuda/ptx_version.h"
#include "support/error.h"

namespace bz::cuda {
namespace {

constexpr std::size_t kLogBytes = 16 << 10;
constexpr int kSharedWithoutOptIn = 48 << 10;
constexpr int kPortableCluster = 8;  // every device with clusters has them up to this size
// Addresses in the 32,764 bytes of parameters that a kernel may have since CUDA 12.1.
constexpr std::size_t kMaxKernelArguments = 4095;

std::string describe_launch(const Plan& plan, const PlanKernel& k) {
  return fmt::format("kernel '{}' of program '{}' with {} blocks of {} threads and {} bytes of shared memory",
                     k.name, plan.name, k.grid, k.block, k.shared_bytes);
}

bool launches_anything(const Plan& plan) {
  for (const PlanKernel& k : plan.kernels) {
    if (k.grid > 0) return true;
  }
  return false;
}

}  // namespace

// The temporaries of one run, on its stream.
class CudaProgram::Temporaries {
 public:
  Temporaries(CudaProgram& program, Stream stream) : program_(program), stream_(stream) {
    if (program.temporary_bytes_ == 0) return;
    const Context& context = *program.context_;
    const Driver& driver = context.driver();
    const auto bytes = static_cast<std::size_t>(program.temporary_bytes_);
    if (context.pool() != nullptr) {
      if (const Result r = driver.cuMemAllocFromPoolAsync(&begin_, bytes, context.pool(), stream);
          r != kSuccess) {
        context.expect(r, fmt::format("allocation of {} bytes of temporaries for program '{}'", bytes,
                                      program.plan_.name));
      }
      return;
    }
    lock_ = std::unique_lock(program.own_memory_mutex_);
    context.expect(driver.cuStreamWaitEvent(stream, program.own_memory_free_, 0),
                   "waiting for the former run");
    begin_ = program.own_memory_;
  }
  Temporaries(const Temporaries&) = delete;
  Temporaries& operator=(const Temporaries&) = delete;
  ~Temporaries() {
    if (begin_ == 0) return;
    const Driver& driver = program_.context_->driver();
    if (lock_.owns_lock()) {
      driver.cuEventRecord(program_.own_memory_free_, stream_);
    } else {
      driver.cuMemFreeAsync(begin_, stream_);
    }
  }
  DevicePtr begin() const { return begin_; }

 private:
  CudaProgram& program_;
  Stream stream_;
  std::unique_lock<std::mutex> lock_;
  DevicePtr begin_ = 0;
};

CudaProgram::CudaProgram(const Plan& plan, std::shared_ptr<const Context> context)
    : plan_(plan), context_(std::move(context)) {}

// The object is there before anything is loaded: what follows may fail, and the destructor then gives back what was made.
CudaProgram::CudaProgram(const Plan& plan, const Target& target, std::shared_ptr<const Context> context)
    : CudaProgram(plan, std::move(context)) {
  lay_out_parameters();
  if (!launches_anything(plan_)) return;
  check_fits(target);
  const Context::Current current(*context_);
  load_module(target);
  plan_.ptx.clear();
  if (context_->pool() == nullptr && temporary_bytes_ > 0) {
    const Driver& driver = context_->driver();
    context_->expect(
        driver.cuMemAlloc(&own_memory_, static_cast<std::size_t>(temporary_bytes_)),
        fmt::format("allocation of {} bytes of temporaries for program '{}'", temporary_bytes_, plan_.name));
    context_->expect(driver.cuEventCreate(&own_memory_free_, kEventDisableTiming), "making a CUDA event");
  }
}

CudaProgram::~CudaProgram() {
  const Context::TryCurrent current(*context_);
  for (const Kernel& k : kernels_) context_->forget_launch(k.launch);
  if (!current.ok()) return;
  const Driver& driver = context_->driver();
  if (own_memory_free_ != nullptr) driver.cuEventDestroy(own_memory_free_);
  if (own_memory_ != 0) driver.cuMemFree(own_memory_);
  if (module_ != nullptr) driver.cuModuleUnload(module_);
}

void CudaProgram::lay_out_parameters() {
  parameters_.resize(plan_.buffers.size());
  for_each_argument(plan_, [&](std::size_t argument, std::size_t buffer) {
    parameters_[buffer].argument = static_cast<std::int64_t>(argument);
  });
  for (const bool zeroed : {true, false}) {
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& b = plan_.buffers[i];
      if (b.kind != PlanBuffer::Kind::temporary || b.zeroed != zeroed) continue;
      parameters_[i].temporary_offset = temporary_bytes_;
      temporary_bytes_ += (b.bytes() + kTemporaryAlignment - 1) / kTemporaryAlignment * kTemporaryAlignment;
    }
    if (zeroed) zeroed_bytes_ = temporary_bytes_;
  }
}

void CudaProgram::check_fits(const Target& target) const {
  const int version = context_->driver().version;
  if (plan_.ptx.empty()) {
    throw DeviceError(
        fmt::format("program '{}' was compiled for the simulator, not for CUDA; compile it for target "
                    "'{}'",
                    plan_.name, target.name));
  }
  if (const int newest = newest_ptx(version); plan_.ptx_version > newest) {
    throw DeviceError(fmt::format(
        "program '{}' is in PTX {}, and the driver, which supports CUDA {}, reads PTX up to "
        "{}; compile it for PTX {} or update the NVIDIA driver",
        plan_.name, ptx_text(plan_.ptx_version), version_text(version), ptx_text(newest), ptx_text(newest)));
  }
  if (plan_.sm > target.sm) {
    throw DeviceError(
        fmt::format("program '{}' was compiled for sm_{}, and the device is of kind {}; compile it for "
                    "that",
                    plan_.name, plan_.sm, target.name));
  }
  for (const PlanKernel& k : plan_.kernels) {
    if (k.arguments.size() > kMaxKernelArguments) {
      throw DeviceError(fmt::format("{} has {} arguments, CUDA passes {}", describe_launch(plan_, k),
                                    k.arguments.size(), kMaxKernelArguments));
    }
    if (k.shared_bytes <= target.max_shared_bytes) continue;
    throw DeviceError(fmt::format("{}: the device has {} bytes of shared memory for a block",
                                  describe_launch(plan_, k), target.max_shared_bytes));
  }
}

void CudaProgram::load_module(const Target& target) {
  const Driver& driver = context_->driver();
  std::string info(kLogBytes, '\0'), errors(kLogBytes, '\0');
  std::array options = {JitOption::info_log, JitOption::info_log_bytes, JitOption::error_log,
                        JitOption::error_log_bytes};
  std::array<void*, 4> values = {info.data(), reinterpret_cast<void*>(kLogBytes), errors.data(),
                                 reinterpret_cast<void*>(kLogBytes)};
  const Result result =
      driver.cuModuleLoadDataEx(&module_, plan_.ptx.c_str(), options.size(), options.data(), values.data());
  if (result != kSuccess) {
    context_->expect(result, fmt::format("compiling the PTX of program '{}' in the driver (its log: {}{})",
                                         plan_.name, errors.c_str(), info.c_str()));
  }

  for (const PlanKernel& k : plan_.kernels) {
    if (k.grid == 0) continue;
    Kernel kernel{.plan = &k, .launch = describe_launch(plan_, k)};
    for (int a : k.arguments) kernel.parameters.push_back(parameters_[static_cast<std::size_t>(a)]);
    context_->expect(driver.cuModuleGetFunction(&kernel.function, module_, k.name.c_str()),
                     fmt::format("looking up {}", kernel.launch));
    if (k.shared_bytes > kSharedWithoutOptIn) {
      context_->expect(driver.cuFuncSetAttribute(kernel.function, kFunctionMaxDynamicShared, k.shared_bytes),
                       fmt::format("reserving the shared memory of {}", kernel.launch));
    }
    std::int64_t grid = k.grid;
    if (k.cluster > 1 || k.persistent) {
      const std::int64_t resident = resident_blocks(kernel, target);
      if (k.persistent && resident < grid)
        grid = resident / (k.cluster * k.apart) * (std::int64_t{k.cluster} * k.apart);
      if (grid == 0) {
        throw DeviceError(fmt::format("{}: {} blocks must run side by side, and the device runs {} at once",
                                      kernel.launch, k.cluster * k.apart, resident));
      }
    }
    kernel.grid = static_cast<unsigned>(grid);
    kernels_.push_back(std::move(kernel));
  }
}

// Blocks of the kernel that the device runs at once.
std::int64_t CudaProgram::resident_blocks(const Kernel& kernel, const Target& target) const {
  const PlanKernel& k = *kernel.plan;
  if (k.cluster > 1 && !k.gang) return resident_clusters(kernel) * k.cluster;
  int blocks = 0;
  context_->expect(context_->driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                       &blocks, kernel.function, k.block, static_cast<std::size_t>(k.shared_bytes)),
                   fmt::format("asking how many blocks of {} fit on a multiprocessor", kernel.launch));
  return std::max<std::int64_t>(1, blocks) * target.multiprocessors;
}

// The size of its clusters is in the kernel's code; whether the device has room for one, only the driver knows.
std::int64_t CudaProgram::resident_clusters(const Kernel& kernel) const {
  const Driver& driver = context_->driver();
  const PlanKernel& k = *kernel.plan;
  if (k.cluster > kPortableCluster) {
    context_->expect(driver.cuFuncSetAttribute(kernel.function, kFunctionLargeClusters, 1),
                     fmt::format("allowing clusters of {} blocks in {}", k.cluster, kernel.launch));
  }
  LaunchAttribute cluster{.id = kLaunchClusterDimension};
  cluster.value[0] = static_cast<unsigned>(k.cluster);
  cluster.value[1] = cluster.value[2] = 1;
  const LaunchConfig config{.grid = {static_cast<unsigned>(k.grid), 1, 1},
                            .block = {static_cast<unsigned>(k.block), 1, 1},
                            .shared_bytes = static_cast<unsigned>(k.shared_bytes),
                            .attributes = &cluster,
                            .attribute_count = 1};
  int clusters = 0;
  context_->expect(driver.cuOccupancyMaxActiveClusters(&clusters, kernel.function, &config),
                   fmt::format("asking how many clusters of {} fit", kernel.launch));
  if (clusters == 0) {
    throw DeviceError(
        fmt::format("{}: not one cluster of {} blocks fits on the device", kernel.launch, k.cluster));
  }
  return clusters;
}

Stream CudaProgram::stream_of(StreamHandle stream) const {
  return stream != nullptr ? static_cast<Stream>(stream) : context_->stream();
}

void CudaProgram::run(std::span<void* const> arguments, StreamHandle stream) {
  check_arguments(plan_, arguments);
  if (kernels_.empty()) return;
  const Context::Current current(*context_);
  const Temporaries temporaries(*this, stream_of(stream));
  launch(temporaries.begin(), arguments, stream_of(stream));
}

void CudaProgram::run_in(void* workspace, std::span<void* const> arguments, StreamHandle stream) {
  check_arguments(plan_, arguments);
  if (kernels_.empty()) return;
  const auto begin = reinterpret_cast<DevicePtr>(workspace);
  if (temporary_bytes_ > 0 && (begin == 0 || begin % kTemporaryAlignment != 0)) {
    throw DeviceError(
        fmt::format("program '{}' needs a workspace of {} bytes at a multiple of {}, and got one at {:#x}",
                    plan_.name, temporary_bytes_, kTemporaryAlignment, begin));
  }
  const Context::Current current(*context_);
  launch(begin, arguments, stream_of(stream));
}

void CudaProgram::launch(DevicePtr temporaries, std::span<void* const> arguments, Stream stream) const {
  if (zeroed_bytes_ > 0) {
    context_->expect(
        context_->driver().cuMemsetD8Async(temporaries, 0, static_cast<std::size_t>(zeroed_bytes_), stream),
        fmt::format("clearing the queues of program '{}'", plan_.name));
  }
  // The driver takes a pointer to each parameter and copies what is there before it returns.
  std::array<DevicePtr, kMaxKernelArguments> addresses;
  std::array<void*, kMaxKernelArguments> parameters;
  for (const Kernel& k : kernels_) {
    for (std::size_t i = 0; i < k.parameters.size(); ++i) {
      const Parameter& p = k.parameters[i];
      addresses[i] = p.argument >= 0
                         ? reinterpret_cast<DevicePtr>(arguments[static_cast<std::size_t>(p.argument)])
                         : temporaries + static_cast<DevicePtr>(p.temporary_offset);
      parameters[i] = &addresses[i];
    }
    const Driver& driver = context_->driver();
    const auto block = static_cast<unsigned>(k.plan->block),
               shared = static_cast<unsigned>(k.plan->shared_bytes);
    // Blocks of a gang must all run: two such kernels side by side may not have half of the device each.
    const Result result = k.plan->gang
                              ? driver.cuLaunchCooperativeKernel(k.function, k.grid, 1, 1, block, 1, 1,
                                                                 shared, stream, parameters.data())
                              : driver.cuLaunchKernel(k.function, k.grid, 1, 1, block, 1, 1, shared, stream,
                                                      parameters.data(), nullptr);
    if (result != kSuccess) context_->expect(result, fmt::format("the launch of {}", k.launch));
    context_->note_launch(k.launch);
  }
}

}  // namespace bz::cuda

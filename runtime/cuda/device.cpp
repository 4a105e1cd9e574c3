// The CUDA device.
#include <algorithm>
#include <utility>

#include "runtime/arguments.h"
#include "runtime/cuda/context.h"
#include "runtime/cuda/devices.h"
#include "runtime/cuda/program.h"
#include "runtime/runtime.h"
#include "support/error.h"

namespace bz {
namespace cuda {
namespace {

DevicePtr address_of(const void* p) { return reinterpret_cast<DevicePtr>(p); }
std::size_t size_of_copy(std::int64_t bytes) {
  return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
}

// Start and stop of one timed run.
class EventPair {
 public:
  explicit EventPair(const Context& context) : context_(&context) {
    context.expect(context.driver().cuEventCreate(&start, kEventDefault), "making a CUDA event");
    context.expect(context.driver().cuEventCreate(&stop, kEventDefault), "making a CUDA event");
  }
  EventPair(EventPair&& o) noexcept
      : start(std::exchange(o.start, nullptr)), stop(std::exchange(o.stop, nullptr)), context_(o.context_) {}
  EventPair& operator=(EventPair&&) = delete;
  ~EventPair() {
    if (start != nullptr) context_->driver().cuEventDestroy(start);
    if (stop != nullptr) context_->driver().cuEventDestroy(stop);
  }
  Event start = nullptr, stop = nullptr;

 private:
  const Context* context_;
};

class CudaDevice final : public runtime::Device {
 public:
  CudaDevice(DeviceInfo info, std::shared_ptr<const Context> context)
      : info_(std::move(info)), context_(std::move(context)) {}

  std::string kind() const override { return info_.kind; }
  std::string name() const override { return info_.name; }
  int ordinal() const override { return info_.ordinal; }
  std::string driver_version() const override { return "CUDA " + version_text(context_->driver().version); }
  Target target() const override { return info_.target; }
  std::unique_ptr<Program> load(const Plan& plan) override {
    check_plan(plan);
    return std::make_unique<CudaProgram>(plan, info_.target, context_);
  }

  void* allocate(std::int64_t bytes) override {
    const Context::Current current(*context_);
    DevicePtr p = 0;
    context_->expect(driver().cuMemAlloc(&p, std::max<std::size_t>(1, size_of_copy(bytes))),
                     fmt::format("allocation of {} bytes on {}", bytes, info_.name));
    return reinterpret_cast<void*>(p);
  }
  void release(void* p) override {
    const Context::TryCurrent current(*context_);
    if (p != nullptr && current.ok()) driver().cuMemFree(address_of(p));
  }
  void copy_in(void* device, const void* host, std::int64_t bytes) override {
    if (bytes <= 0) return;
    const Context::Current current(*context_);
    context_->expect(
        driver().cuMemcpyHtoDAsync(address_of(device), host, size_of_copy(bytes), context_->stream()),
        "a copy to the device");
    context_->expect(driver().cuStreamSynchronize(context_->stream()), "a copy to the device");
  }
  void copy_out(void* host, const void* device, std::int64_t bytes) override {
    if (bytes <= 0) return;
    const Context::Current current(*context_);
    context_->expect(
        driver().cuMemcpyDtoHAsync(host, address_of(device), size_of_copy(bytes), context_->stream()),
        "a copy from the device");
    context_->expect(driver().cuStreamSynchronize(context_->stream()), "a copy from the device");
  }
  void fill(void* device, unsigned char byte, std::int64_t bytes) override {
    if (bytes <= 0) return;
    const Context::Current current(*context_);
    context_->expect(
        driver().cuMemsetD8Async(address_of(device), byte, size_of_copy(bytes), context_->stream()),
        "filling device memory");
  }
  void synchronize() override {
    const Context::Current current(*context_);
    context_->expect(driver().cuStreamSynchronize(context_->stream()), "waiting for the device");
  }

  // All runs are queued before the first is waited for, so that the device does not idle between them.
  std::vector<double> time(Program& program, std::span<const std::vector<void*>> sets, int warmup,
                           int repeats) override {
    const Context::Current current(*context_);
    std::vector<EventPair> events;
    for (int i = 0; i < repeats; ++i) events.emplace_back(*context_);
    std::size_t turn = 0;
    const auto run = [&] { program.run(sets[turn++ % sets.size()], nullptr); };
    for (int i = 0; i < warmup; ++i) run();
    for (const EventPair& e : events) {
      context_->expect(driver().cuEventRecord(e.start, context_->stream()), "recording a CUDA event");
      run();
      context_->expect(driver().cuEventRecord(e.stop, context_->stream()), "recording a CUDA event");
    }
    context_->expect(driver().cuStreamSynchronize(context_->stream()), "waiting for the device");
    std::vector<double> seconds;
    for (const EventPair& e : events) {
      float milliseconds = 0;
      context_->expect(driver().cuEventElapsedTime(&milliseconds, e.start, e.stop), "reading CUDA events");
      seconds.push_back(1e-3 * milliseconds);
    }
    return seconds;
  }

 private:
  const Driver& driver() const { return context_->driver(); }

  DeviceInfo info_;
  std::shared_ptr<const Context> context_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<runtime::Device> open_cuda(int ordinal) {
  const std::shared_ptr<const cuda::Driver> driver = cuda::load_driver();
  DeviceInfo info = cuda::describe_device(*driver, ordinal);
  return std::make_unique<cuda::CudaDevice>(std::move(info),
                                            std::make_shared<const cuda::Context>(driver, ordinal));
}

}  // namespace bz

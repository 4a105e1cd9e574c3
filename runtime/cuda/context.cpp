#include "runtime/cuda/context.h"

#include <limits>

#include "support/error.h"

namespace bz::cuda {
namespace {

// Failures of a kernel after which the driver refuses everything else in the process.
bool loses_context(Result result) {
  return result == kIllegalAddress || result == kLaunchTimeout || result == kAssert ||
         (result >= kHardwareStackError && result <= kLaunchFailed);
}

}  // namespace

Context::Context(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)) {
  driver_->expect(driver_->cuDeviceGet(&device_, ordinal), fmt::format("opening CUDA device {}", ordinal));
  driver_->expect(driver_->cuDevicePrimaryCtxRetain(&handle_, device_),
                  fmt::format("making a context on CUDA device {}", ordinal));
  int pools = 0;
  driver_->cuDeviceGetAttribute(&pools, Attribute::memory_pools_supported, device_);
  try {
    const Current current(*this);
    expect(driver_->cuStreamCreate(&stream_, kStreamNonBlocking), "making a CUDA stream");
    if (pools != 0) {
      // A pool of our own: the default one belongs to everybody in the process.
      const MemPoolProps props{.location_id = device_};
      expect(driver_->cuMemPoolCreate(&pool_, &props), "making a CUDA memory pool");
      std::uint64_t keep_everything = std::numeric_limits<std::uint64_t>::max();
      expect(driver_->cuMemPoolSetAttribute(pool_, kMemPoolReleaseThreshold, &keep_everything),
             "setting up a CUDA memory pool");
    }
  } catch (...) {
    driver_->cuDevicePrimaryCtxRelease(device_);
    throw;
  }
}

Context::~Context() {
  {
    const TryCurrent current(*this);
    if (current.ok()) {
      driver_->cuStreamSynchronize(stream_);
      if (pool_ != nullptr) driver_->cuMemPoolDestroy(pool_);
      driver_->cuStreamDestroy(stream_);
    }
  }
  driver_->cuDevicePrimaryCtxRelease(device_);
}

Context::Current::Current(const Context& context) : context_(context) {
  if (context.lost_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(context.mutex_);
    throw DeviceError(
        fmt::format("the CUDA context was lost to an earlier failure ({}); only a new process can use "
                    "the device again",
                    context.lost_to_));
  }
  context.expect(context.driver_->cuCtxPushCurrent(context.handle_), "making a CUDA context current");
}

Context::Current::~Current() {
  ContextHandle popped = nullptr;
  context_.driver_->cuCtxPopCurrent(&popped);
}

Context::TryCurrent::TryCurrent(const Context& context)
    : context_(context), ok_(context.driver_->cuCtxPushCurrent(context.handle_) == kSuccess) {}

Context::TryCurrent::~TryCurrent() {
  ContextHandle popped = nullptr;
  if (ok_) context_.driver_->cuCtxPopCurrent(&popped);
}

void Context::forget_launch(const std::string& launch) const {
  const std::lock_guard lock(mutex_);
  const std::string* last = &launch;
  if (last_launch_.load(std::memory_order_acquire) != last) return;
  forgotten_launch_ = launch;
  last_launch_.compare_exchange_strong(last, &forgotten_launch_);
}

void Context::expect(Result result, std::string_view what) const {
  if (result == kSuccess) return;
  const std::string error = driver_->describe(result);
  if (!loses_context(result)) throw DeviceError(fmt::format("{} failed: {}", what, error));
  const std::lock_guard lock(mutex_);
  lost_to_ = error;
  lost_.store(true, std::memory_order_release);
  const std::string* last = last_launch_.load(std::memory_order_acquire);
  throw DeviceError(
      fmt::format("a kernel failed: {}; found out during {}, the last launch was {}; only a new process "
                  "can use the device again",
                  error, what, last == nullptr ? "not by Braze" : *last));
}

}  // namespace bz::cuda

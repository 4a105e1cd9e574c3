// A device's primary context, which Braze shares with every other user of CUDA in the process.
//
//   const Context::Current current(context);      // made current on this thread, the former one comes back
//   after
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/cuda/driver.h"

namespace bz::cuda {

class Context {
 public:
  Context(std::shared_ptr<const Driver> driver, int ordinal);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  class [[nodiscard]] Current {
   public:
    // Throws DeviceError when the context was lost to an earlier failure.
    explicit Current(const Context& context);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

   private:
    const Context& context_;
  };
  // For destructors: as Current, but says by `ok` whether it worked.
  class [[nodiscard]] TryCurrent {
   public:
    explicit TryCurrent(const Context& context);
    TryCurrent(const TryCurrent&) = delete;
    TryCurrent& operator=(const TryCurrent&) = delete;
    ~TryCurrent();
    bool ok() const { return ok_; }

   private:
    const Context& context_;
    bool ok_;
  };

  const Driver& driver() const { return *driver_; }
  Stream stream() const { return stream_; }  // the device's own
  MemPool pool() const { return pool_; }     // null when the device has no memory pools

  // Throws DeviceError "`what` failed: ..." unless `result` is success. A failed kernel takes the context
  // with it: the error that reports it says so, and later uses of the context report that it was lost.
  void expect(Result result, std::string_view what) const;
  // Names the launch, "kernel 'k' of program 'p' with ...", in the error of a failure that comes to light
  // later. The text stays where it is until forget_launch().
  void note_launch(const std::string& launch) const {
    last_launch_.store(&launch, std::memory_order_release);
  }
  void forget_launch(const std::string& launch) const;

 private:
  std::shared_ptr<const Driver> driver_;
  DeviceHandle device_ = 0;
  ContextHandle handle_ = nullptr;
  Stream stream_ = nullptr;
  MemPool pool_ = nullptr;

  // Launches only store and read the atomics; the texts behind them are changed and read under the mutex.
  mutable std::atomic<const std::string*> last_launch_ = nullptr;
  mutable std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_;
  mutable std::string forgotten_launch_;  // what last_launch_ points to when its program is gone
  mutable std::string lost_to_;           // the failure that lost the context
};

}  // namespace bz::cuda

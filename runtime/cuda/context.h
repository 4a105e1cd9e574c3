// A device's primary context, which Braze shares with every other user of CUDA in the process.
//
//   const Context::Current current(context);      // made current on this thread, the former one comes back
//   after
#pragma once

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
  // later.
  void note_launch(std::shared_ptr<const std::string> launch) const;

 private:
  std::shared_ptr<const Driver> driver_;
  DeviceHandle device_ = 0;
  ContextHandle handle_ = nullptr;
  Stream stream_ = nullptr;
  MemPool pool_ = nullptr;

  mutable std::mutex mutex_;
  mutable std::shared_ptr<const std::string> last_launch_;
  mutable std::string lost_to_;  // the failure, empty while the context works
};

}  // namespace bz::cuda

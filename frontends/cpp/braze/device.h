// Where compiled programs run.
//
//   bz::Device d = bz::Device::best();
//   fmt::print("{}: {}\n", d.kind(), d.name());
#pragma once

#include <memory>
#include <string>

#include "ir/target.h"
#include "runtime/runtime.h"

namespace bz {

class Device {
 public:
  // A GPU if there is one, else the simulator; `why_not` receives the reason there is no GPU.
  static Device best(std::string* why_not = nullptr);
  static Device cuda(int ordinal = 0);  // throws DeviceError that says what is missing
  static Device sim(const SimOptions& options = {});
  // By name: "best", "cuda", "cuda:1", "sim". Throws Error for another word.
  static Device open(const std::string& name);

  std::string kind() const { return runtime_->kind(); }  // "cuda" or "sim"
  std::string name() const { return runtime_->name(); }
  Target target() const { return runtime_->target(); }

  // Memory: bz::DeviceBuffer(device.runtime(), bytes), device.runtime().copy_in(...).
  runtime::Device& runtime() const { return *runtime_; }
  const std::shared_ptr<runtime::Device>& shared_runtime() const { return runtime_; }

 private:
  explicit Device(std::shared_ptr<runtime::Device> runtime) : runtime_(std::move(runtime)) {}

  std::shared_ptr<runtime::Device> runtime_;
};

}  // namespace bz

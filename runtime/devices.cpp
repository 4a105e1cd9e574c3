// Choosing a device.
#include <string_view>

#include "runtime/cuda/devices.h"
#include "runtime/runtime.h"
#include "support/error.h"

namespace bz {
namespace {

// The text of a device error without its class, for use inside another sentence.
std::string reason(const DeviceError& e) {
  constexpr std::string_view kClass = "device error: ";
  const std::string_view text = e.what();
  return std::string(text.starts_with(kClass) ? text.substr(kClass.size()) : text);
}

}  // namespace

std::unique_ptr<runtime::Device> best_device(std::string* why_not) {
  if (why_not != nullptr) why_not->clear();
  try {
    return open_cuda(cuda::list_devices().front().ordinal);
  } catch (const DeviceError& e) {
    if (why_not != nullptr) *why_not = reason(e);
    return open_sim();
  }
}

std::vector<DeviceInfo> list_devices(std::string* cuda_problem) {
  if (cuda_problem != nullptr) cuda_problem->clear();
  std::vector<DeviceInfo> devices;
  try {
    devices = cuda::list_devices();
  } catch (const DeviceError& e) {
    if (cuda_problem != nullptr) *cuda_problem = reason(e);
  }
  const std::unique_ptr<runtime::Device> sim = open_sim();
  devices.push_back({.kind = sim->kind(), .name = sim->name(), .target = sim->target()});
  return devices;
}

}  // namespace bz

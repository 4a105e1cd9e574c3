#include "runtime/cuda/devices.h"

#include <algorithm>
#include <string>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/ptx_version.h"
#include "support/error.h"

namespace bz::cuda {
namespace {

// Share of the memory's peak speed that a copy reaches: 4.28 of the 4.82 TB/s that clock and bus give on one
// H200.
constexpr double kCopyShare = 0.89;

int attribute(const Driver& driver, DeviceHandle device, Attribute which) {
  int value = 0;
  driver.expect(driver.cuDeviceGetAttribute(&value, which, device), "asking for a CUDA device's attributes");
  return value;
}

int device_count(const Driver& driver) {
  int count = 0;
  driver.expect(driver.cuDeviceGetCount(&count), "counting the CUDA devices");
  return count;
}

// The newest target that is not newer than the device; the driver compiles its PTX for the device itself.
Target base_target(const std::string& device, int capability) {
  std::optional<Target> best;
  for (const std::string& name : known_targets()) {
    const std::optional<Target> target = parse_target(name);
    if (target->sm <= capability && (!best || target->sm > best->sm)) best = target;
  }
  if (!best) {
    const std::string oldest = known_targets().front();
    throw DeviceError(
        fmt::format("{} has compute capability {}.{}, and {} is the oldest that Braze compiles for", device,
                    capability / 10, capability % 10, oldest));
  }
  return *best;
}

}  // namespace

DeviceInfo describe_device(const Driver& driver, int ordinal) {
  const int count = device_count(driver);
  if (ordinal < 0 || ordinal >= count) {
    throw DeviceError(
        fmt::format("no CUDA device {}: there {} {}", ordinal, count == 1 ? "is" : "are", count));
  }
  DeviceHandle device = 0;
  driver.expect(driver.cuDeviceGet(&device, ordinal), fmt::format("opening CUDA device {}", ordinal));
  char name[256] = {};
  driver.expect(driver.cuDeviceGetName(name, sizeof(name) - 1, device), "asking for a CUDA device's name");

  const auto get = [&](Attribute which) { return attribute(driver, device, which); };
  DeviceInfo info{.kind = "cuda", .name = name, .ordinal = ordinal};
  Target& target = info.target;
  target = base_target(name, 10 * get(Attribute::capability_major) + get(Attribute::capability_minor));
  target = with_ptx(target, std::min(newest_ptx(driver.version), kNewestWrittenPtx));
  target.multiprocessors = get(Attribute::multiprocessors);
  target.max_threads_per_block =
      std::min(target.max_threads_per_block, get(Attribute::max_threads_per_block));
  target.max_shared_bytes = get(Attribute::shared_per_block_optin);
  target.registers_per_block = get(Attribute::registers_per_block);
  target.threads_per_multiprocessor = get(Attribute::threads_per_multiprocessor);
  target.blocks_per_multiprocessor = get(Attribute::blocks_per_multiprocessor);
  target.shared_per_multiprocessor = get(Attribute::shared_per_multiprocessor);
  target.registers_per_multiprocessor = get(Attribute::registers_per_multiprocessor);
  if (get(Attribute::cluster_launch) == 0) target.max_cluster = 1;
  target.l2_bytes = get(Attribute::l2_bytes);
  const double transfers_per_second = 2e3 * get(Attribute::memory_clock_khz);  // two transfers a clock
  const double peak = transfers_per_second * get(Attribute::memory_bus_bits) / 8;
  if (peak > 0) target.dram_bytes_per_second = kCopyShare * peak;  // else what is usual for the target
  return info;
}

std::vector<DeviceInfo> list_devices() {
  const std::shared_ptr<const Driver> driver = load_driver();
  const int count = device_count(*driver);
  if (count == 0) throw DeviceError(fmt::format("no CUDA device: the driver {} finds none", driver->path));
  std::vector<DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    try {
      devices.push_back(describe_device(*driver, ordinal));
    } catch (const DeviceError&) {
      if (ordinal == count - 1 && devices.empty()) throw;
    }
  }
  return devices;
}

}  // namespace bz::cuda

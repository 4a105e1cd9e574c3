#include "tools/braze/devices.h"

#include <fmt/format.h>

#include "support/error.h"
#include "tools/braze/commands.h"

namespace bz::cli {
Device open_device(const std::string& name) {
  try {
    return Device::open(name.empty() ? "best" : name);
  } catch (const Error& e) {
    throw UsageError(fmt::format("--device: {}", e.what()));
  } catch (const DeviceError& e) {
    throw NoSuchDevice(e.what());
  }
}

void list_devices(std::ostream& out) {
  std::string problem;
  for (const DeviceInfo& d : bz::list_devices(&problem)) {
    const std::string name = d.kind == "cuda" ? fmt::format("cuda:{}", d.ordinal) : d.kind;
    const Target& t = d.target;
    out << fmt::format("{:<8}{}, {}, {} multiprocessors, {} KiB shared memory a block, {} MiB L2\n", name,
                       d.name, t.name, t.multiprocessors, t.max_shared_bytes >> 10, t.l2_bytes >> 20);
  }
  if (!problem.empty()) out << fmt::format("no CUDA device: {}\n", problem);
}

}  // namespace bz::cli

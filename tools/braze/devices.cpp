#include "tools/braze/devices.h"

#include <fmt/format.h>

#include <charconv>

#include "support/error.h"
#include "tools/braze/commands.h"

namespace bz::cli {
namespace {

int ordinal_of(const std::string& name) {
  constexpr std::string_view kCuda = "cuda";
  if (name == kCuda) return 0;
  int ordinal = -1;
  const char* const end = name.data() + name.size();
  if (name.starts_with("cuda:")) {
    const auto [stop, error] = std::from_chars(name.data() + kCuda.size() + 1, end, ordinal);
    if (error == std::errc() && stop == end && ordinal >= 0) return ordinal;
  }
  throw UsageError(fmt::format("--device {}: the devices are cuda, cuda:N and sim", name));
}

}  // namespace

Device open_device(const std::string& name) {
  if (name.empty()) return Device::best();
  if (name == "sim") return Device::sim();
  const int ordinal = ordinal_of(name);
  try {
    return Device::cuda(ordinal);
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

#include <braze/device.h>
#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "support/error.h"

namespace bz {

Device Device::best(std::string* why_not) { return Device(best_device(why_not)); }
Device Device::cuda(int ordinal) { return Device(open_cuda(ordinal)); }
Device Device::sim(const SimOptions& options) { return Device(open_sim(options)); }

Device Device::open(const std::string& name) {
  constexpr std::string_view kNumbered = "cuda:";
  if (name == "best") return best();
  if (name == "sim") return sim();
  if (name == "cuda") return cuda();
  if (name.starts_with(kNumbered)) {
    int ordinal = -1;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kNumbered.size(), end, ordinal);
    if (error == std::errc() && stop == end && ordinal >= 0) return cuda(ordinal);
  }
  throw Error(fmt::format("there is no device '{}'; devices are best, cuda, cuda:N and sim", name));
}

}  // namespace bz

#include "frontends/cpp/timing.h"

#include <algorithm>
#include <chrono>

namespace bz {
namespace {

constexpr std::int64_t kTileElements = 1 << 20;

// Fills memory with copies of a tile of random elements.
void fill_random(runtime::Device& device, void* address, const Type& type, std::uint64_t seed) {
  const std::int64_t elements = type.elements(), size = size_of(type.dtype);
  const HostTensor tile = random_tensor({type.dtype, {std::min(elements, kTileElements)}}, seed);
  for (std::int64_t at = 0; at < elements; at += kTileElements) {
    const std::int64_t count = std::min(kTileElements, elements - at);
    device.copy_in(static_cast<char*>(address) + at * size, tile.data(), count * size);
  }
}

}  // namespace

std::vector<double> time_sorted(runtime::Device& device, Program& program,
                                const std::vector<PlanBuffer>& arguments, const BenchOptions& options,
                                std::int64_t sets) {
  std::vector<DeviceBuffer> buffers;
  std::vector<std::vector<void*>> addresses(static_cast<std::size_t>(sets));
  std::uint64_t seed = options.seed;
  for (std::vector<void*>& set : addresses) {
    for (const PlanBuffer& b : arguments) {
      buffers.emplace_back(device, b.bytes());
      set.push_back(buffers.back().get());
      if (b.kind == PlanBuffer::Kind::input) fill_random(device, set.back(), b.type, seed++);
    }
  }
  std::vector<double> seconds = device.time(program, addresses, options.warmup, options.repeats);
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

double launch_seconds(runtime::Device& device, Program& program, const std::vector<PlanBuffer>& arguments) {
  constexpr int kRuns = 200;  // fewer than a stream takes before it makes the host wait
  std::vector<DeviceBuffer> buffers;
  std::vector<void*> addresses;
  for (const PlanBuffer& b : arguments) {
    buffers.emplace_back(device, b.bytes());
    addresses.push_back(buffers.back().get());
    device.fill(addresses.back(), 0, b.bytes());
  }
  program.run(addresses, nullptr);
  device.synchronize();
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    program.run(addresses, nullptr);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  device.synchronize();
  std::sort(seconds.begin(), seconds.end());
  return median(seconds);
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace bz

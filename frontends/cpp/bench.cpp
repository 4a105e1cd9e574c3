// Executable::bench: times of a program beside the speed of a plain copy on the same device.
#include <braze/executable.h>

#include <algorithm>

#include "frontends/cpp/executable_state.h"

namespace bz {
namespace {

constexpr std::int64_t kTileElements = 1 << 20;
constexpr std::int64_t kGpuCopyBytes = 256ll << 20;
constexpr std::int64_t kSimCopyBytes = 16ll << 20;

// Fills memory with copies of a tile of random elements.
void fill_random(runtime::Device& device, void* address, const Type& type, std::uint64_t seed) {
  const std::int64_t elements = type.elements(), size = size_of(type.dtype);
  const HostTensor tile = random_tensor({type.dtype, {std::min(elements, kTileElements)}}, seed);
  for (std::int64_t at = 0; at < elements; at += kTileElements) {
    const std::int64_t count = std::min(kTileElements, elements - at);
    device.copy_in(static_cast<char*>(address) + at * size, tile.data(), count * size);
  }
}

std::vector<double> time_sorted(runtime::Device& device, Program& program,
                                const std::vector<PlanBuffer>& arguments, const BenchOptions& options) {
  std::vector<DeviceBuffer> buffers;
  std::vector<void*> addresses;
  std::uint64_t seed = options.seed;
  for (const PlanBuffer& b : arguments) {
    buffers.emplace_back(device, b.bytes());
    addresses.push_back(buffers.back().get());
    if (b.kind == PlanBuffer::Kind::input) fill_random(device, addresses.back(), b.type, seed++);
  }
  std::vector<double> seconds = device.time(program, addresses, options.warmup, options.repeats);
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Bytes read and written each second by a copy whose two tensors have `bytes` each.
double measure_copy(const Device& device, std::int64_t bytes, const BenchOptions& options) {
  const Type type{DType::f32, {bytes / 4}};
  Variants copier(copy_graph(type.dtype, type.elements()), compile_options(device, {}),
                  device.shared_runtime());
  const std::vector<PlanBuffer> arguments = {{"x", PlanBuffer::Kind::input, type},
                                             {"y", PlanBuffer::Kind::output, type}};
  const double seconds =
      median(time_sorted(device.runtime(), copier.program(kWidestAlignment), arguments, options));
  return seconds > 0 ? 2 * static_cast<double>(bytes) / seconds : 0;
}

}  // namespace

BenchResult Executable::bench(const BenchOptions& options) {
  if (options.repeats < 1) throw Error("a benchmark needs at least one repetition");
  BenchResult r;
  r.bytes_min = compilation().bytes_min();
  r.bytes_total = compilation().bytes_total();

  // As large as the program's own traffic, which fits the memory; the simulator is too slow for that.
  const bool sim = state_->device.kind() == "sim";
  const std::int64_t copy_bytes = sim ? kSimCopyBytes : std::max(kGpuCopyBytes, r.bytes_min / 2 / 4 * 4);
  r.copy_bytes_per_second = measure_copy(state_->device, copy_bytes, options);

  r.seconds = time_sorted(state_->device.runtime(), state_->variants.program(kWidestAlignment),
                          state_->arguments, options);
  r.median = median(r.seconds);
  r.fastest = r.seconds.front();
  r.slowest = r.seconds.back();
  if (r.median > 0 && r.copy_bytes_per_second > 0) {
    r.copy_share = static_cast<double>(r.bytes_min) / r.median / r.copy_bytes_per_second;
  }
  return r;
}

}  // namespace bz

// Executable::bench: times of a program beside the speed of a plain copy on the same device.
#include <braze/executable.h>

#include <algorithm>

#include "frontends/cpp/executable_state.h"
#include "frontends/cpp/timing.h"

namespace bz {
namespace {

constexpr std::int64_t kGpuCopyBytes = 256ll << 20;
constexpr std::int64_t kSimCopyBytes = 16ll << 20;

// Bytes read and written each second by a copy whose two tensors have `bytes` each.
double measure_copy(const Device& device, std::int64_t bytes, const BenchOptions& options) {
  const Type type{DType::f32, {bytes / 4}};
  const ir::Graph graph = copy_graph(type.dtype, type.elements());
  Variants copier(graph, compile_options(graph, device, {}), device.shared_runtime());
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
  if (!sim) {
    r.launch = launch_seconds(state_->device.runtime(), state_->variants.program(kWidestAlignment),
                              state_->arguments);
  }
  if (r.median > 0 && r.copy_bytes_per_second > 0) {
    r.copy_share = static_cast<double>(r.bytes_min) / r.median / r.copy_bytes_per_second;
  }
  return r;
}

}  // namespace bz

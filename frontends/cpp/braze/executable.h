// Compiled programs.
//
//   bz::Executable exe = bz::compile(g, bz::Device::best());
//   std::map<std::string, bz::HostTensor> out = exe.run({{"x", x}});         // host memory in and out
//   exe.launch(std::array<void*, 2>{device_x, device_y}, stream);            // device memory, asynchronous
//
// Kernels are compiled for addresses that are multiples of 16 bytes. Arguments that are not get a second
// variant of the program, compiled when the first such argument comes.
#pragma once

#include <braze/device.h>
#include <braze/tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "ir/plan.h"
#include "ir/tensor.h"

namespace bz {

struct Options {
  std::string schedule;          // by hand, see compiler/schedule/schedule.h
  bool fast_math = false;        // the GPU's approximate instructions, and contraction; see docs/numerics.md
  std::optional<Target> target;  // compile for this one instead of the device's
  std::vector<std::string> disabled_passes;  // to leave out, of pass_names()
  // Measure candidates of every kernel on the device and take the fastest. Times are remembered on disk, see
  // docs/schedules.md; `progress` is called with a line for each that is measured now.
  bool tune = false;
  std::function<void(const std::string&)> progress;
};

// Times of one program on its device.
struct BenchResult {
  std::vector<double> seconds;  // of every repetition, sorted
  double median = 0, fastest = 0, slowest = 0;
  double launch = 0;             // seconds of the host for a run that it does not wait for; 0 in the simulator
  std::int64_t bytes_min = 0;    // every input read once, every output written once
  std::int64_t bytes_total = 0;  // that the kernels move
  double copy_bytes_per_second =
      0;  // measured in the same call: a copy of at least 256 MiB (16 MiB in the simulator)
  // bytes_min / median over the copy's speed: 1 when the program is as fast as copying what it must move.
  double copy_share = 0;
};

struct BenchOptions {
  int warmup = 3;
  int repeats = 20;
  std::uint64_t seed = 0;  // of the inputs
};

// Not for several threads at once.
class Executable {
 public:
  using Tensors = std::map<std::string, HostTensor>;

  // Runs on host tensors: one for every input, by name and of the declared type, or Error.
  Tensors run(const Tensors& inputs);

  // Runs on device memory: addresses of the inputs, then of the outputs, each in the order of declaration.
  // Asynchronous on CUDA; `stream` is a CUstream, or nullptr for the device's own. An address has to be a
  // multiple of the size of its elements. An output that lies exactly on an input gets what it would get
  // elsewhere (it is computed into a temporary and copied); one that overlaps another argument in part is an
  // Error.
  void launch(std::span<void* const> addresses, StreamHandle stream = nullptr);

  BenchResult bench(const BenchOptions& options = {});

  std::string explain() const;
  std::string explain_json() const;
  std::string dump(Stage stage) const;
  const Compilation& compilation() const;
  const Plan& plan() const { return compilation().plan; }
  const Device& device() const;

 private:
  friend Executable compile(const ir::Graph& graph, const Device& device, const Options& options);
  struct State;
  explicit Executable(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

// Throws Error for programs and options that cannot be compiled, DeviceError when the device refuses the
// program.
Executable compile(const Graph& graph, const Device& device, const Options& options = {});
Executable compile(const ir::Graph& graph, const Device& device, const Options& options = {});

}  // namespace bz

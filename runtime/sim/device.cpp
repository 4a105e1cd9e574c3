// The simulator as a Device: memory is host memory, a run finishes before it returns.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/arguments.h"
#include "runtime/runtime.h"
#include "runtime/sim/compiled_module.h"
#include "runtime/sim/random.h"
#include "runtime/sim/worker_pool.h"
#include "support/error.h"

namespace bz {
namespace {

using sim::CompiledModule;
using sim::Launch;
using sim::Shadow;
using sim::WorkerPool;

// Cores beyond these bring little: each worker has a thousand stacks of its own.
constexpr int kMaxDefaultWorkers = 16;
constexpr std::size_t kAlignment = 256;
// That share the work of a persistent kernel: few, so that each takes several turns.
constexpr std::int64_t kResidentClusters = 3;

struct FreeMemory {
  void operator()(std::byte* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, FreeMemory>;

Memory allocate_memory(std::int64_t bytes) {
  const std::size_t size = std::max<std::size_t>(1, static_cast<std::size_t>(bytes));
  auto* p = static_cast<std::byte*>(
      std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment));
  if (p == nullptr) throw DeviceError(fmt::format("the simulator cannot allocate {} bytes", bytes));
  return Memory(p);
}

std::string describe(const PlanBuffer& b) {
  switch (b.kind) {
    case PlanBuffer::Kind::input: return fmt::format("input '{}'", b.name);
    case PlanBuffer::Kind::output: return fmt::format("output '{}'", b.name);
    case PlanBuffer::Kind::temporary: break;
  }
  return fmt::format("temporary '{}'", b.name);
}

class SimProgram final : public Program {
 public:
  SimProgram(const Plan& plan, const SimOptions& options, std::shared_ptr<WorkerPool> pool)
      : plan_(plan), options_(options), pool_(std::move(pool)), module_(plan, options.check_memory) {
    plan_.bitcode.clear();
    temporaries_.resize(plan_.buffers.size());
    shadows_.resize(plan_.buffers.size());
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& b = plan_.buffers[i];
      if (b.kind == PlanBuffer::Kind::temporary) temporaries_[i] = allocate_memory(b.bytes());
      if (b.kind == PlanBuffer::Kind::input || !options_.check_memory) continue;
      shadows_[i] = std::make_unique<Shadow>(b.bytes(), size_of(b.type.dtype));
    }
  }

  void run(std::span<void* const> arguments, StreamHandle) override {
    std::vector<void*> addresses = bind_arguments(plan_, arguments);
    const std::lock_guard one_run(temporaries_mutex_);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (temporaries_[i] == nullptr) continue;
      addresses[i] = temporaries_[i].get();
      if (plan_.buffers[i].zeroed) {
        std::memset(addresses[i], 0, static_cast<std::size_t>(plan_.buffers[i].bytes()));
      } else if (options_.nan_memory) {
        std::memset(addresses[i], 0xff, static_cast<std::size_t>(plan_.buffers[i].bytes()));
      }
    }
    for (const auto& s : shadows_) {
      if (s != nullptr) s->forget_all();
    }
    for (std::size_t k = 0; k < plan_.kernels.size(); ++k) {
      if (plan_.kernels[k].grid == 0) continue;
      pool_->run(make_launch(k, addresses));
      for (const int a : plan_.kernels[k].arguments) {
        if (Shadow* s = shadows_[static_cast<std::size_t>(a)].get(); s != nullptr) s->forget_accesses();
      }
    }
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (plan_.buffers[i].kind == PlanBuffer::Kind::output && shadows_[i] != nullptr) require_written(i);
    }
  }

 private:
  Launch make_launch(std::size_t index, const std::vector<void*>& addresses) const {
    const PlanKernel& k = plan_.kernels[index];
    const sim::Instrumentation& calls = module_.instrumentation();
    // Where only a multiple will do, one of that is enough.
    const std::int64_t resident = (k.apart == 1 ? kResidentClusters : k.apart) * k.cluster;
    Launch launch{.kernel = &k,
                  .blocks = k.persistent ? std::min(k.grid, resident) : k.grid,
                  .entry = module_.entry(index),
                  .sites = calls.sites,
                  .shared_granule = calls.shared_granule,
                  .nan_memory = options_.nan_memory,
                  .check_memory = options_.check_memory};
    if (options_.seed != 0) launch.seed = sim::mix(options_.seed, index);
    for (std::size_t i = 0; i < k.arguments.size(); ++i) {
      const auto a = static_cast<std::size_t>(k.arguments[i]);
      const PlanBuffer& b = plan_.buffers[a];
      launch.arguments.push_back(addresses[a]);
      if (!options_.check_memory) continue;
      launch.regions.push_back({static_cast<std::byte*>(addresses[a]), b.bytes(),
                                b.kind != PlanBuffer::Kind::input, describe(b), shadows_[a].get(),
                                calls.stored.at(k.name)[i]});
    }
    return launch;
  }

  void require_written(std::size_t buffer) const {
    const std::int64_t at = shadows_[buffer]->first_unwritten();
    if (at < 0) return;
    const PlanBuffer& b = plan_.buffers[buffer];
    throw DeviceError(fmt::format("program '{}': no kernel has written element {} of {}, which has {}",
                                  plan_.name, at / size_of(b.type.dtype), describe(b), b.type.elements()));
  }

  Plan plan_;
  const SimOptions options_;
  std::shared_ptr<WorkerPool> pool_;
  CompiledModule module_;
  std::mutex temporaries_mutex_;
  std::vector<Memory> temporaries_;               // by buffer; null for inputs and outputs
  std::vector<std::unique_ptr<Shadow>> shadows_;  // by buffer; null for inputs and when memory is not checked
};

class SimDevice final : public runtime::Device {
 public:
  explicit SimDevice(const SimOptions& options)
      : options_(options), pool_(std::make_shared<WorkerPool>(workers())) {}

  std::string kind() const override { return "sim"; }
  std::string name() const override { return fmt::format("simulator on {} host threads", workers()); }
  std::string driver_version() const override { return ""; }
  Target target() const override {
    const std::optional<Target> target = parse_target("sim");
    check(target.has_value(), "there is no target 'sim'");
    return *target;
  }
  std::unique_ptr<Program> load(const Plan& plan) override {
    check_plan(plan);
    return std::make_unique<SimProgram>(plan, options_, pool_);
  }

  void* allocate(std::int64_t bytes) override {
    Memory memory = allocate_memory(bytes);
    if (options_.nan_memory) fill(memory.get(), 0xff, bytes);
    return memory.release();
  }
  void release(void* p) override { std::free(p); }
  void copy_in(void* device, const void* host, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void copy_out(void* host, const void* device, std::int64_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
  void fill(void* device, unsigned char byte, std::int64_t bytes) override {
    if (bytes > 0) std::memset(device, byte, static_cast<std::size_t>(bytes));
  }
  void synchronize() override {}

  std::vector<double> time(Program& program, std::span<const std::vector<void*>> sets, int warmup,
                           int repeats) override {
    std::size_t turn = 0;
    const auto run = [&] { program.run(sets[turn++ % sets.size()], nullptr); };
    for (int i = 0; i < warmup; ++i) run();
    std::vector<double> seconds;
    for (int i = 0; i < repeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run();
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
  }

 private:
  int workers() const {
    if (options_.workers > 0) return options_.workers;
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxDefaultWorkers);
  }

  const SimOptions options_;
  std::shared_ptr<WorkerPool> pool_;
};

}  // namespace

std::unique_ptr<runtime::Device> open_sim(const SimOptions& options) {
  return std::make_unique<SimDevice>(options);
}

}  // namespace bz

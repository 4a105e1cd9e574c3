#include "frontends/cpp/tuner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/cpp/timing.h"
#include "frontends/cpp/tuning_cache.h"
#include "frontends/cpp/variants.h"
#include "runtime/arguments.h"
#include "support/error.h"

namespace bz {
namespace {

using compiler::Candidate;
using compiler::Choice;
using compiler::Measurements;
using compiler::Schedule;

// Candidates of a kernel that are measured.
constexpr std::size_t kMost = 8;
constexpr BenchOptions kGpuRuns{.warmup = 3, .repeats = 15};
constexpr BenchOptions kSimRuns{.warmup = 0, .repeats = 3};
// Sets of arguments, at most, that keep data from being found in L2.
constexpr std::int64_t kMostSets = 16;

// The chosen schedule of a stage, then others, the shortest prediction first.
std::vector<Schedule> to_measure(const Choice& choice, std::size_t most) {
  std::vector<Candidate> others = choice.candidates;
  std::erase_if(others, [&](const Candidate& c) { return c.schedule == choice.schedule; });
  std::stable_sort(others.begin(), others.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  std::vector<Schedule> schedules = {choice.schedule};
  for (const Candidate& c : others) {
    if (schedules.size() < most) schedules.push_back(c.schedule);
  }
  return schedules;
}

// What a kernel computes, for which shapes, and which schedules it starts from, with nodes numbered as they occur.
std::string identity(const CompiledKernel& kernel, const ir::Graph& graph) {
  std::map<NodeId, std::size_t> numbers;
  const auto label = [&](NodeId n) {
    const std::size_t number = numbers.try_emplace(n, numbers.size()).first->second;
    return fmt::format("%{}: {}", number, to_string(graph.type(n)));
  };
  std::string text = fmt::format("cluster {}\n", kernel.group.cluster);
  for (std::size_t i = 0; i < kernel.choices.size(); ++i) {
    compiler::Region region = kernel.group.stages[i];
    region.name = "stage";
    text += print(region, label) + to_string(kernel.choices[i].schedule) + "\n";
  }
  return text;
}

class Tuner {
 public:
  Tuner(const ir::Graph& graph, const CompileOptions& options, runtime::Device& device,
        const TuneProgress& progress)
      : graph_(graph), options_(options), device_(device), progress_(progress), cache_(tuning_folder()) {
    options_.alignment = kWidestAlignment;
    options_.measured.clear();
  }

  std::map<std::string, Measurements> run() {
    CompileOptions look = options_;
    look.last = Stage::schedule;
    const Compilation c = compile(graph_, look);
    std::map<std::string, Measurements> all;
    for (const CompiledKernel& k : c.kernels) {
      const StageTimes times = times_of(k, c.simplified);
      for (std::size_t i = 0; i < times.size(); ++i) all[k.group.stages[i].name] = times[i];
    }
    return all;
  }

 private:
  StageTimes times_of(const CompiledKernel& kernel, const ir::Graph& simplified) {
    std::vector<std::vector<Schedule>> schedules;
    for (const Choice& choice : kernel.choices)
      schedules.push_back(to_measure(choice, std::max<std::size_t>(2, kMost / kernel.choices.size())));
    if (std::all_of(schedules.begin(), schedules.end(), [](const auto& s) { return s.size() == 1; }))
      return {};
    const TuningKey key{device_.name(), device_.driver_version(), options_.target, options_.fast_math,
                        identity(kernel, simplified)};
    if (std::optional<StageTimes> known = cache_.find(key); known && covers(*known, schedules)) return *known;
    StageTimes times = measure(kernel, schedules);
    // Where nothing could be run something else was wrong, memory that others had.
    if (std::all_of(times.begin(), times.end(), runs)) cache_.keep(key, times);
    return times;
  }

  static bool runs(const Measurements& times) {
    return std::any_of(times.begin(), times.end(), [](const auto& t) { return std::isfinite(t.second); });
  }

  static bool covers(const StageTimes& times, const std::vector<std::vector<Schedule>>& schedules) {
    if (times.size() != schedules.size()) return false;
    for (std::size_t i = 0; i < times.size(); ++i) {
      for (const Schedule& s : schedules[i]) {
        if (std::none_of(times[i].begin(), times[i].end(), [&](const auto& t) { return t.first == s; }))
          return false;
      }
    }
    return true;
  }

  // Stage by stage; a later one is measured with the fastest schedule of those before it.
  StageTimes measure(const CompiledKernel& kernel, const std::vector<std::vector<Schedule>>& schedules) {
    std::vector<Schedule> base = kernel.schedules();
    StageTimes times(schedules.size());
    for (std::size_t stage = 0; stage < schedules.size(); ++stage) {
      double least = std::numeric_limits<double>::infinity();
      Schedule fastest = base[stage];
      for (const Schedule& s : schedules[stage]) {
        base[stage] = s;
        const double seconds = seconds_of(kernel, base);
        times[stage].emplace_back(s, seconds);
        if (seconds < least) fastest = s;
        least = std::min(least, seconds);
        if (progress_) {
          const std::string time =
              std::isfinite(seconds) ? fmt::format("{:.1f} us", 1e6 * seconds) : "cannot be run";
          progress_(fmt::format("tune {}: {}: {}", kernel.group.stages[stage].name, to_string(s), time));
        }
      }
      base[stage] = fastest;
    }
    return times;
  }

  // Of the kernel alone; infinity when the device has no room for it, or one stage leaves another none.
  double seconds_of(const CompiledKernel& kernel, const std::vector<Schedule>& schedules) {
    CompileOptions options = options_;
    options.kernel = kernel.group.name;
    options.schedule += ";";
    for (std::size_t i = 0; i < schedules.size(); ++i)
      options.schedule += fmt::format("{}: {};", kernel.group.stages[i].name, to_string(schedules[i]));
    try {
      return median_of(compile(graph_, options).plan);
    } catch (const Error&) {
      return std::numeric_limits<double>::infinity();
    } catch (const DeviceError&) {
      return std::numeric_limits<double>::infinity();
    }
  }

  double median_of(const Plan& plan) {
    std::vector<PlanBuffer> arguments;
    std::int64_t bytes = 1;
    for_each_argument(plan, [&](std::size_t, std::size_t buffer) {
      arguments.push_back(plan.buffers[buffer]);
      bytes += arguments.back().bytes();
    });
    const std::int64_t sets = std::clamp<std::int64_t>(2 * options_.target.l2_bytes / bytes, 1, kMostSets);
    const std::unique_ptr<Program> program = device_.load(plan);
    return median(
        time_sorted(device_, *program, arguments, device_.kind() == "sim" ? kSimRuns : kGpuRuns, sets));
  }

  const ir::Graph& graph_;
  CompileOptions options_;
  runtime::Device& device_;
  const TuneProgress& progress_;
  const TuningCache cache_;
};

}  // namespace

std::map<std::string, Measurements> tune(const ir::Graph& graph, const CompileOptions& options,
                                         runtime::Device& device, const TuneProgress& progress) {
  return Tuner(graph, options, device, progress).run();
}

}  // namespace bz

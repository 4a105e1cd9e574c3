// bench: how fast a program is, beside a copy of the same memory.
#include <braze/executable.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/braze/commands.h"
#include "tools/braze/devices.h"
#include "tools/braze/program.h"

namespace bz::cli {
namespace {

constexpr BenchOptions kGpuRuns{.warmup = 5, .repeats = 50};
constexpr BenchOptions kSimRuns{.warmup = 1, .repeats = 5};

std::string as_json(const Executable& exe, const BenchResult& r) {
  const nlohmann::ordered_json json = {{"name", exe.plan().name},
                                       {"device", exe.device().name()},
                                       {"target", exe.compilation().target.name},
                                       {"repeats", r.seconds.size()},
                                       {"median_us", 1e6 * r.median},
                                       {"fastest_us", 1e6 * r.fastest},
                                       {"slowest_us", 1e6 * r.slowest},
                                       {"launch_us", 1e6 * r.launch},
                                       {"bytes_min", r.bytes_min},
                                       {"bytes_total", r.bytes_total},
                                       {"bytes_per_second", static_cast<double>(r.bytes_min) / r.median},
                                       {"copy_bytes_per_second", r.copy_bytes_per_second},
                                       {"copy_share", r.copy_share}};
  return json.dump(2) + "\n";
}

std::string as_text(const Executable& exe, const BenchResult& r) {
  const std::string launch =
      r.launch > 0 ? fmt::format("  launch      {:.3f} us of the host\n", 1e6 * r.launch) : "";
  return fmt::format(
      "{} on {}\n"
      "  median      {:.3f} us of {} runs, {:.3f} to {:.3f}\n"
      "{}"
      "  bytes       {} at least, {} moved\n"
      "  speed       {:.1f} GB/s of the least bytes, {:.1f} % of the {:.1f} GB/s of a copy\n",
      exe.plan().name, exe.device().name(), 1e6 * r.median, r.seconds.size(), 1e6 * r.fastest,
      1e6 * r.slowest, launch, r.bytes_min, r.bytes_total, 1e-9 * static_cast<double>(r.bytes_min) / r.median,
      100 * r.copy_share, 1e-9 * r.copy_bytes_per_second);
}

}  // namespace

void bench(const BenchFlags& flags, std::ostream& out, std::ostream& err) {
  const ir::Graph graph = load_program(flags.program);
  Executable exe = compile(graph, open_device(flags.device), device_options(flags.program, flags.tune, err));
  const BenchResult result = exe.bench(exe.device().kind() == "sim" ? kSimRuns : kGpuRuns);
  out << (flags.json ? as_json(exe, result) : as_text(exe, result));
}

}  // namespace bz::cli

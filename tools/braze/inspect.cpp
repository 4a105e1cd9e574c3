// emit and explain: what the compiler makes of a program, without running it.
#include <fmt/format.h>

#include <charconv>

#include "compiler/compile.h"
#include "tools/braze/commands.h"
#include "tools/braze/devices.h"
#include "tools/braze/program.h"
#include "tools/braze/write_file.h"

namespace bz::cli {
namespace {

// "8.3" -> 83.
int parse_ptx_version(const std::string& text) {
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, major);
  bool good = error == std::errc() && dot != end && *dot == '.' && major > 0;
  if (good) {
    const auto [stop, minor_error] = std::from_chars(dot + 1, end, minor);
    good = minor_error == std::errc() && stop == end && minor >= 0 && minor <= 9;
  }
  if (!good) throw UsageError(fmt::format("--ptx {}: expected a version such as 8.3", text));
  return 10 * major + minor;
}

std::string times(const Compilation& c) {
  std::string text;
  double total = 0;
  for (const PassTime& t : c.times) {
    text += fmt::format("{:>10.3f} ms  {}\n", 1e3 * t.seconds, t.name);
    total += t.seconds;
  }
  return text + fmt::format("{:>10.3f} ms  total\n", 1e3 * total);
}

}  // namespace

void emit(const EmitFlags& flags, std::ostream& out, std::ostream& err) {
  CompileOptions options;
  options.last = *parse_stage(flags.stage);
  options.target = choose_target(flags.target);
  if (!flags.ptx.empty()) options.target = with_ptx(options.target, parse_ptx_version(flags.ptx));
  options.schedule = flags.program.schedule;
  options.disabled_passes = flags.program.disabled;
  options.fast_math = flags.program.fast_math;
  if (options.target.sim && options.last == Stage::ptx) {
    throw UsageError("--target sim: the simulator has no PTX; emit the stage llvm, or name a GPU's target");
  }
  const Compilation c = compile(load_program(flags.program), options);
  const std::string text = c.dump(options.last);
  if (flags.output.empty()) {
    out << text;
  } else {
    write_text(flags.output, text);
  }
  if (flags.time) err << times(c);
}

void explain(const ExplainFlags& flags, std::ostream& out, std::ostream& err) {
  if (flags.tune) {
    const Executable exe = compile(load_program(flags.program), open_device(flags.device),
                                   device_options(flags.program, true, err));
    out << (flags.json ? exe.explain_json() + "\n" : exe.explain());
    return;
  }
  CompileOptions options;
  options.last = Stage::schedule;
  options.target = choose_target(flags.target);
  options.schedule = flags.program.schedule;
  options.disabled_passes = flags.program.disabled;
  options.fast_math = flags.program.fast_math;
  const Compilation c = compile(load_program(flags.program), options);
  out << (flags.json ? c.explain_json() + "\n" : c.explain());
}

}  // namespace bz::cli

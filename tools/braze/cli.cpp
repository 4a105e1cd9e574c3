#include "tools/braze/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <new>
#include <stdexcept>
#include <ostream>

#include "compiler/compile.h"
#include "support/error.h"
#include "tools/braze/commands.h"

namespace bz {
namespace {

// A CLI11 check: empty when `text` is good, else what is wrong.
std::string natural_number(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? "" : fmt::format("{} is not a natural number", text);
}

// The flags of every verb, and which verb was asked for.
struct CommandLine {
  CLI::App app{"Compiles tensor programs into fused GPU kernels, and shows how.", "braze"};
  cli::EmitFlags emit;
  cli::ExplainFlags explain;
  cli::RunFlags run;
  cli::BenchFlags bench;
  CLI::App *emit_verb = nullptr, *explain_verb = nullptr, *run_verb = nullptr, *bench_verb = nullptr,
           *devices_verb = nullptr, *ops_verb = nullptr;

  CommandLine() {
    app.set_version_flag("--version", "braze " BRAZE_VERSION);
    app.require_subcommand(1);
    add_emit();
    add_explain();
    add_run();
    add_bench();
    devices_verb = app.add_subcommand("devices", "list the devices that programs can run on");
    ops_verb = app.add_subcommand("ops", "list the operations that programs can use");
  }

 private:
  static CLI::Option* repeatable(CLI::App* verb, const std::string& flag, std::vector<std::string>& values,
                                 const std::string& doc, const std::string& form) {
    return verb->add_option(flag, values, doc)->type_name(form)->allow_extra_args(false);
  }

  CLI::App* program_verb(const std::string& name, const std::string& doc, cli::ProgramFlags& flags) {
    CLI::App* verb = app.add_subcommand(name, doc);
    verb->add_option("FILE", flags.file, "a .braze file, or the name of a built-in example")
        ->required()
        ->type_name("");
    repeatable(verb, "--size", flags.sizes, "a named size of the program; repeatable", "NAME=N");
    verb->add_option("--schedule", flags.schedule,
                     "schedule by hand, \"TEXT\" or \"KERNEL: TEXT; KERNEL: TEXT\"")
        ->type_name("TEXT");
    repeatable(verb, "--disable", flags.disabled, "leave out a pass; repeatable", "PASS")
        ->check(CLI::IsMember(pass_names()));
    verb->add_flag("--fast-math", flags.fast_math,
                   "contract multiplications and additions, and compute f32 functions with the approximate "
                   "instructions of the GPU");
    return verb;
  }

  static CLI::Option* tune_flag(CLI::App* verb, bool& tune) {
    return verb->add_flag("--tune", tune,
                          "measure schedules of every kernel on the device, remember and take the fastest");
  }

  void add_emit() {
    emit_verb = program_verb("emit", "write what a stage of the compiler makes of a program", emit.program);
    std::vector<std::string> stages;
    for (std::string_view name : stage_names()) stages.emplace_back(name);
    emit_verb->add_option("--stage", emit.stage, "which stage")->required()->check(CLI::IsMember(stages));
    emit_verb->add_option("--target", emit.target,
                          "GPU to compile for; by default the one there is, else sm_90");
    emit_verb->add_option("--ptx", emit.ptx, "PTX version, such as 8.3");
    emit_verb->add_option("-o", emit.output, "file to write instead of the standard output");
    emit_verb->add_flag("--time", emit.time, "print the time of every pass to the standard error");
  }

  void add_explain() {
    explain_verb = program_verb("explain", "say which kernels a program becomes, and why", explain.program);
    explain_verb->add_option("--target", explain.target,
                             "GPU to compile for; by default the one there is, else sm_90");
    explain_verb->add_flag("--json", explain.json, "as one JSON object");
    CLI::Option* tune = tune_flag(explain_verb, explain.tune);
    explain_verb->add_option("--device", explain.device, "where --tune measures: cuda or sim")->needs(tune);
    tune->excludes("--target");
  }

  void add_run() {
    run_verb = program_verb("run", "run a program on given or random data", run.program);
    run_verb->add_option("--device", run.device,
                         "cuda, sim or interp; by default a GPU if there is one, else sim");
    repeatable(run_verb, "--in", run.inputs, "an input; those not given are random; repeatable",
               "NAME=FILE.npy");
    repeatable(run_verb, "--out", run.outputs, "where to write an output; repeatable", "NAME=FILE.npy");
    run_verb->add_flag("--check", run.check,
                       "compare with the float64 interpreter; on some slices if it is much work");
    tune_flag(run_verb, run.tune);
    run_verb->add_option("--seed", run.seed, "of the random inputs")->check(natural_number);
  }

  void add_bench() {
    bench_verb = program_verb("bench", "measure a program beside a copy of the same memory", bench.program);
    bench_verb->add_option("--device", bench.device,
                           "cuda or sim; by default a GPU if there is one, else sim");
    bench_verb->add_flag("--json", bench.json, "as one JSON object");
    tune_flag(bench_verb, bench.tune);
  }
};

void dispatch(const CommandLine& line, std::ostream& out, std::ostream& err) {
  if (line.emit_verb->parsed()) cli::emit(line.emit, out, err);
  if (line.explain_verb->parsed()) cli::explain(line.explain, out, err);
  if (line.run_verb->parsed()) cli::run(line.run, out, err);
  if (line.bench_verb->parsed()) cli::bench(line.bench, out, err);
  if (line.devices_verb->parsed()) cli::list_devices(out);
  if (line.ops_verb->parsed()) cli::list_ops(out);
}

int does_not_fit(std::ostream& err) {
  err << "error: the program's tensors do not fit in memory\n";
  return kWrongProgram;
}

}  // namespace

int run_cli(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  CommandLine line;
  try {
    line.app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    dispatch(line, out, err);
    if (!out.flush()) throw Error("cannot write to the standard output");
    return kGood;
  } catch (const CLI::Success& e) {  // --help, --version
    return line.app.exit(e, out, err);
  } catch (const CLI::ParseError& e) {
    err << fmt::format("braze: {}; see braze --help\n", e.what());
    return kWrongUsage;
  } catch (const cli::UsageError& e) {
    err << fmt::format("braze: {}; see braze --help\n", e.what());
    return kWrongUsage;
  } catch (const cli::NoSuchDevice& e) {
    err << e.what() << '\n';
    return kNoDevice;
  } catch (const std::bad_alloc&) {
    return does_not_fit(err);
  } catch (const std::length_error&) {  // more than a vector can ever have
    return does_not_fit(err);
  } catch (const std::exception& e) {
    err << e.what() << '\n';
    return kWrongProgram;
  }
}

}  // namespace bz

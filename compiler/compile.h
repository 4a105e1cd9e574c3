// The compiler: a graph and a target become a plan. compile.cpp shows the whole pipeline on one screen.
//
//   CompileOptions options;
//   options.target = device->target();
//   Compilation c = compile(graph, options);
//   device->load(c.plan);            c.dump(Stage::kernel);            c.explain();
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/fuse/fuse.h"
#include "compiler/lower/lower.h"
#include "compiler/schedule/schedule.h"
#include "ir/graph.h"
#include "ir/plan.h"
#include "ir/target.h"

namespace bz {

enum class Stage : std::uint8_t { graph, simplified, regions, schedule, kernel, llvm, ptx };
std::optional<Stage> parse_stage(std::string_view text);
std::vector<std::string_view> stage_names();
std::vector<std::string> pass_names();  // that can be left out

struct CompileOptions {
  Target target;
  // Schedules by hand: "TEXT" for every kernel that has one, or "NAME: TEXT; NAME: TEXT" by kernel (see
  // compiler/schedule/schedule.h). A schedule that cannot serve is an Error that says why.
  std::string schedule;
  // Times of candidates by kernel or stage; where there are some, the fastest is taken. A schedule by hand comes before.
  std::map<std::string, compiler::Measurements> measured;
  // Compile this kernel alone: what it exchanges with the others are inputs and outputs of the plan. "": all.
  std::string kernel;
  // f32 functions and divisions become the approximate instructions of the GPU, a multiplication and an addition may be
  // rounded together. NaN, infinities and signed zeros stay what they are.
  bool fast_math = false;
  // Alignment in bytes of the addresses of inputs and outputs; a power of two. Each has that of its elements besides.
  int alignment = 16;
  std::vector<std::string> disabled_passes;  // names of graph passes to leave out
  Stage last = Stage::ptx;                   // where to stop; PTX or bitcode is made by the last stage only
};

struct PassTime {
  std::string name;
  double seconds;
};

// One compiled kernel with the decisions behind it.
struct CompiledKernel {
  compiler::Group group;
  std::vector<compiler::Choice> choices;  // by stage of the group
  compiler::Estimate estimate;
  kernel::Kernel kernel;
  std::vector<compiler::Schedule> schedules() const;
};

struct Compilation {
  ir::Graph graph;       // as given
  ir::Graph simplified;  // after the graph passes
  Target target;
  bool fast_math = false;
  std::vector<CompiledKernel> kernels;
  std::vector<compiler::Cut> cuts;
  std::vector<compiler::Recomputed> recomputed;
  Plan plan;
  std::string bitcode;  // the LLVM module of the kernels, primitives not yet bound
  std::vector<PassTime> times;

  std::string dump(Stage stage) const;
  // Which nodes went into which kernel and why, schedules with those refused, bytes against the least possible.
  std::string explain() const;
  std::string explain_json() const;
  // Each input read once and each output written once.
  std::int64_t bytes_min() const;
  std::int64_t bytes_total() const;
};

// What the plan's kernel has as its lines.
std::vector<PlanLine> plan_lines(const kernel::Kernel& kernel, const ir::Graph& simplified);

// Throws Error for a program or schedule that cannot be compiled for the target.
Compilation compile(const ir::Graph& graph, const CompileOptions& options);

}  // namespace bz

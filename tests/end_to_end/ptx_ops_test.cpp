// Every scalar op in every type through LLVM to PTX for every target: nothing is left to be linked, and
// NVIDIA's assembler, where there is one, takes it.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "harness.h"
#include "op_graphs.h"

using namespace bz;              // NOLINT
using namespace bz::end_to_end;  // NOLINT

namespace {

ir::Graph every_op() {
  ir::Graph g("every_op");
  for (const DType t : kAllDTypes) {
    const std::string prefix = std::string(name(t)) + "_";
    for (int arity = 1; arity <= 3; ++arity) add_ops(g, t, arity, 64, prefix + std::to_string(arity) + "_");
    add_casts(g, t, 64, prefix);
  }
  return g;
}

// Every reduction and a warp's and a block's worth of each way to combine.
ir::Graph every_reduction() {
  ir::Graph g("every_reduction");
  for (const DType t : kAllDTypes) {
    const NodeId x = g.input("x_" + std::string(name(t)), {t, {4, 2000}});
    for (const MonoidInfo& row : monoids()) {
      const bool logical = row.kind == Monoid::any || row.kind == Monoid::all;
      if (logical != (t == DType::boolean) || (!row.user && !is_float(t))) continue;
      const NodeId y = row.user ? g.reduce(row.kind, x, {1}, false)
                                : g.reduce(ReduceAttrs{row.kind, {1}, false, 1, false}, {x});
      g.output(fmt::format("{}_{}", name(t), row.text), y);
    }
  }
  return g;
}

std::string find_ptxas() {
  if (std::system("command -v ptxas > /dev/null 2>&1") == 0) return "ptxas";
  const std::string usual = "/usr/local/cuda/bin/ptxas";
  return std::filesystem::exists(usual) ? usual : "";
}

// What the assembler complains about; "" for nothing.
std::string assemble(const std::string& ptxas, const std::string& ptx, const std::string& target) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("braze_ptx_{}", getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "in.ptx") << ptx;
  const std::string command =
      fmt::format("{} -arch={} -O0 '{}' -o '{}' > '{}' 2>&1", ptxas, target, (folder / "in.ptx").string(),
                  (folder / "out.cubin").string(), (folder / "log").string());
  std::string complaint;
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(folder / "log");
    complaint.assign(std::istreambuf_iterator<char>(log), {});
    if (complaint.empty()) complaint = "it failed";
  }
  std::filesystem::remove_all(folder);
  return complaint;
}

}  // namespace

TEST_CASE("every scalar op and reduction becomes PTX that needs no other code, for every target") {
  const std::string ptxas = find_ptxas();
  if (ptxas.empty()) WARN("skipped: there is no ptxas to assemble with");
  const ir::Graph ops = every_op(), reductions = every_reduction();
  struct Program {
    const ir::Graph* graph;
    bool fast_math;
  };
  for (const std::string target : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    for (const auto& [g, fast_math] :
         {Program{&ops, false}, Program{&reductions, false}, Program{&ops, true}}) {
      INFO(target << " " << g->name() << (fast_math ? " with fast_math" : ""));
      CompileOptions options;
      options.target = *parse_target(target);
      options.fast_math = fast_math;
      const Compilation c = compile(*g, options);
      REQUIRE(!c.plan.ptx.empty());
      CHECK(c.plan.ptx.find(".target " + target) != std::string::npos);
      CHECK(c.plan.ptx.find(".extern .func") == std::string::npos);
      for (const PlanKernel& k : c.plan.kernels) CHECK(k.block <= options.target.max_threads_per_block);
      if (!ptxas.empty()) CHECK(assemble(ptxas, c.plan.ptx, target) == "");
    }
  }
}

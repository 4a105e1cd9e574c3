// Tuning: measures candidates of every kernel of a program on the device, one kernel after another, each by itself on random
// data. Times that are remembered (tuning_cache.h) are not measured again.
//
//   options.measured = tune(graph, options, device, {});
//   Compilation c = compile(graph, options);                  // takes the fastest
//
// A schedule by hand is left alone. A tuned program computes what it did before, within what docs/numerics.md allows; the
// order in which a sum is added up may be another.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "compiler/compile.h"
#include "runtime/runtime.h"

namespace bz {

// Called with a line for each candidate that has been measured.
using TuneProgress = std::function<void(const std::string&)>;

// For CompileOptions::measured.
std::map<std::string, compiler::Measurements> tune(const ir::Graph& graph, const CompileOptions& options,
                                                   runtime::Device& device, const TuneProgress& progress);

}  // namespace bz

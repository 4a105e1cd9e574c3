// Judging results: compares outputs with the float64 interpreter.
//
//   bz::ReferenceCheck c = bz::check_outputs(g.ir(), inputs, exe.run(inputs));
//   fmt::print("{}", c.text());
//   return c.ok() ? 0 : 1;
//
// A program that is too much work for the interpreter is checked on some slices of the outermost axis of its
// outputs (the first, the last and some between): the interpreter runs the same program with a smaller extent
// on the same slices of the inputs. That needs outputs that all have this axis, and a program in which it is
// never reduced, padded, sliced, flipped, windowed, counted by an iota or mixed with other axes. Otherwise
// check_outputs says why it cannot be sampled.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/compare.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace bz {

struct CheckOptions {
  // Elements computed by all nodes together, above which slices are checked.
  std::int64_t most_work = 1ll << 27;
  std::uint64_t seed = 0;  // chooses the slices
  // Allow what fast_math's approximations may add: the fast_error of every op in f32 (ir/ops.def) on the way to the output,
  // on the way where that is most.
  bool fast_math = false;
};

struct CheckedOutput {
  std::string name;
  Comparison comparison;
  // walk_tolerance for the longest reduction and the coarsest arithmetic on the way to the output and all roundings to 16 bits on
  // the way with most of them, and fast_error
  Tolerance tolerance;
  double fast_error = 0;  // what is allowed for fast_math
  bool ok = false;
};

struct ReferenceCheck {
  std::vector<CheckedOutput> outputs;
  std::vector<std::int64_t> slices;  // along the outermost axis; empty when everything was checked
  std::int64_t extent = 0;           // of that axis

  bool ok() const;
  // One line an output, after one that names the slices if some were chosen.
  std::string text() const;
};

// Throws Error when the program is too large and cannot be sampled, and when a tensor is missing or of
// another type.
ReferenceCheck check_outputs(const ir::Graph& graph, const std::map<std::string, HostTensor>& inputs,
                             const std::map<std::string, HostTensor>& outputs,
                             const CheckOptions& options = {});

}  // namespace bz

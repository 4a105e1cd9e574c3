// Graphs of all scalar ops, made from the op table.
#pragma once

#include "ir/graph.h"

namespace bz::end_to_end {

// Adds an output "PREFIXop" for every op that takes `t` in `arity` value operands of n elements. The inputs
// are PREFIXx0, PREFIXx1, ... and, for select, PREFIXc. cast is left to add_casts().
void add_ops(ir::Graph& g, DType t, int arity, std::int64_t n, const std::string& prefix = "");
// Adds an output "PREFIXto_type" of input PREFIXx0 for every type.
void add_casts(ir::Graph& g, DType t, std::int64_t n, const std::string& prefix = "");

}  // namespace bz::end_to_end

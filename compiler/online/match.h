// What the two patterns of online share.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "compiler/simplify/rewriter.h"

namespace bz {

// What to build instead of a node of the old graph, out of the nodes it needs; Rewriter::moved gives these.
struct Replacement {
  std::vector<NodeId> needs;
  std::function<NodeId(Rewriter&)> build;
};
using Replacements = std::unordered_map<NodeId, Replacement>;

void match_max_sumexp(const ir::Graph& g, Replacements& out);  // max_sumexp.cpp
void match_moments(const ir::Graph& g, Replacements& out);     // moments.cpp

// The attributes of `id` when it is a plain reduction by `monoid`: one operand, no kept axes, not a merge.
const ReduceAttrs* as_reduce(const ir::Graph& g, NodeId id, Monoid monoid);
// The operands of `id` when it is the map `op`.
const std::vector<NodeId>* as_map(const ir::Graph& g, NodeId id, ScalarOp op);
// The value of `id` when it is a constant.
const Scalar* as_constant(const ir::Graph& g, NodeId id);

// `id` and what it is a reshape of, as long as only axes of extent 1 come and go. All have the same elements.
std::vector<NodeId> same_values(const ir::Graph& g, NodeId id);
// When `p` is a broadcast: the same of its operand; `p` has the elements at its dims.
std::vector<NodeId> broadcast_values(const ir::Graph& g, NodeId p);
// True when the broadcast `p` repeats along `axes` what lies along the others, as keepdims and NumPy's rules
// do.
bool repeats_along(const ir::Graph& g, NodeId p, const Axes& axes);

Axes kept_axes(int rank, const Axes& axes);

}  // namespace bz

#include "compiler/online/online.h"
#include "compiler/pass.h"
#include "compiler/simplify/simplify.h"
#include "compiler/split/split.h"

namespace bz::compiler {
namespace {

constexpr GraphPass kPasses[] = {
    {"simplify", [](const ir::Graph& g, const Target&) { return simplify(g); },
     "canonical forms, constants, common subexpressions, dead code"},
    {"online", [](const ir::Graph& g, const Target&) { return online(g); },
     "dependent reductions as one: max and (weighted) sums of exp, mean and squared deviations"},
    // online leaves what it replaced behind, and makes new common subexpressions.
    {"simplify-again", [](const ir::Graph& g, const Target&) { return simplify(g); },
     "the same, after online"},
    {"split", split, "reductions of much data to few results in two steps"},
};

}  // namespace

std::span<const GraphPass> graph_passes() { return kPasses; }

}  // namespace bz::compiler

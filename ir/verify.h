// Checks a graph against the invariants that every pass may rely on and has to keep (listed in verify.cpp).
//
//   verify_or_throw(g, "simplify");   // InternalError: graph is broken after simplify: ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace bz {

struct Violation {
  SourceLoc loc;  // of the node it concerns
  std::string what;
};
// Every one there is; empty for a sound graph.
std::vector<Violation> verify(const ir::Graph& g);

// Throws InternalError that lists the violations; `after` names the step that made the graph.
void verify_or_throw(const ir::Graph& g, std::string_view after);

}  // namespace bz

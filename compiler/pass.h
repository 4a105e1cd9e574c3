// Graph passes: functions from graph to graph, in a table. The pipeline times each, verifies after it and can leave it out.
#pragma once

#include <span>
#include <string_view>

#include "ir/graph.h"
#include "ir/target.h"

namespace bz::compiler {

struct GraphPass {
  std::string_view name;  // of the file, the function and the word that --disable takes
  ir::Graph (*run)(const ir::Graph& graph, const Target& target);
  std::string_view doc;
};

// In the order they run.
std::span<const GraphPass> graph_passes();

}  // namespace bz::compiler

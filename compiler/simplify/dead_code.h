// dead_code: drops the nodes that no output needs. Inputs stay: they are the program's signature.
//
//   before            after
//   %a = exp %x
//   %b = tanh %x      %b = tanh %x
//   output %b         output %b
//
// Every pass that rebuilds a graph ends with it, so that the next one sees only what is computed.
#pragma once

#include "ir/graph.h"

namespace bz {

ir::Graph drop_dead_code(const ir::Graph& g);

}  // namespace bz

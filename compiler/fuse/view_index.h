// Views as index arithmetic: where an element of a view lies in its operand.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ir/index.h"

namespace bz::compiler {

// Row-major position of an element, and back.
Index linearize(const std::vector<Index>& at, const Shape& shape);
std::vector<Index> delinearize(Index offset, const Shape& shape);

// Indices of the operand, of the given shape, from those of the view's result; outside of it in the padding of a pad.
std::vector<Index> operand_index(const Node& view, const Shape& operand, const std::vector<Index>& at);

// What must hold for the indices to lie inside the shape; only bounds that can fail.
std::vector<IndexBound> inside(const std::vector<Index>& at, const Shape& shape);
// Adds bounds, each once, in order.
void add_bounds(std::vector<IndexBound>& to, const std::vector<IndexBound>& more);
bool uses_any(const Index& e, const std::vector<IndexVar>& vars);

}  // namespace bz::compiler

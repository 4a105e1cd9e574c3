// Offsets as numbers whose digits are variables.
#pragma once

#include <optional>
#include <vector>

#include "ir/index.h"

namespace bz::compiler {

// One variable of an offset that is the sum of a step times each: it can be told from the offset.
struct Digit {
  IndexVar var;
  std::int64_t step;
  Index of(const Index& offset) const { return mod(floordiv(offset, step), var.extent); }
};

// Innermost first. nullopt for an offset that is no such sum, or in which variables overlap.
std::optional<std::vector<Digit>> digits_of(const Index& offset);

// What a variable alone is multiplied with; 0 where it is not.
std::int64_t coefficient(const Index& e, const IndexVar& v);

}  // namespace bz::compiler

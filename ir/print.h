// The text form of a graph. `parse(print(g))` is `same(g)`; ir/parse.h describes the language.
//
//   graph softmax {
//     %x = input f32[4, 8]
//     %m = max %x {axes = [1], keepdims = true} @softmax.1
//     ...
//     output y = %7
//   }
//
// One line a node, in order. A node is called by its name, `%name~2` when the name is taken, `%number` when
// it has none. Attributes at their defaults are left out (`axes` and `dims` are always shown). A constant
// that only the next line uses, with the type that line gives it, is written in place: `%s = mul %x, 0.5`.
#pragma once

#include <string>

#include "ir/graph.h"

namespace bz {

struct PrintOptions {
  bool types = false;  // end every line with the type of its node, as a comment
};

std::string print(const ir::Graph& g, const PrintOptions& options = {});

// "f32[4, 8]", as it stands in the text form.
std::string print_type(const Type& type);
// Exact: to_string(), with the sign of a NaN.
std::string print_scalar(const Scalar& value);

}  // namespace bz

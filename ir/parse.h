// Reads the text form of a graph (`.braze` files); ir/print.h writes it.
//
//   graph softmax(R = 4096, D = 1024) {      # sizes with defaults, usable wherever an integer stands
//     %x = input f32[R, D]
//     %m = max %x {axes = [1], keepdims = true}
//     %e = exp %d @softmax.1                 # '@': the composite the node came from
//     %c = constant f32[4] 0.5
//     %i = iota i64[4, 8] {axis = 1}
//     %k = cast %x {dtype = f16}
//     %y = mul %x, 0.5                       // operands broadcast as in NumPy; a number takes the other's type
//     output %y
//     output scaled = %y                     // an output named otherwise than its node
//   }
//
//   maps      every row of ir/ops.def by its name
//   views     broadcast {shape, dims}, reshape {shape}, permute {perm}, slice {starts, stops, steps},
//             flip {axes}, pad {lo, hi, value}, window {axes, size, stride, dilation}; broadcast without dims
//             aligns at the end
//   reduce    sum prod max min any all argmax argmin {axes, keepdims}; without axes, all axes. `max` and `min`
//             with two operands are maps. Those the compiler makes: `max_sumexp.1 %x {axes = [1]}` is component
//             1 of the state, `merge = true` combines partial states.
//   others    every composite, with its attributes
//
// Integers may be written as sums, products and exact quotients of integers and sizes: `[R, D / 2 + 1]`.
// Names of letters, digits, '_' and '.' stand bare; inner nodes may have others, in quotes: `%"my sum"`. `%12`
// is a node without a name; `%x~2` a second node named x. Statements need no line of their own.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/graph.h"

namespace bz {

struct ParseOptions {
  std::string file = "<text>";                // for messages and node locations
  std::map<std::string, std::int64_t> sizes;  // instead of the defaults; each must be declared
};

// Throws Error, "file:line: error: ...".
ir::Graph parse(std::string_view text, const ParseOptions& options = {});
ir::Graph parse_file(const std::string& path, const std::map<std::string, std::int64_t>& sizes = {});

}  // namespace bz

// What every element of a graph's outputs may be, given its inputs: a Range for each, computed node by node
// from the definitions in docs/ and shared with nobody. It judges compiled programs and the interpreter alike.
//
// A map is a map of ranges (range.h). A reduction of n elements is wrong by (n + 8) u sum|x|, u the rounding
// of the arithmetic: n - 1 additions in any order, and a few operations more where it is computed as part of
// another (the moments of a variance). Where it sums exponentials it may be rescaled at every step (online
// softmax), 4 n u. Partial results that leave the range of the type make infinities, and NaN where they meet.
// What meets by min, max or a logical operation is exact, and argmax may be any element that could be largest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/interpret.h"
#include "ir/tensor.h"
#include "range.h"

namespace bz::end_to_end {

struct Enclosure {
  Type type;
  std::vector<Range> elements;
};

std::map<std::string, Enclosure> enclose(const ir::Graph& g, const std::map<std::string, HostTensor>& inputs,
                                         Arithmetic arithmetic);

// "" or the first element that is not in its range. The ends of the ranges are first rounded to the type that
// a tensor stores.
std::string outside(const Enclosure& expected, const HostTensor& got);
std::string outside(const Enclosure& expected, const ReferenceTensor& got);

}  // namespace bz::end_to_end

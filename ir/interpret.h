// The reference interpreter: what a graph means, computed in float64. Every compiled result is judged against
// it, so it shares nothing with the compiler.
//
//   std::map<std::string, HostTensor> in = {{"x", x}};
//   std::map<std::string, HostTensor> out = interpret(g, in);                // rounded to the outputs' types
//   std::map<std::string, ReferenceTensor> ref = interpret_reference(g, in);  // not rounded: for ir/compare.h
//
// Floating types are computed in double and rounded by casts (and the outputs of interpret()) alone;
// deviations of f64 from their mean are more exact than that (ir/interpret/deviations.h). Integers and bool
// are exact and wrap. Intermediates are freed after their last use, and maps that feed one map or reduction
// are never stored in full, so that memory is about 8 bytes for each element of the largest tensors that are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace bz {

// An output of the graph in the precision of the reference.
struct ReferenceTensor {
  Type type;
  std::vector<double> f;        // the elements of a floating type
  std::vector<std::int64_t> i;  // the elements of any other type
  double value(std::int64_t index) const {
    const auto k = static_cast<std::size_t>(index);
    return is_float(type.dtype) ? f[k] : static_cast<double>(i[k]);
  }
};

// `inputs` has a tensor of the declared type for every input of the graph and no others, or Error is thrown.
std::map<std::string, HostTensor> interpret(const ir::Graph& g,
                                            const std::map<std::string, HostTensor>& inputs);
std::map<std::string, ReferenceTensor> interpret_reference(const ir::Graph& g,
                                                           const std::map<std::string, HostTensor>& inputs);

}  // namespace bz

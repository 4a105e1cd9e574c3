// Fusion: cuts a graph into regions, each of which becomes one kernel.
//
// Works from the outputs back. A region starts at a node that must be stored and takes in everything it needs: maps
// and views always (a view is index arithmetic), a reduction when it runs over the region's own domain. What cannot be
// taken in is stored by a region of its own and loaded, and every such cut has one reason from the list below. Where a
// value of few elements follows a reduction that is cut off (the reciprocal deviation of a norm), the cut is placed
// after it, so that it is computed once and not for every element.
//
//   graph                                regions
//     %m = max %x {axes = [1]}             softmax_0: kept (r: 4096), reduced (d: 1024), stores %y
//     %e = exp (%x - %m)
//     %y = %e / sum %e {axes = [1]}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/fuse/region.h"

namespace bz::compiler {

enum class CutReason : std::uint8_t {
  different_domain,  // the reduction runs over other axes than the consumer's domain
  inside_reduction,  // the reduction would be repeated for every element that the consumer reduces
  repeated_reduction,  // the reduction would be repeated: the consumer visits each of its results more than once
  cheaper_to_store,  // several regions want the value: storing it takes less than what each would read and compute again
  transposed,  // the region would move whole sectors for single elements: storing the value takes less
  too_many_operations,
  too_many_arguments,
  domain_too_large,  // for one of the first three: one kernel could have both as stages, but several kernels are faster
  already_stored,  // the value is stored as an output anyway, and read back at other indices
};
std::string_view text(CutReason reason);

struct Cut {
  NodeId from = kNoNode;  // the stored value
  NodeId to = kNoNode;    // the node that loads it
  CutReason reason = CutReason::different_domain;
  std::string detail;  // the numbers behind it, where there are any
};

// A node that is loaded wherever it is no root, and why.
struct Stored {
  CutReason reason = CutReason::cheaper_to_store;
  std::string detail;
};

// A value that several regions compute, each from what it loads, because storing it would take more.
struct Recomputed {
  NodeId node = kNoNode;
  int regions = 0;
  std::int64_t bytes_again = 0;   // read by all but the first of them for this value alone
  std::int64_t bytes_stored = 0;  // moved if it were stored by the first and loaded by the others
  double instructions_again = 0;  // of all but the first for this value alone
  double gain = 0;                // of storing it, in bytes that could be moved in the time
};

struct Fusion {
  std::vector<Region> regions;  // in the order they must run
  std::vector<Cut> cuts;
  std::vector<Recomputed> recomputed;
};

// Addresses that a kernel takes: 4096 bytes of parameters are what PTX before 8.1 and devices before sm_70 have.
inline constexpr std::size_t kMostArguments = 512;

struct FuseOptions {
  bool fast_math = false;  // decides on what operations cost
  int operations = 2000;   // expressions in a region
  int arguments = 100;     // values that a region loads
  // Values stored for some other reason that a region computes, and stores if nothing else does: twice, where an output is
  // rounded and a temporary is not.
  int results = 100;
};

Fusion fuse(const ir::Graph& graph, const FuseOptions& options = {});

}  // namespace bz::compiler

// How a region walks through memory: along which variables its loads and stores are contiguous, and what they move where
// neighbouring threads are not neighbours in memory.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "compiler/fuse/region.h"

namespace bz::compiler {

// DRAM and L2 give and take so many bytes at a time.
inline constexpr int kSectorBytes = 32;

struct Access {
  Index offset;
  DType dtype = DType::f32;
  std::int64_t touched = 1;  // distinct points of the index space
  ExprId load = -1;          // the expression, of a load
  int root = -1;             // the place among the roots, of a store

  std::int64_t bytes() const { return touched * size_of(dtype); }
};

// Loads, then stores.
std::vector<Access> accesses(const Region& region);

// The offset grows by 1 with the variable, wherever the others are.
bool contiguous_along(const Index& offset, const IndexVar& v);

// Bytes of all accesses that are contiguous along the variable.
std::int64_t contiguous_bytes(std::span<const Access> all, const IndexVar& v);

// Bytes of sectors over bytes of elements, where neighbouring threads walk through `vars`, the last one fastest: 1 when all
// that is moved is used. Counted in the first elements.
double sectors_per_element(const Access& access, std::span<const IndexVar> vars);

// Bytes of memory that accesses touch, each element once however often it is needed.
class Touched {
 public:
  void add(NodeId node, const Index& offset, DType dtype);
  double bytes() const;

 private:
  struct Span {
    std::int64_t lo, hi, points;
    int size;
  };
  std::map<NodeId, Span> spans_;
};

}  // namespace bz::compiler

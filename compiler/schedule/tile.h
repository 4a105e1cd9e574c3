// Tiles: how a pointwise region is laid over the machine when its accesses are contiguous along two variables.
//
//   y[a, b] = f(x[b, a])
//
// Threads that are neighbours along b store whole sectors of y, and touch one element in each sector of x. So a block
// handles a tile: some elements along a and as many along b. It brings what is contiguous along a (`across`) to shared
// memory with threads along a, waits, and computes with threads along b (`along`). Results that are contiguous along a go
// the other way. What is contiguous along neither is moved as it comes.
#pragma once

#include <optional>
#include <vector>

#include "compiler/fuse/region.h"

namespace bz::compiler {

struct Schedule;

// One of the two variables of a tile.
struct TileSide {
  IndexVar var;
  std::int64_t size = 1;  // elements of the tile; those beyond the end of the variable are masked
  int vector = 1;         // elements that a thread moves at once when lanes run along it
  std::int64_t segment =
      1;  // elements that lanes cover before they go on along the other one: 128 bytes, no more
  std::int64_t tiles() const { return (var.extent + size - 1) / size; }
};

struct Tile {
  TileSide along, across;
  std::vector<ExprId> loads;  // that go through shared memory
  std::vector<int> stores;    // roots whose values do
};

// nullopt when no access is contiguous along a second variable.
std::optional<Tile> tile_of(const Region& region, const Schedule& s);

std::int64_t tile_blocks(const Region& region, const Tile& t);
std::int64_t tile_bytes(const Region& region, const Tile& t);  // of shared memory

}  // namespace bz::compiler

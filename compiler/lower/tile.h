// A region with a tile (schedule/tile.h) is lowered as stages of one kernel, which lowering knows anyway: the tiles are
// the outer variables, the variables inside a tile are what threads go over, and what crosses sides is a table.
//
//   region permute_0: kept (i0: 1000, i1: 500)      stage tile_in: outer (i0: 16, i1: 8), over (i1, i0), load %x, store table
//     e0 = load %x[i1*1000 + i0]                    stage permute_0: the same, over (i0, i1), load table, store %y
//     store %y[i0*500 + i1] = e0
#pragma once

#include <vector>

#include "compiler/group/group.h"
#include "compiler/schedule/schedule.h"

namespace bz::compiler {

struct Tiled {
  Group group;
  std::vector<Schedule> schedules;  // of its stages
};
Tiled tiled(const Region& region, const Schedule& s);

}  // namespace bz::compiler

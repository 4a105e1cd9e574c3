// What one stage of a group gives to later ones, in shared memory: tables in place of what would be stored between kernels.
#pragma once

#include <span>

#include "compiler/group/group.h"

namespace bz::compiler {

// Puts `root` of `producer` into a new table of the group, from which all of `members` load it. Their outer variables are those of the
// group, and the digits of the root's offset can be told. A root that is an output of the graph is stored as well.
void make_table(Region& producer, const Root& root, bool is_output, std::span<Region* const> members,
                Group& group);

}  // namespace bz::compiler

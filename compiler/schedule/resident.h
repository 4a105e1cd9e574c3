// The form of a region whose domain stays in registers: going over it again costs no reading, so that a reduction with a
// large state is taken back to plain ones.
#pragma once

#include "compiler/fuse/region.h"

namespace bz::compiler {

// Rewrites each max_sumexp whose exponentials are needed again to a maximum and sums. Whether there was one.
bool max_sumexp_as_sums(Region& r);
// Of a region like that, where all that is stored has 16 bits and nothing else is made of the quotients: threads take exponentials
// relative to the largest element of their own and exchange their states then, instead of the maximum first and the sums after it.
// Whether there was one.
bool exchange_once(Region& r);
// Rewrites the first moments to sums of the differences to the first element, of the deviations from that mean, and of their
// squares. Whether there was one. What it
// adds comes last, whoever needs it: operands are in order before, not after.
bool moments_as_sums(Region& r);

}  // namespace bz::compiler

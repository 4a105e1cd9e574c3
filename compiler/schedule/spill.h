// Vectors of a thread that stay in shared memory between phases, where the registers do not hold all (`spill`).
//
// What the first phase loads is copied there (cp.async), without a way through registers. Each phase takes its elements from
// there, a few at a time; what it computes of them is put there too when a later phase needs it and it costs more to compute
// again. Only the thread itself accesses its vectors, so there are no barriers.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/schedule/schedule.h"

namespace bz::compiler {

// What shared memory has of a thread's vector lies in pieces of so many bytes, as many as one instruction moves.
inline constexpr int kPieceBytes = 16;

struct Spill {
  struct Array {
    DType dtype = DType::f32;  // what it holds of each element
    // The array of wider values at the end of whose place it lies, if it has none of its own. They are `size` pieces of 16 bytes a vector, and
    // each thread has a column of pieces for itself: what is made of vector j goes to pieces up to size (j + 1) - 1, and of `spill` vectors the
    // one that is needed next is at (size - 1) spill + j + 1, which is not before that. Vectors are taken in that order.
    int within = -1;
  };
  std::vector<Array> arrays;
  std::vector<std::map<ExprId, int>>
      held;  // when a phase begins: the array of each expression that is in one
};
Spill spill_of(const Region& region, const Schedule& s);
// The same where what is computed is put in the places of what was loaded, or not at all.
Spill hold_in_place(const Region& region, const Schedule& s);
// Of the spilled vectors of a thread, so many are handled together: a power of two, up to `unroll`.
inline int spilled_together(const Schedule& s) { return std::min(s.unroll, s.spill & -s.spill); }
std::int64_t spill_bytes(const Region& region, const Schedule& s);  // of a block

}  // namespace bz::compiler

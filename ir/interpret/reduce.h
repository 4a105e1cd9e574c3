// Reductions of the interpreter: the monoid table's lift and combine on arrays of lanes. A tile of elements
// is lifted at once, long reductions combine tile after tile lane by lane, and then the lanes are combined as
// a tree, which also keeps sums accurate.
#pragma once

#include "ir/interpret/tape.h"

namespace bz::interpret_detail {

// `tape` computes the operands with the reduced axes last: element o * reduced + r is element r of result o.
// Returns the component that `attrs` asks for, of type `result`; `operand` is the type of the first operand.
BufferRef reduce(const ReduceAttrs& attrs, Tape& tape, int operands, DType operand, DType result,
                 std::int64_t outputs, std::int64_t reduced);

}  // namespace bz::interpret_detail

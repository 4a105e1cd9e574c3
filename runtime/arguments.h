// What both runtimes check before anything is launched: that a plan is one they can run, and that the
// addresses a caller gives fit it.
//
//   check_plan(plan);                                            // once, when a plan is loaded
//   check_arguments(plan, arguments);                            // at every run
//   std::vector<void*> at = bind_arguments(plan, arguments);     // the same; at[i]: of buffer i
#pragma once

#include <span>
#include <vector>

#include "ir/plan.h"

namespace bz {

inline constexpr std::int64_t kTemporaryAlignment = 256;

// Throws InternalError when the plan breaks the rules of ir/plan.h and ir/simt.h.
void check_plan(const Plan& plan);

// `arguments` are addresses of inputs then outputs, each in the order of plan.buffers. Throws DeviceError for a wrong
// number of them, and for a null or misaligned one; Error when an output overlaps another argument: kernels read inputs
// after they have stored outputs. With `InPlace::allowed` an output may be exactly an input, for a caller that sees to it
// before the kernels run. Buffers without bytes may be anywhere. Allocates nothing unless it throws.
enum class InPlace : bool { refused, allowed };
void check_arguments(const Plan& plan, std::span<void* const> arguments, InPlace in_place = InPlace::refused);

// Calls `use(index of the argument, index of its buffer)` for inputs, then for outputs.
template <class Use>
void for_each_argument(const Plan& plan, Use use) {
  std::size_t argument = 0;
  for (const PlanBuffer::Kind kind : {PlanBuffer::Kind::input, PlanBuffer::Kind::output}) {
    for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
      if (plan.buffers[i].kind == kind) use(argument++, i);
    }
  }
}

// Addresses by buffer, checked; null for temporaries.
std::vector<void*> bind_arguments(const Plan& plan, std::span<void* const> arguments,
                                  InPlace in_place = InPlace::refused);

}  // namespace bz

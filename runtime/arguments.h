// What both runtimes check before anything is launched: that a plan is one they can run, and that the
// addresses a caller gives fit it.
//
//   check_plan(plan);                                            // once, when a plan is loaded
//   std::vector<void*> at = bind_arguments(plan, arguments);     // at every run; at[i]: of buffer i
#pragma once

#include <span>
#include <vector>

#include "ir/plan.h"

namespace bz {

inline constexpr std::int64_t kTemporaryAlignment = 256;

// Throws InternalError when the plan breaks the rules of ir/plan.h and ir/simt.h.
void check_plan(const Plan& plan);

// Addresses by buffer: inputs then outputs, each in the order of plan.buffers, taken from `arguments`; null
// for temporaries. Throws DeviceError for a wrong number of arguments, and for a null or misaligned one;
// Error when an output overlaps another argument: kernels read inputs after they have stored outputs. With
// `InPlace::allowed` an output may be exactly an input, for a caller that sees to it before the kernels run. Buffers
// without bytes may be anywhere.
enum class InPlace : bool { refused, allowed };
std::vector<void*> bind_arguments(const Plan& plan, std::span<void* const> arguments,
                                  InPlace in_place = InPlace::refused);

}  // namespace bz

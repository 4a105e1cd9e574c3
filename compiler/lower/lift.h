// From the elements of some steps of a thread to one state of a reduction.
#pragma once

#include <span>

#include "compiler/lower/states.h"
#include "compiler/lower/values.h"

namespace bz::compiler {

// The operands of reduction `r` have been computed in all steps.
Handles lift(const StageContext& stage, const Position& position, const Values& values, int r,
             std::span<Step> steps);

}  // namespace bz::compiler

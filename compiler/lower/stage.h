// Lowering of one region into its kernel: the whole of it as a rule, one stage of it where several regions share a kernel.
#pragma once

#include "compiler/lower/context.h"

namespace bz::compiler {

void lower_stage(KernelContext& kernel, const Region& region, const Schedule& schedule,
                 const StagePlace& place);

}  // namespace bz::compiler

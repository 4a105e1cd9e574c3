// Shapes without their axes of extent 1, which views add and drop freely.
#pragma once

#include "ir/shape.h"

namespace bz {

// The axes whose extent is not 1, in order.
Axes wide_axes(const Shape& shape);
Shape squeezed(const Shape& shape);

}  // namespace bz

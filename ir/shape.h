// Shapes: extents of a dense tensor, outermost first, all >= 0. A rank-0 shape is a scalar.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace bz {

using Shape = std::vector<std::int64_t>;
using Axes = std::vector<int>;

std::int64_t element_count(const Shape& shape);  // 1 for rank 0; throws Error past 2^62
std::optional<std::int64_t> checked_element_count(const Shape& shape);  // nullopt past 2^62
std::vector<std::int64_t> row_major_strides(const Shape& shape);        // in elements

// A dtype and a shape.
struct Type {
  DType dtype = DType::f32;
  Shape shape;
  int rank() const { return static_cast<int>(shape.size()); }
  std::int64_t elements() const { return element_count(shape); }
  friend bool operator==(const Type&, const Type&) = default;
};

std::string to_string(const Shape& shape);  // "[3,4]"
std::string to_string(const Type& type);    // "f32[3,4]"

}  // namespace bz

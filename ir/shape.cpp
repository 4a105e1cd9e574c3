#include "ir/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "support/error.h"

namespace bz {

std::optional<std::int64_t> checked_element_count(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count) || count > std::int64_t{1} << 62) return std::nullopt;
  }
  return count;
}

std::int64_t element_count(const Shape& shape) {
  const std::optional<std::int64_t> count = checked_element_count(shape);
  if (!count) throw Error(fmt::format("{} has more than 2^62 elements", to_string(shape)));
  return *count;
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

std::string to_string(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

std::string to_string(const Type& type) {
  return fmt::format("{}{}", name(type.dtype), to_string(type.shape));
}

}  // namespace bz

// A dense row-major tensor in host memory: what the interpreter, the runtime and the .npy files exchange.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/shape.h"

namespace bz {

class HostTensor {
 public:
  HostTensor() = default;
  explicit HostTensor(Type type);  // zero-filled

  const Type& type() const { return type_; }
  std::int64_t elements() const { return count_; }
  std::size_t bytes() const { return data_.size(); }
  void* data() { return data_.data(); }
  const void* data() const { return data_.data(); }

  // Element by row-major index, converted from and to the storage type (rounds, wraps).
  Scalar get(std::int64_t index) const;
  void set(std::int64_t index, const Scalar& value);
  double value(std::int64_t index) const { return get(index).as_double(); }

 private:
  Type type_;
  std::int64_t count_ = 0;
  std::vector<std::byte> data_;
};

// Seeded random contents that exercise a program without overflow: floats are normal(0, 1), integers in [-8, 8],
// bool fair. The same seed and type give the same tensor on every machine.
HostTensor random_tensor(const Type& type, std::uint64_t seed);

}  // namespace bz

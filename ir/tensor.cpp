#include "ir/tensor.h"

#include <cstring>

#include "support/error.h"

namespace bz {
namespace {

template <class T>
T load(const std::byte* data, std::int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* data, std::int64_t index, T value) {
  std::memcpy(data + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// SplitMix64 (Steele, Lea and Flood 2014) of a counter: element k of a tensor does not depend on the others.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The sum of twelve uniform numbers less 6 has mean 0 and variance 1. Unlike the exact transforms it needs no
// logarithm or cosine, whose last bits differ between C libraries.
double almost_normal(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t sum = 0;
  for (std::uint64_t part = 0; part < 3; ++part) {
    const std::uint64_t bits = mix(seed ^ mix(3 * index + part));
    sum += (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
  }
  return (static_cast<double>(sum) - 12 * 32767.5) / 65536;
}

}  // namespace

HostTensor::HostTensor(Type type) : type_(std::move(type)), count_(type_.elements()) {
  data_.resize(static_cast<std::size_t>(count_) * static_cast<std::size_t>(size_of(type_.dtype)));
}

Scalar HostTensor::get(std::int64_t index) const {
  check(index >= 0 && index < count_, "tensor index is out of range");
  Scalar s;
  s.dtype = type_.dtype;
  switch (type_.dtype) {
    case DType::f32: s.f = load<float>(data_.data(), index); break;
    case DType::f16: s.f = f16_value(load<std::uint16_t>(data_.data(), index)); break;
    case DType::bf16: s.f = bf16_value(load<std::uint16_t>(data_.data(), index)); break;
    case DType::f64: s.f = load<double>(data_.data(), index); break;
    case DType::i32: s.i = load<std::int32_t>(data_.data(), index); break;
    case DType::i64: s.i = load<std::int64_t>(data_.data(), index); break;
    case DType::boolean: s.i = load<std::uint8_t>(data_.data(), index) != 0 ? 1 : 0; break;
  }
  return s;
}

void HostTensor::set(std::int64_t index, const Scalar& value) {
  check(index >= 0 && index < count_, "tensor index is out of range");
  const Scalar s =
      is_float(value.dtype) ? Scalar::of(type_.dtype, value.f) : Scalar::of_int(type_.dtype, value.i);
  switch (type_.dtype) {
    case DType::f32: store(data_.data(), index, static_cast<float>(s.f)); break;
    case DType::f16: store(data_.data(), index, f16_bits(s.f)); break;
    case DType::bf16: store(data_.data(), index, bf16_bits(s.f)); break;
    case DType::f64: store(data_.data(), index, s.f); break;
    case DType::i32: store(data_.data(), index, static_cast<std::int32_t>(s.i)); break;
    case DType::i64: store(data_.data(), index, s.i); break;
    case DType::boolean: store(data_.data(), index, static_cast<std::uint8_t>(s.i)); break;
  }
}

HostTensor random_tensor(const Type& type, std::uint64_t seed) {
  HostTensor tensor(type);
  const std::uint64_t key = mix(seed);
  for (std::int64_t k = 0; k < tensor.elements(); ++k) {
    const auto index = static_cast<std::uint64_t>(k);
    if (is_float(type.dtype)) {
      tensor.set(k, Scalar::of(type.dtype, almost_normal(key, index)));
    } else {
      const std::uint64_t bits = mix(key ^ mix(index)) >> 32;
      const std::uint64_t value = type.dtype == DType::boolean ? bits & 1 : (bits * 17) >> 32;
      const std::int64_t offset = type.dtype == DType::boolean ? 0 : 8;
      tensor.set(k, Scalar::of_int(type.dtype, static_cast<std::int64_t>(value) - offset));
    }
  }
  return tensor;
}

}  // namespace bz

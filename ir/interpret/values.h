// Values of the interpreter. A Buffer holds elements, a Source is a strided window onto a buffer: leaves and
// all views but pad (and some reshapes) are sources and cost nothing until somebody loads from them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace bz::interpret_detail {

// Elements of one type in the interpreter's own form: double for floating types, int64 for integers and bool.
struct Array {
  DType dtype = DType::f32;
  void* data = nullptr;
  double* f() const { return static_cast<double*>(data); }
  std::int64_t* i() const { return static_cast<std::int64_t*>(data); }
  Array at(std::int64_t offset) const { return {dtype, static_cast<std::byte*>(data) + 8 * offset}; }
};

void fill(const Array& out, std::int64_t count, const Scalar& value);
void copy(const Array& from, const Array& to, std::int64_t count);

// Owned elements, or those of a tensor that outlives the buffer.
class Buffer {
 public:
  Buffer(DType dtype, std::int64_t count);
  explicit Buffer(const HostTensor& tensor);

  DType dtype() const { return dtype_; }
  const HostTensor* tensor() const { return tensor_; }
  Array array() { return {dtype_, is_float(dtype_) ? static_cast<void*>(f_.data()) : i_.data()}; }
  // Gives up the elements; the buffer must own them.
  std::vector<double> take_floats() { return std::move(f_); }
  std::vector<std::int64_t> take_integers() { return std::move(i_); }

 private:
  DType dtype_;
  const HostTensor* tensor_ = nullptr;
  std::vector<double> f_;
  std::vector<std::int64_t> i_;
};
using BufferRef = std::shared_ptr<Buffer>;

// Element [i0, i1, ...] of the value is element offset + i0 * strides[0] + i1 * strides[1] + ... of the
// buffer.
struct Source {
  BufferRef data;
  BufferRef present;  // null, or of the same layout: 0 for elements that are not there
  std::int64_t offset = 0;
  Shape shape;
  std::vector<std::int64_t> strides;
};

Source make_source(BufferRef data, const Shape& shape, BufferRef present = nullptr);
Source constant_source(const Scalar& value, const Shape& shape);
Source iota_source(DType dtype, const Shape& shape, int axis);

// The view that `node` takes of `x`; nullopt when it is not a strided one (pad, some reshapes).
std::optional<Source> strided_view(const Node& node, const Source& x);

// A copy in row-major order.
Source materialize(const Source& x);
Source pad(const PadAttrs& attrs, const Shape& shape, const Source& x);

// Loads runs of a source whose axes are taken in `order` (a permutation), the last one fastest.
class Loader {
 public:
  Loader(const Source& source, const Axes& order);
  // Elements begin, begin + 1, ..., in the loader's order, converted to the interpreter's form.
  void load(std::int64_t begin, std::int64_t count, const Array& out) const;
  bool all_present() const { return source_.present == nullptr; }
  void load_present(std::int64_t begin, std::int64_t count, const Array& out) const;  // 0 or 1

 private:
  struct Dim {
    std::int64_t extent, stride;
  };
  void load_from(Buffer& buffer, std::int64_t begin, std::int64_t count, const Array& out) const;
  template <class T, class Out, class Convert>
  void load_as(const T* data, std::int64_t begin, std::int64_t count, Out* out, Convert convert) const;

  Source source_;
  std::vector<Dim> dims_;  // neighbours merged where they are contiguous
};

}  // namespace bz::interpret_detail

#include "ir/interpret/values.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace bz::interpret_detail {
namespace {

Axes identity_order(const Shape& shape) {
  Axes order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Strides for `shape` over the elements of `x` in row-major order, if there are any: every group of axes with
// equal products of extents on both sides must be contiguous in `x`.
std::optional<std::vector<std::int64_t>> reshape_strides(const Source& x, const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 0);
  if (element_count(shape) == 0) return strides;
  Shape from;
  std::vector<std::int64_t> from_strides;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (x.shape[i] == 1) continue;
    from.push_back(x.shape[i]);
    from_strides.push_back(x.strides[i]);
  }
  std::size_t a = 0, b = 0;
  while (a < from.size()) {
    std::int64_t have = from[a], want = 1;
    std::size_t a_end = a + 1, b_end = b;
    while (have != want || b_end == b) {
      if (want < have) {
        want *= shape[b_end++];
      } else {
        have *= from[a_end++];
      }
    }
    for (std::size_t k = a; k + 1 < a_end; ++k) {
      if (from_strides[k] != from_strides[k + 1] * from[k + 1]) return std::nullopt;
    }
    std::int64_t stride = from_strides[a_end - 1];
    for (std::size_t k = b_end; k-- > b;) {
      strides[k] = stride;
      stride *= shape[k];
    }
    a = a_end;
    b = b_end;
  }
  return strides;
}

template <class Fn>
Source with_strides(const Source& x, const Shape& shape, Fn&& fn) {
  Source out{x.data, x.present, x.offset, shape, std::vector<std::int64_t>(shape.size(), 0)};
  fn(out);
  return out;
}

}  // namespace

void fill(const Array& out, std::int64_t count, const Scalar& value) {
  if (is_float(out.dtype)) {
    std::fill_n(out.f(), count, value.f);
  } else {
    std::fill_n(out.i(), count, value.i);
  }
}

void copy(const Array& from, const Array& to, std::int64_t count) {
  if (count > 0 && from.data != to.data) std::memcpy(to.data, from.data, static_cast<std::size_t>(count) * 8);
}

Buffer::Buffer(DType dtype, std::int64_t count) : dtype_(dtype) {
  if (is_float(dtype)) {
    f_.resize(static_cast<std::size_t>(count));
  } else {
    i_.resize(static_cast<std::size_t>(count));
  }
}

Buffer::Buffer(const HostTensor& tensor) : dtype_(tensor.type().dtype), tensor_(&tensor) {}

Source make_source(BufferRef data, const Shape& shape, BufferRef present) {
  return {std::move(data), std::move(present), 0, shape, row_major_strides(shape)};
}

Source constant_source(const Scalar& value, const Shape& shape) {
  auto buffer = std::make_shared<Buffer>(value.dtype, 1);
  fill(buffer->array(), 1, value);
  return {buffer, nullptr, 0, shape, std::vector<std::int64_t>(shape.size(), 0)};
}

Source iota_source(DType dtype, const Shape& shape, int axis) {
  const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
  auto buffer = std::make_shared<Buffer>(dtype, extent);
  for (std::int64_t k = 0; k < extent; ++k) fill(buffer->array().at(k), 1, Scalar::of_int(dtype, k));
  Source out{buffer, nullptr, 0, shape, std::vector<std::int64_t>(shape.size(), 0)};
  out.strides[static_cast<std::size_t>(axis)] = 1;
  return out;
}

std::optional<Source> strided_view(const Node& node, const Source& x) {
  const Shape& shape = node.type.shape;
  if (const auto* a = node.as<BroadcastAttrs>()) {
    return with_strides(x, shape, [&](Source& out) {
      for (std::size_t i = 0; i < a->dims.size(); ++i) {
        if (x.shape[i] != 1) out.strides[static_cast<std::size_t>(a->dims[i])] = x.strides[i];
      }
    });
  }
  if (const auto* a = node.as<PermuteAttrs>()) {
    return with_strides(x, shape, [&](Source& out) {
      for (std::size_t i = 0; i < a->perm.size(); ++i) {
        out.strides[i] = x.strides[static_cast<std::size_t>(a->perm[i])];
      }
    });
  }
  if (const auto* a = node.as<SliceAttrs>()) {
    return with_strides(x, shape, [&](Source& out) {
      for (std::size_t i = 0; i < a->starts.size(); ++i) {
        out.offset += a->starts[i] * x.strides[i];
        out.strides[i] = a->steps[i] * x.strides[i];
      }
    });
  }
  if (const auto* a = node.as<FlipAttrs>()) {
    return with_strides(x, shape, [&](Source& out) {
      out.strides = x.strides;
      for (int axis : a->axes) {
        const auto i = static_cast<std::size_t>(axis);
        out.offset += (shape[i] - 1) * x.strides[i];
        out.strides[i] = -x.strides[i];
      }
    });
  }
  if (const auto* a = node.as<WindowAttrs>()) {
    return with_strides(x, shape, [&](Source& out) {
      std::copy(x.strides.begin(), x.strides.end(), out.strides.begin());
      for (std::size_t k = 0; k < a->axes.size(); ++k) {
        const auto i = static_cast<std::size_t>(a->axes[k]);
        out.strides[i] = a->stride[k] * x.strides[i];
        out.strides[x.shape.size() + k] = a->dilation[k] * x.strides[i];
      }
    });
  }
  if (node.as<ReshapeAttrs>() != nullptr) {
    if (auto strides = reshape_strides(x, shape)) return Source{x.data, x.present, x.offset, shape, *strides};
  }
  return std::nullopt;
}

Source materialize(const Source& x) {
  const std::int64_t count = element_count(x.shape);
  const Loader loader(x, identity_order(x.shape));
  auto data = std::make_shared<Buffer>(x.data->dtype(), count);
  loader.load(0, count, data->array());
  BufferRef present;
  if (x.present != nullptr) {
    present = std::make_shared<Buffer>(DType::boolean, count);
    loader.load_present(0, count, present->array());
  }
  return make_source(std::move(data), x.shape, std::move(present));
}

Source pad(const PadAttrs& attrs, const Shape& shape, const Source& x) {
  const DType dtype = x.data->dtype();
  const std::int64_t count = element_count(shape);
  const bool absent = !attrs.value;
  auto data = std::make_shared<Buffer>(dtype, count);
  fill(data->array(), count, attrs.value.value_or(Scalar{dtype}));
  BufferRef present;
  if (absent || x.present != nullptr) {
    present = std::make_shared<Buffer>(DType::boolean, count);
    fill(present->array(), count, Scalar::of_int(DType::boolean, absent ? 0 : 1));
  }

  // Copies row by row; `index` is the row's place in `x`.
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  const Loader loader(x, identity_order(x.shape));
  const std::int64_t row = x.shape.empty() ? 1 : x.shape.back();
  const std::int64_t elements = element_count(x.shape);
  std::int64_t target = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) target += attrs.lo[i] * strides[i];
  std::vector<std::int64_t> index(x.shape.size(), 0);
  for (std::int64_t begin = 0; begin < elements; begin += row) {
    loader.load(begin, row, data->array().at(target));
    if (present != nullptr) loader.load_present(begin, row, present->array().at(target));
    for (std::size_t axis = shape.size() - std::min<std::size_t>(shape.size(), 1); axis-- > 0;) {
      target += strides[axis];
      if (++index[axis] < x.shape[axis]) break;
      target -= index[axis] * strides[axis];
      index[axis] = 0;
    }
  }
  return make_source(std::move(data), shape, std::move(present));
}

Loader::Loader(const Source& source, const Axes& order) : source_(source) {
  for (int axis : order) {
    const auto i = static_cast<std::size_t>(axis);
    const Dim dim{source.shape[i], source.strides[i]};
    if (dim.extent == 1) continue;
    if (!dims_.empty() && dims_.back().stride == dim.stride * dim.extent) {
      dims_.back() = {dims_.back().extent * dim.extent, dim.stride};
    } else {
      dims_.push_back(dim);
    }
  }
  if (dims_.empty()) dims_.push_back({1, 0});
}

template <class T, class Out, class Convert>
void Loader::load_as(const T* data, std::int64_t begin, std::int64_t count, Out* out, Convert convert) const {
  std::vector<std::int64_t> index(dims_.size());
  std::int64_t at = source_.offset;
  for (std::size_t d = dims_.size(); d-- > 0;) {
    index[d] = begin % dims_[d].extent;
    begin /= dims_[d].extent;
    at += index[d] * dims_[d].stride;
  }
  const std::size_t inner = dims_.size() - 1;
  const std::int64_t stride = dims_[inner].stride;
  while (count > 0) {
    const std::int64_t run = std::min(count, dims_[inner].extent - index[inner]);
    const T* p = data + at;
    if (stride == 0) {
      std::fill_n(out, run, convert(*p));
    } else if (stride == 1) {
      for (std::int64_t k = 0; k < run; ++k) out[k] = convert(p[k]);
    } else {
      for (std::int64_t k = 0; k < run; ++k) out[k] = convert(p[k * stride]);
    }
    out += run;
    count -= run;
    at += run * stride;
    index[inner] += run;
    for (std::size_t d = inner; d > 0 && index[d] == dims_[d].extent; --d) {
      at += dims_[d - 1].stride - dims_[d].extent * dims_[d].stride;
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

void Loader::load_from(Buffer& buffer, std::int64_t begin, std::int64_t count, const Array& out) const {
  if (count == 0) return;
  const auto to_double = [](auto x) { return static_cast<double>(x); };
  const auto to_int = [](auto x) { return static_cast<std::int64_t>(x); };
  if (buffer.tensor() == nullptr) {
    if (is_float(buffer.dtype())) {
      load_as(buffer.array().f(), begin, count, out.f(), to_double);
    } else {
      load_as(buffer.array().i(), begin, count, out.i(), to_int);
    }
    return;
  }
  const void* data = buffer.tensor()->data();
  switch (buffer.dtype()) {
    case DType::f32: return load_as(static_cast<const float*>(data), begin, count, out.f(), to_double);
    case DType::f64: return load_as(static_cast<const double*>(data), begin, count, out.f(), to_double);
    case DType::f16:
      return load_as(static_cast<const std::uint16_t*>(data), begin, count, out.f(), f16_value);
    case DType::bf16:
      return load_as(static_cast<const std::uint16_t*>(data), begin, count, out.f(), bf16_value);
    case DType::i32: return load_as(static_cast<const std::int32_t*>(data), begin, count, out.i(), to_int);
    case DType::i64: return load_as(static_cast<const std::int64_t*>(data), begin, count, out.i(), to_int);
    case DType::boolean:
      return load_as(static_cast<const std::uint8_t*>(data), begin, count, out.i(),
                     [](std::uint8_t x) { return static_cast<std::int64_t>(x != 0); });
  }
}

void Loader::load(std::int64_t begin, std::int64_t count, const Array& out) const {
  load_from(*source_.data, begin, count, out);
}

void Loader::load_present(std::int64_t begin, std::int64_t count, const Array& out) const {
  if (source_.present == nullptr) {
    fill(out, count, Scalar::of_int(DType::boolean, 1));
  } else {
    load_from(*source_.present, begin, count, out);
  }
}

}  // namespace bz::interpret_detail

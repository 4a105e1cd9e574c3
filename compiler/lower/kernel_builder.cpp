#include "compiler/lower/kernel_builder.h"

#include <algorithm>
#include <array>

namespace bz::compiler {

using namespace kernel;
using Handle = ScalarBuilder::Handle;

Handle KernelBuilder::value(DType t, int width) {
  k_.values.push_back({t, width});
  return static_cast<Handle>(k_.values.size()) - 1;
}

Handle KernelBuilder::apply(ScalarOp op, std::span<const Handle> args, DType result) {
  int w = 1;
  for (const Handle a : args) w = std::max(w, width(a));
  const Handle r = value(result, w);
  append({Apply{r, op, {args.begin(), args.end()}}});
  if (std::all_of(args.begin(), args.end(), [&](Handle a) { return constants_.contains(a); }))
    constants_.insert(r);
  return r;
}

Handle KernelBuilder::exp_nonpositive(Handle x, DType type) {
  const Handle r = value(type, width(x));
  append({Apply{r, ScalarOp::exp, {x}, true}});
  return r;
}

std::vector<Handle> KernelBuilder::scaled_exp(std::span<const Handle> x, Handle pivot, Handle least) {
  const int w = std::max(width(x[0]), width(pivot));
  ScaledExp s{{}, {}, pivot, least};
  for (const Handle h : x) {
    s.x.push_back(width(h) < w ? widen(h, w) : h);
    s.results.push_back(value(dtype(h), w));
  }
  std::vector<Handle> results = s.results;
  append({std::move(s)});
  return results;
}

Handle KernelBuilder::exp_factor(Handle pivot) {
  const Handle r = value(dtype(pivot), width(pivot));
  append({ExpFactor{r, pivot}});
  return r;
}

Handle KernelBuilder::sum_of_terms(std::span<const Handle> x, DType type) {
  int w = 1;
  for (const Handle h : x) w = std::max(w, width(h));
  const Handle r = value(type, lanes_fold_ ? 1 : w);
  append({SumOfTerms{r, {x.begin(), x.end()}}});
  return r;
}

std::vector<Handle> KernelBuilder::replace_if(Handle condition, std::span<const Handle> values, DType type,
                                              const std::function<std::vector<Handle>()>& other) {
  // All lanes take the same way.
  Handle any = condition;
  const int w = width(condition);
  if (w > 1) {
    any = value(DType::boolean, 1);
    append({Fold{any, ScalarOp::logical_or, condition}});
  }
  std::vector<ArrayId> arrays;
  const Index at = w > 1 ? Index::var({kLaneVar, w}) : Index(0);
  for (const Handle v : values) {
    arrays.push_back(array(fmt::format("replaced{}", k_.arrays.size()), type, w, Space::registers));
    set(arrays.back(), at, widen(v, w));
  }
  when(any, [&] {
    std::vector<Handle> replaced = other();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (w > 1) replaced[i] = apply(ScalarOp::select, std::array{condition, replaced[i], values[i]}, type);
      set(arrays[i], at, replaced[i]);
    }
  });
  std::vector<Handle> result;
  for (const ArrayId a : arrays) result.push_back(get(a, at, type));
  return result;
}

Handle KernelBuilder::constant(const Scalar& v) {
  const Handle r = value(v.dtype, 1);
  append({Const{r, v}});
  constants_.insert(r);
  return r;
}

Handle KernelBuilder::fold(ScalarOp op, std::span<const Handle> values, DType type) {
  const Handle across = ScalarBuilder::fold(op, values, type);
  if (!lanes_fold_ || width(across) == 1) return across;
  const Handle r = value(type, 1);
  append({Fold{r, op, across}});
  return r;
}

std::vector<Handle> KernelBuilder::elements(Handle v) {
  const int w = width(v);
  if (!lanes_fold_ || w == 1) return {v};
  std::vector<Handle> lanes;
  for (int i = 0; i < w; ++i) {
    const DType t = dtype(v);
    lanes.push_back(value(t, 1));
    append({Lane{lanes.back(), v, i}});
  }
  return lanes;
}

Handle KernelBuilder::index(const Index& e) {
  const Handle r = value(DType::i64, index_width(e));
  append({IndexValue{r, e}});
  return r;
}

Handle KernelBuilder::inside(std::vector<IndexBound> bounds) {
  for (IndexBound& b : bounds) b.e = with_remainders(b.e);
  std::erase_if(bounds, [](const IndexBound& b) { return b.always(); });
  if (bounds.empty()) return kNone;
  int w = 1;
  for (const IndexBound& b : bounds) w = std::max(w, index_width(b.e));
  const Handle r = value(DType::boolean, w);
  append({Inside{r, std::move(bounds)}});
  return r;
}

Handle KernelBuilder::load(BufferId buffer, const Index& offset, Handle mask, DType type,
                           std::optional<kernel::Evict> evict) {
  const int w = std::max(index_width(offset), mask == kNone ? 1 : width(mask));
  const Handle r = value(type, w);
  append({Load{r, buffer, offset, mask, evict}});
  return r;
}

void KernelBuilder::store(BufferId buffer, const Index& offset, Handle v, Handle mask) {
  append({Store{buffer, offset, v, mask, index_width(offset)}});
}

Handle KernelBuilder::get(ArrayId array, const Index& at, DType type, Handle mask) {
  const Handle r = value(type, std::max(index_width(at), mask == kNone ? 1 : width(mask)));
  append({Get{r, array, at, mask}});
  return r;
}

void KernelBuilder::set(ArrayId array, const Index& at, Handle v, Handle mask, std::optional<Index> rank) {
  append({Set{array, at, v, mask, index_width(at), std::move(rank)}});
}

void KernelBuilder::copy(ArrayId array, const Index& at, BufferId buffer, const Index& offset, Handle mask) {
  append({Copy{array, at, buffer, offset, mask, index_width(offset)}});
}

Handle KernelBuilder::shuffle(Handle v, int mask) {
  if (constants_.contains(v)) return v;
  const DType t = dtype(v);
  const Handle r = value(t, width(v));
  append({Shuffle{r, v, mask}});
  k_.synchronizes = true;
  return r;
}

ArrayId KernelBuilder::array(std::string name, DType t, std::int64_t elements, Space space, ArrayId within) {
  k_.arrays.push_back({std::move(name), t, elements, space, within});
  return static_cast<ArrayId>(k_.arrays.size()) - 1;
}

IndexVar KernelBuilder::var(std::string name, std::int64_t extent) {
  k_.vars.push_back(std::move(name));
  return {static_cast<std::int32_t>(k_.vars.size()) - 1, extent};
}

Handle KernelBuilder::widen(Handle v, int w) {
  if (width(v) == w) return v;
  const DType t = dtype(v);
  const Handle r = value(t, w);
  append({Widen{r, v}});
  return r;
}

}  // namespace bz::compiler

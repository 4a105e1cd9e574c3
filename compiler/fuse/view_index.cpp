#include "compiler/fuse/view_index.h"

#include <algorithm>

#include "support/error.h"

namespace bz::compiler {

Index linearize(const std::vector<Index>& at, const Shape& shape) {
  Index offset;
  for (std::size_t i = 0; i < shape.size(); ++i) offset = offset * shape[i] + at[i];
  return offset;
}

std::vector<Index> delinearize(Index offset, const Shape& shape) {
  std::vector<Index> at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (i == 0) {
      at[i] = offset;
    } else {
      at[i] = mod(offset, shape[i]);
      offset = floordiv(offset, shape[i]);
    }
  }
  return at;
}

// Indices of the operand of a re-indexing view from those of its result.
std::vector<Index> operand_index(const Node& view, const Shape& operand, const std::vector<Index>& at) {
  std::vector<Index> in(operand.size());
  if (const auto* b = view.as<BroadcastAttrs>()) {
    for (std::size_t i = 0; i < operand.size(); ++i) {
      in[i] = operand[i] == 1 ? Index(0) : at[static_cast<std::size_t>(b->dims[i])];
    }
  } else if (view.as<ReshapeAttrs>() != nullptr) {
    in = delinearize(linearize(at, view.type.shape), operand);
  } else if (const auto* p = view.as<PermuteAttrs>()) {
    for (std::size_t i = 0; i < operand.size(); ++i) in[static_cast<std::size_t>(p->perm[i])] = at[i];
  } else if (const auto* s = view.as<SliceAttrs>()) {
    for (std::size_t i = 0; i < operand.size(); ++i) in[i] = at[i] * s->steps[i] + Index(s->starts[i]);
  } else if (const auto* f = view.as<FlipAttrs>()) {
    in = at;
    for (const int a : f->axes)
      in[static_cast<std::size_t>(a)] =
          Index(operand[static_cast<std::size_t>(a)] - 1) - at[static_cast<std::size_t>(a)];
  } else if (const auto* w = view.as<WindowAttrs>()) {
    for (std::size_t i = 0; i < operand.size(); ++i) in[i] = at[i];
    for (std::size_t j = 0; j < w->axes.size(); ++j) {
      const auto a = static_cast<std::size_t>(w->axes[j]);
      in[a] = at[a] * w->stride[j] + at[operand.size() + j] * w->dilation[j];
    }
  } else if (const auto* p = view.as<PadAttrs>()) {
    for (std::size_t i = 0; i < operand.size(); ++i) in[i] = at[i] - Index(p->lo[i]);
  } else {
    throw InternalError("not a view: " + view.op_name());
  }
  return in;
}

std::vector<IndexBound> inside(const std::vector<Index>& at, const Shape& shape) {
  std::vector<IndexBound> bounds;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    IndexBound b{at[i], 0, shape[i]};
    if (!b.always()) bounds.push_back(std::move(b));
  }
  return bounds;
}

void add_bounds(std::vector<IndexBound>& to, const std::vector<IndexBound>& more) {
  for (const IndexBound& b : more) {
    if (std::find(to.begin(), to.end(), b) == to.end()) to.push_back(b);
  }
  std::sort(to.begin(), to.end());
}

bool uses_any(const Index& e, const std::vector<IndexVar>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const IndexVar& v) { return e.uses(v.id); });
}

}  // namespace bz::compiler

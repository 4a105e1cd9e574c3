#include "compiler/lower/states.h"

#include <algorithm>
#include <array>

namespace bz::compiler {

Handles States::combine(int r, const Handles& a, const Handles& b) const {
  const Reduction& reduction = stage_.reduction(r);
  return info(reduction.monoid).combine(b_, reduction.dtype, a, b);
}

void States::at(int r) const {
  const auto e = std::find_if(stage_.region.exprs.begin(), stage_.region.exprs.end(), [&](const Expr& e) {
    return e.kind == Expr::Kind::reduce && e.reduction == r;
  });
  b_.at(e == stage_.region.exprs.end() ? kNoNode : e->node);
}

std::vector<kernel::ArrayId> States::arrays(int r, std::string_view name, const std::vector<DType>& types,
                                            const std::vector<Scalar>& values) const {
  at(r);
  std::vector<kernel::ArrayId> arrays;
  Handles start;
  for (std::size_t c = 0; c < types.size(); ++c) {
    arrays.push_back(b_.array(stage_.array_name(name, r, c), types[c], width(), kernel::Space::registers));
    start.push_back(b_.widen(b_.constant(values[c]), width()));
  }
  set(arrays, start);
  return arrays;
}

Handles States::get(const std::vector<DType>& types, const std::vector<kernel::ArrayId>& arrays,
                    const Index& place) const {
  return get_at(types, arrays, element(place));
}

Handles States::get_at(const std::vector<DType>& types, const std::vector<kernel::ArrayId>& arrays,
                       const Index& element) const {
  Handles state;
  for (std::size_t c = 0; c < arrays.size(); ++c) {
    const DType stored = stage_.kernel.array(arrays[c]).dtype;
    const Handle h = b_.get(arrays[c], element, stored);
    state.push_back(stored == types[c] ? h : b_.apply(ScalarOp::cast, std::array{h}, types[c]));
  }
  return state;
}

void States::set(const std::vector<kernel::ArrayId>& arrays, const Handles& state, const Index& place) const {
  set_at(arrays, state, element(place));
}

void States::set_at(const std::vector<kernel::ArrayId>& arrays, const Handles& state,
                    const Index& element) const {
  for (std::size_t c = 0; c < arrays.size(); ++c) b_.set(arrays[c], element, state[c]);
}

}  // namespace bz::compiler

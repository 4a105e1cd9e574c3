#include "compiler/fuse/access.h"

#include <algorithm>
#include <map>
#include <set>

namespace bz::compiler {

std::vector<Access> accesses(const Region& region) {
  std::vector<Access> all;
  const auto add = [&](const Index& offset, DType t) -> Access& {
    std::vector<IndexVar> vars;
    offset.collect_vars(vars);
    return all.emplace_back(Access{offset, t, product(vars)});
  };
  for (ExprId id = 0; id < static_cast<ExprId>(region.exprs.size()); ++id) {
    const Expr& e = region.exprs[static_cast<std::size_t>(id)];
    if (e.kind == Expr::Kind::load) add(e.index, e.stored).load = id;
  }
  for (std::size_t i = 0; i < region.roots.size(); ++i)
    add(region.roots[i].offset, region.roots[i].stored).root = static_cast<int>(i);
  return all;
}

bool contiguous_along(const Index& offset, const IndexVar& v) {
  const Index zero(0);
  return offset - offset.substitute([&](std::int32_t id) { return id == v.id ? &zero : nullptr; }) ==
         Index::var(v);
}

std::int64_t contiguous_bytes(std::span<const Access> all, const IndexVar& v) {
  std::int64_t bytes = 0;
  for (const Access& a : all) {
    if (contiguous_along(a.offset, v)) bytes += a.bytes();
  }
  return bytes;
}

double sectors_per_element(const Access& access, std::span<const IndexVar> vars) {
  constexpr std::int64_t kElements = 128;  // what a warp handles at once
  std::set<std::int64_t> elements, sectors;
  for (std::int64_t i = 0; i < kElements; ++i) {
    std::map<std::int32_t, std::int64_t> place;
    std::int64_t rest = i;
    for (std::size_t k = vars.size(); k-- > 0;) {
      place[vars[k].id] = rest % vars[k].extent;
      rest /= vars[k].extent;
    }
    if (rest > 0) break;
    const std::int64_t element = access.offset.evaluate([&](std::int32_t id) {
      const auto at = place.find(id);
      return at == place.end() ? 0 : at->second;
    });
    elements.insert(element);
    sectors.insert(element * size_of(access.dtype) / kSectorBytes);
  }
  return static_cast<double>(sectors.size()) * kSectorBytes /
         static_cast<double>(elements.size() * static_cast<std::size_t>(size_of(access.dtype)));
}

void Touched::add(NodeId node, const Index& offset, DType dtype) {
  std::vector<IndexVar> vars;
  offset.collect_vars(vars);
  const auto [at, fresh] = spans_.try_emplace(node, Span{offset.lo(), offset.hi(), 0, size_of(dtype)});
  Span& span = at->second;
  span = {std::min(span.lo, offset.lo()), std::max(span.hi, offset.hi()), span.points + product(vars),
          span.size};
}

double Touched::bytes() const {
  double sum = 0;
  for (const auto& [node, s] : spans_)
    sum += static_cast<double>(std::min(s.points, s.hi - s.lo + 1)) * s.size;
  return sum;
}

}  // namespace bz::compiler

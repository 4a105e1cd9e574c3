// Fewer and better ordered variables: an axis that is contiguous with its neighbour in every access becomes one with it,
// which leaves fewer divisions in the kernel and longer contiguous runs.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "compiler/fuse/digits.h"
#include "compiler/schedule/schedule.h"

namespace bz::compiler {
namespace {

template <class F>
void each_index(Region& region, F&& f) {
  for (Expr& e : region.exprs) {
    f(e.index);
    for (IndexBound& b : e.where) f(b.e);
  }
  for (Reduction& r : region.reductions) {
    for (IndexBound& b : r.where) f(b.e);
  }
  for (Root& r : region.roots) {
    f(r.offset);
    for (IndexBound& b : r.where) f(b.e);
  }
}

// The access that touches the most elements: its strides order the variables.
Index dominant(const Region& region) {
  Index best;
  std::int64_t most = -1;
  const auto consider = [&](const Index& e) {
    std::vector<IndexVar> vars;
    e.collect_vars(vars);
    std::int64_t touched = 1;
    for (const IndexVar& v : vars) touched *= v.extent;
    if (touched > most) {
      most = touched;
      best = e;
    }
  };
  for (const Expr& e : region.exprs) {
    if (e.kind == Expr::Kind::load) consider(e.index);
  }
  for (const Root& r : region.roots) consider(r.offset);
  return best;
}

bool divides_var(const Index& e, std::int32_t id) {
  return std::any_of(e.terms().begin(), e.terms().end(), [&](const Index::Term& t) {
    return t.atom->kind != Index::Atom::Kind::var && t.atom->argument.uses(id);
  });
}

// Replaces neighbours `at` and `at + 1` of the group by one variable when no expression then divides it.
bool merge(Region& region, std::vector<IndexVar> Region::*group, std::size_t at) {
  const IndexVar outer = (region.*group)[at], inner = (region.*group)[at + 1];
  const IndexVar joined{static_cast<std::int32_t>(region.var_names.size()), outer.extent * inner.extent};
  const Index whole = Index::var(joined);
  const Index outer_value = floordiv(whole, inner.extent), inner_value = mod(whole, inner.extent);
  const auto value = [&](std::int32_t id) -> const Index* {
    return id == outer.id ? &outer_value : id == inner.id ? &inner_value : nullptr;
  };
  bool divides = false;
  each_index(region, [&](Index& e) { divides = divides || divides_var(e.substitute(value), joined.id); });
  if (divides) return false;
  each_index(region, [&](Index& e) { e = e.substitute(value); });
  region.var_names.push_back(region.var_names[static_cast<std::size_t>(outer.id)] +
                             region.var_names[static_cast<std::size_t>(inner.id)]);
  (region.*group)[at] = joined;
  (region.*group).erase((region.*group).begin() + static_cast<std::ptrdiff_t>(at) + 1);
  return true;
}

}  // namespace

Region canonical(Region region) {
  const Index access = dominant(region);
  for (auto group : {&Region::kept, &Region::reduced}) {
    // Largest stride first; variables that the access does not walk along come before all.
    const auto stride = [&](const IndexVar& v) {
      const std::int64_t c = std::abs(coefficient(access, v));
      return c == 0 ? std::numeric_limits<std::int64_t>::max() : c;
    };
    std::stable_sort((region.*group).begin(), (region.*group).end(),
                     [&](const IndexVar& a, const IndexVar& b) { return stride(a) > stride(b); });
    for (std::size_t i = 0; i + 1 < (region.*group).size();) {
      if (!merge(region, group, i)) ++i;
    }
  }
  return region;
}

}  // namespace bz::compiler

#include "compiler/fuse/digits.h"

#include <algorithm>

namespace bz::compiler {

std::optional<std::vector<Digit>> digits_of(const Index& offset) {
  std::vector<Digit> digits;
  for (const Index::Term& t : offset.terms()) {
    if (t.atom->kind != Index::Atom::Kind::var || t.coef <= 0) return std::nullopt;
    digits.push_back({t.atom->variable, t.coef});
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.step < b.step; });
  std::int64_t reached = 1;
  for (const Digit& d : digits) {
    if (d.step < reached) return std::nullopt;
    reached = d.step * d.var.extent;
  }
  if (offset.constant() != 0) return std::nullopt;
  return digits;
}

std::int64_t coefficient(const Index& e, const IndexVar& v) {
  for (const Index::Term& t : e.terms()) {
    if (t.atom->kind == Index::Atom::Kind::var && t.atom->variable == v) return t.coef;
  }
  return 0;
}

}  // namespace bz::compiler

#include "compiler/group/table.h"

#include <algorithm>

#include "compiler/fuse/digits.h"

namespace bz::compiler {

void make_table(Region& producer, const Root& root, bool is_output, std::span<Region* const> members,
                Group& group) {
  const int table = static_cast<int>(group.tables.size());
  std::vector<Digit> digits = *digits_of(root.offset);
  std::erase_if(digits, [&](const Digit& d) {
    return std::find(producer.outer.begin(), producer.outer.end(), d.var) != producer.outer.end();
  });
  std::int64_t elements = 1;
  for (const Digit& d : digits) elements *= d.var.extent;
  group.tables.push_back({root.node, root.stored, elements});
  const auto place = [&](const Index& offset) {
    Index at;
    std::int64_t step = 1;
    for (const Digit& d : digits) {
      at = at + d.of(offset) * step;
      step *= d.var.extent;
    }
    return at;
  };
  for (Region* member : members) {
    for (Expr& e : member->exprs) {
      if (e.kind != Expr::Kind::load || e.source != root.node) continue;
      e.table = table;
      e.index = place(e.index);
    }
  }
  Root inner = root;
  inner.table = table;
  inner.temporary = false;
  inner.offset = place(root.offset);
  for (Root& r : producer.roots) {
    if (r.node == inner.node && r.stored == inner.stored && r.table < 0 && (r.temporary || !is_output))
      r = inner;
  }
  if (std::none_of(producer.roots.begin(), producer.roots.end(),
                   [&](const Root& r) { return r.table == table; }))
    producer.roots.push_back(inner);
}

}  // namespace bz::compiler

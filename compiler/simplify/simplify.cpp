#include "compiler/simplify/simplify.h"

#include "compiler/simplify/rules.h"

namespace bz {

// Constants first: the other rules need not think of maps and views of them. Views before maps move through
// them.
std::span<const Rule> rules() {
  static constexpr Rule kRules[] = {
      {"order-operands", order_operands},
      {"fold-constants", fold_constants},
      {"fold-iota", fold_iota},
      {"arithmetic", simplify_arithmetic},
      {"ranges", use_ranges},
      {"casts", simplify_casts},
      {"compose-views", compose_views},
      {"map-before-view", map_before_view},
      {"reductions", simplify_reductions},
  };
  return kRules;
}

ir::Graph simplify(const ir::Graph& g) {
  Rewriter rw(g);
  for (NodeId id = 0; id < g.size(); ++id) rw.copy(id);
  return rw.finish();
}

}  // namespace bz

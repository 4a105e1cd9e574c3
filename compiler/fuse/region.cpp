#include "compiler/fuse/region.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace bz::compiler {

std::int64_t product(const std::vector<IndexVar>& vars) {
  std::int64_t n = 1;
  for (const IndexVar& v : vars) n *= v.extent;
  return n;
}

std::int64_t Region::teams() const { return product(outer); }
std::int64_t Region::domains() const { return product(kept); }
std::int64_t Region::domain_size() const { return product(reduced); }

int Region::phases() const {
  int n = 1;
  for (const Reduction& r : reductions) n = std::max(n, r.phase + 1);
  for (const Root& r : roots) n = std::max(n, phase_of(r) + (r.varies ? 1 : 0));
  return n;
}

ExprId Region::stored(const Root& r) const {
  const Expr& e = exprs[static_cast<std::size_t>(r.expr)];
  if (e.kind != Expr::Kind::map || e.op != ScalarOp::cast || e.cast == e.dtype || e.cast != r.stored)
    return r.expr;
  const ExprId rounded = e.operands[0];
  return exprs[static_cast<std::size_t>(rounded)].dtype == e.dtype ? rounded : r.expr;
}

std::vector<NodeId> Region::sources() const {
  std::vector<NodeId> nodes;
  for (const Expr& e : exprs) {
    if (e.kind == Expr::Kind::load && e.table < 0) nodes.push_back(e.source);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

std::string print(const Region& region, const ir::Graph& graph) {
  return print(region, [&](NodeId n) {
    const std::string& name = graph.node(n).name;
    return name.empty() ? fmt::format("%{}", n) : "%" + name;
  });
}

std::string print(const Region& region, const std::function<std::string(NodeId)>& label) {
  const auto var = [&](std::int32_t id) { return region.var_names[static_cast<std::size_t>(id)]; };
  const auto axes = [&](const std::vector<IndexVar>& vars) {
    std::vector<std::string> parts;
    for (const IndexVar& v : vars) parts.push_back(fmt::format("{}: {}", var(v.id), v.extent));
    return fmt::format("({})", fmt::join(parts, ", "));
  };
  const auto where = [&](const std::vector<IndexBound>& all) -> std::string {
    std::vector<std::string> bounds;
    for (const IndexBound& b : all) bounds.push_back(fmt::format("{} <= {} < {}", b.lo, b.e.str(var), b.hi));
    return bounds.empty() ? "" : fmt::format(" where {}", fmt::join(bounds, " and "));
  };
  std::string text =
      fmt::format("region {}: {}kept {}, reduced {}, {} phase{}\n", region.name,
                  region.outer.empty() ? "" : fmt::format("outer {}, ", axes(region.outer)),
                  axes(region.kept), axes(region.reduced), region.phases(), region.phases() == 1 ? "" : "s");
  for (std::size_t i = 0; i < region.exprs.size(); ++i) {
    const Expr& e = region.exprs[i];
    std::vector<std::string> operands;
    for (const ExprId o : e.operands) operands.push_back(fmt::format("e{}", o));
    std::string what;
    switch (e.kind) {
      case Expr::Kind::load:
        what = fmt::format("load {}{}[{}]", e.table < 0 ? "" : "table ", label(e.source), e.index.str(var));
        break;
      case Expr::Kind::constant: what = to_string(e.value); break;
      case Expr::Kind::index: what = fmt::format("index {}", e.index.str(var)); break;
      case Expr::Kind::map: what = fmt::format("{} {}", info(e.op).text, fmt::join(operands, ", ")); break;
      case Expr::Kind::scaled_exp: what = fmt::format("scaled exp {}", fmt::join(operands, ", ")); break;
      case Expr::Kind::exp_factor: what = fmt::format("factor of exp {}", operands[0]); break;
      case Expr::Kind::pad:
        what = fmt::format("{} or {}", fmt::join(operands, ", "), to_string(e.value));
        break;
      case Expr::Kind::reduce: {
        const Reduction& r = region.reductions[static_cast<std::size_t>(e.reduction)];
        std::vector<std::string> inputs;
        for (const ExprId o : r.operands) inputs.push_back(fmt::format("e{}", o));
        const std::string_view over = r.over == Over::thread    ? "own "
                                      : r.over == Over::threads ? "of threads "
                                                                : "";
        what = fmt::format("{}{}{}.{} {}  (phase {})", over, r.merge ? "merge " : "", info(r.monoid).text,
                           e.component, fmt::join(inputs, ", "), r.phase);
        break;
      }
    }
    text += fmt::format("  e{} = {}{}\n", i, what, where(e.where));
  }
  for (const Root& r : region.roots) {
    text += fmt::format("  store {}{}[{}] = e{}{}\n", r.table < 0 ? "" : "table ", label(r.node),
                        r.offset.str(var), r.expr, where(r.where));
  }
  return text;
}

}  // namespace bz::compiler

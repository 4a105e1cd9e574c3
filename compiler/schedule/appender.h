// Expressions that a form of a region has beside those of the graph.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/fuse/region.h"

namespace bz::compiler {

// Appends expressions to a region on behalf of one of its nodes.
class Appender {
 public:
  Appender(Region& r, NodeId node, DType t) : r_(r), node_(node), t_(t) {}

  ExprId constant(double v) {
    Expr e;
    e.kind = Expr::Kind::constant;
    e.value = Scalar::of(t_, v);
    return append(std::move(e), t_);
  }
  ExprId map(ScalarOp op, std::vector<ExprId> operands) { return map(op, std::move(operands), t_); }
  ExprId test(ScalarOp op, std::vector<ExprId> operands) {
    return map(op, std::move(operands), DType::boolean);
  }
  ExprId scaled_exp(ExprId x, ExprId pivot, ExprId least) {
    Expr e;
    e.kind = Expr::Kind::scaled_exp;
    e.varies = true;
    e.operands = {x, pivot, least};
    return append(std::move(e), t_);
  }
  ExprId exp_factor(ExprId pivot) {
    Expr e;
    e.kind = Expr::Kind::exp_factor;
    e.operands = {pivot};
    return append(std::move(e), t_);
  }
  ExprId sum(ExprId x) { return reduce({.monoid = Monoid::sum, .dtype = t_, .operands = {x}}); }
  // Appends a reduction, and its component 0 as an expression.
  ExprId reduce(Reduction reduction) {
    Expr e;
    e.kind = Expr::Kind::reduce;
    e.reduction = static_cast<int>(r_.reductions.size());
    r_.reductions.push_back(std::move(reduction));
    return append(std::move(e), t_);
  }
  // The value of `x` where every reduced variable is 0.
  ExprId first(ExprId x) {
    std::vector<bool> needed(r_.exprs.size(), false);
    needed[static_cast<std::size_t>(x)] = true;
    for (ExprId id = x + 1; id-- > 0;) {
      const Expr& e = r_.exprs[static_cast<std::size_t>(id)];
      if (!needed[static_cast<std::size_t>(id)] || !e.varies) continue;
      for (const ExprId o : e.operands) needed[static_cast<std::size_t>(o)] = true;
    }
    std::vector<ExprId> copy(static_cast<std::size_t>(x) + 1, -1);
    for (ExprId id = 0; id <= x; ++id) {
      if (!needed[static_cast<std::size_t>(id)]) continue;
      Expr e = r_.exprs[static_cast<std::size_t>(id)];
      if (!e.varies) {
        copy[static_cast<std::size_t>(id)] = id;
        continue;
      }
      for (ExprId& o : e.operands) o = copy[static_cast<std::size_t>(o)];
      e.index = at_first(e.index);
      for (IndexBound& b : e.where) b.e = at_first(b.e);
      e.varies = false;
      r_.exprs.push_back(std::move(e));
      copy[static_cast<std::size_t>(id)] = static_cast<ExprId>(r_.exprs.size()) - 1;
    }
    return copy.back();
  }

 private:
  ExprId map(ScalarOp op, std::vector<ExprId> operands, DType t) {
    Expr e;
    e.kind = Expr::Kind::map;
    e.op = op;
    for (const ExprId o : operands) e.varies = e.varies || r_.exprs[static_cast<std::size_t>(o)].varies;
    e.operands = std::move(operands);
    return append(std::move(e), t);
  }
  ExprId append(Expr e, DType t) {
    e.node = node_;
    e.dtype = e.cast = t;
    r_.exprs.push_back(std::move(e));
    return static_cast<ExprId>(r_.exprs.size()) - 1;
  }
  Index at_first(const Index& e) const {
    const Index zero(0);
    return e.substitute([&](std::int32_t id) -> const Index* {
      const bool reduced =
          std::any_of(r_.reduced.begin(), r_.reduced.end(), [&](const IndexVar& v) { return v.id == id; });
      return reduced ? &zero : nullptr;
    });
  }

  Region& r_;
  NodeId node_;
  DType t_;
};

}  // namespace bz::compiler

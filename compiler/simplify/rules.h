// The rules of simplify, one family a file. A rule gets a draft whose operands are already simple and gives
// the node to use instead, or nothing when it does not apply.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "compiler/simplify/rewriter.h"

namespace bz {

struct Rule {
  std::string_view name;
  std::optional<NodeId> (*apply)(Rewriter& rw, const Draft& draft);
};

std::span<const Rule> rules();  // in the order in which they are tried

std::optional<NodeId> order_operands(Rewriter& rw, const Draft& draft);  // arithmetic.cpp
std::optional<NodeId> simplify_arithmetic(Rewriter& rw, const Draft& draft);
std::optional<NodeId> use_ranges(Rewriter& rw, const Draft& draft);      // ranges.cpp
std::optional<NodeId> simplify_casts(Rewriter& rw, const Draft& draft);  // casts.cpp
std::optional<NodeId> fold_constants(Rewriter& rw, const Draft& draft);  // constants.cpp
std::optional<NodeId> fold_iota(Rewriter& rw, const Draft& draft);
std::optional<NodeId> compose_views(Rewriter& rw, const Draft& draft);  // views.cpp
std::optional<NodeId> map_before_view(Rewriter& rw, const Draft& draft);
std::optional<NodeId> simplify_reductions(Rewriter& rw, const Draft& draft);  // reductions.cpp

}  // namespace bz

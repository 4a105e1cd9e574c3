// One line of the text form, `%name = op type operands {attributes}`, read but not yet understood, and the
// step that turns it into nodes. parse.cpp knows the grammar, statement.cpp knows the operations.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace bz {

struct AttrValue {
  enum class Kind : std::uint8_t { number, word, string, list };
  Kind kind = Kind::number;
  std::string text;  // a number or word as written (sizes replaced), a string without quotes
  std::optional<std::int64_t> integer;  // of a number that is one
  std::vector<std::int64_t> list;
};

struct Attribute {
  std::string name;
  AttrValue value;
};

// `%x`, or a literal: a number, inf, nan, true or false.
struct StatementOperand {
  NodeId node = kNoNode;
  std::string literal;
  bool is_literal() const { return node == kNoNode; }
};

struct Statement {
  std::string name;  // "" for %12
  std::string_view op;
  std::optional<Type> type;  // input, constant, iota
  std::vector<StatementOperand> operands;
  std::vector<Attribute> attributes;
};

// True for the operations that are followed by a type.
bool takes_type(std::string_view op);

// Adds the nodes of `s` to `g` and returns its result. Errors carry the location of `g`.
NodeId build(ir::Graph& g, const Statement& s);

}  // namespace bz

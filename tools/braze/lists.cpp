// ops: every operation that a program may use.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/composites.h"
#include "ir/monoid.h"
#include "ir/ops.h"
#include "tools/braze/commands.h"

namespace bz::cli {
namespace {

constexpr std::string_view kOperandNames[] = {"a", "b", "c"};

std::string signature(const ScalarOpInfo& op) {
  const auto count = static_cast<std::size_t>(op.arity);
  if (op.arity == 1) return fmt::format("{} x", op.text);
  return fmt::format("{} {}", op.text, fmt::join(std::span(kOperandNames).first(count), ", "));
}

std::string signature(const CompositeInfo& composite) {
  std::vector<std::string> operands, attributes;
  for (const CompositeOperand& o : composite.operands) {
    operands.push_back(o.optional ? fmt::format("[{}]", o.name) : std::string(o.name));
  }
  for (const CompositeAttr& a : composite.attributes) {
    const std::string value = to_string(a.value);
    attributes.push_back(value.empty() ? fmt::format("{}: {}", a.name, to_string(a.kind))
                                       : fmt::format("{} = {}", a.name, value));
  }
  const std::string in_braces = attributes.empty() ? "" : fmt::format(" {{{}}}", fmt::join(attributes, ", "));
  return fmt::format("{} {}{}", composite.name, fmt::join(operands, ", "), in_braces);
}

std::string row(const std::string& signature, std::string_view doc) {
  return fmt::format("  {:<24}  {}\n", signature, doc);
}

}  // namespace

void list_ops(std::ostream& out) {
  out << "maps\n";
  for (const ScalarOpInfo& op : scalar_ops()) out << row(signature(op), op.doc);
  out << "\nreductions {axes, keepdims}\n";
  for (const MonoidInfo& m : monoids()) {
    if (m.user) out << row(fmt::format("{} x", m.text), m.doc);
  }
  out << "\ncomposites\n";
  for (const CompositeInfo& c : composites()) out << row(signature(c), c.doc);
}

}  // namespace bz::cli

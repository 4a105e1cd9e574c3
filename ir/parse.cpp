#include "ir/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "ir/lex.h"
#include "ir/statement.h"
#include "ir/suggest.h"

namespace bz {
namespace {

using Kind = Token::Kind;

bool is_reserved(std::string_view word) {
  return word == "inf" || word == "nan" || word == "true" || word == "false" || word == "graph" ||
         word == "output";
}

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options) : options_(options), lexer_(text, options.file) {
    advance();
  }

  ir::Graph run() {
    if (!token_.is_word("graph")) fail(fmt::format("expected 'graph', got {}", token_.describe()));
    advance();
    graph_.set_name(word_or_string("a graph name"));
    if (token_.is('(')) sizes();
    check_overrides();
    expect('{');
    while (!token_.is('}')) {
      if (token_.kind == Kind::end) fail("expected '}' at the end of the graph, got the end of the text");
      if (token_.is_word("output")) {
        output();
      } else {
        statement();
      }
    }
    graph_.set_location({options_.file, token_.line});  // of what is wrong with it as a whole
    advance();
    if (token_.kind != Kind::end)
      fail(fmt::format("expected nothing after the graph, got {}", token_.describe()));
    return std::move(graph_);
  }

 private:
  struct Definition {
    NodeId node;
    int line;
  };

  // ---- tokens
  // ---------------------------------------------------------------------------------------------------
  void advance() { token_ = lexer_.next(); }
  [[noreturn]] void fail(const std::string& message) const { fail_at(token_.line, message); }
  [[noreturn]] void fail_at(int line, const std::string& message) const {
    throw Error(SourceLoc{options_.file, line}, message);
  }
  void expect(char c) {
    if (!token_.is(c)) fail(fmt::format("expected '{}', got {}", c, token_.describe()));
    advance();
  }
  std::string_view word(std::string_view what) {
    if (token_.kind != Kind::word) fail(fmt::format("expected {}, got {}", what, token_.describe()));
    std::string_view text = token_.text;
    advance();
    return text;
  }
  std::string word_or_string(std::string_view what) {
    if (token_.kind != Kind::string) return std::string(word(what));
    std::string text = unquote(token_.text);
    advance();
    return text;
  }

  // ---- sizes and integers
  // -----------------------------------------------------------------------------------------
  void sizes() {
    expect('(');
    while (!token_.is(')')) {
      int line = token_.line;
      std::string name(word("a size name"));
      if (is_reserved(name)) fail_at(line, fmt::format("'{}' cannot be the name of a size", name));
      if (sizes_.count(name)) fail_at(line, fmt::format("size {} is declared twice", name));
      expect('=');
      std::int64_t value = integer();
      if (auto it = options_.sizes.find(name); it != options_.sizes.end()) value = it->second;
      if (value < 0) fail_at(line, fmt::format("size {} is {}, sizes are not negative", name, value));
      sizes_.emplace(name, value);
      size_names_.push_back(name);
      if (!token_.is(')')) expect(',');
    }
    advance();
  }

  void check_overrides() const {
    for (const auto& [name, value] : options_.sizes) {
      if (sizes_.count(name)) continue;
      if (size_names_.empty())
        fail(fmt::format("graph {} has no size {}: it declares none", graph_.name(), name));
      fail(fmt::format("graph {} has no size {}, its sizes are {}", graph_.name(), name,
                       fmt::join(size_names_, ", ")));
    }
  }

  bool starts_integer() const {
    return token_.kind == Kind::integer || token_.is('-') ||
           (token_.kind == Kind::word && sizes_.count(std::string(token_.text)));
  }

  std::int64_t factor() {
    bool negative = false;
    while (token_.is('-')) {
      negative = !negative;
      advance();
    }
    std::int64_t value = 0;
    if (token_.kind == Kind::integer) {
      auto [end, error] = std::from_chars(token_.text.data(), token_.text.data() + token_.text.size(), value);
      if (error != std::errc()) fail(fmt::format("integer {} does not fit 64 bits", token_.text));
    } else if (token_.kind == Kind::word) {
      auto it = sizes_.find(std::string(token_.text));
      if (it == sizes_.end()) fail(unknown_size());
      value = it->second;
    } else {
      fail(fmt::format("expected an integer or a size, got {}", token_.describe()));
    }
    advance();
    return negative ? -value : value;
  }

  std::string unknown_size() const {
    if (size_names_.empty()) return fmt::format("unknown size {}, the graph declares none", token_.text);
    return fmt::format("unknown size {}, known sizes are {}", token_.text, fmt::join(size_names_, ", "));
  }

  std::int64_t term() {
    std::int64_t value = factor();
    while (token_.is('*') || token_.is('/')) {
      bool multiply = token_.is('*');
      advance();
      std::int64_t right = factor();
      if (multiply) {
        if (__builtin_mul_overflow(value, right, &value)) fail("integer product does not fit 64 bits");
      } else if (right == 0 || right == -1 || value % right != 0) {
        fail(fmt::format("{} / {} is not an integer", value, right));
      } else {
        value /= right;
      }
    }
    return value;
  }

  std::int64_t integer() {
    std::int64_t value = term();
    while (token_.is('+') || token_.is('-')) {
      bool plus = token_.is('+');
      advance();
      std::int64_t right = term();
      bool overflow =
          plus ? __builtin_add_overflow(value, right, &value) : __builtin_sub_overflow(value, right, &value);
      if (overflow) fail("integer sum does not fit 64 bits");
    }
    return value;
  }

  std::vector<std::int64_t> integer_list() {
    expect('[');
    std::vector<std::int64_t> values;
    while (!token_.is(']')) {
      values.push_back(integer());
      if (!token_.is(']')) expect(',');
    }
    advance();
    return values;
  }

  // A number as text, so that it is exact in whatever type it gets: -0, 1e-45, inf, or an integer expression.
  AttrValue number() {
    AttrValue value;
    Lexer ahead = lexer_;
    Token first = token_.is('-') ? ahead.next() : token_;
    bool plain = first.kind == Kind::floating || first.is_word("inf") || first.is_word("nan");
    if (first.kind == Kind::integer) {
      Token after = ahead.next();
      plain = !(after.is('*') || after.is('/') || after.is('+') || after.is('-'));
    }
    if (plain) {
      if (token_.is('-')) {
        value.text = "-";
        advance();
      }
      value.text += token_.text;
      advance();
      set_integer(value);
      return value;
    }
    if (token_.kind == Kind::word && !starts_integer()) fail(unknown_size());
    value.integer = integer();
    value.text = std::to_string(*value.integer);
    return value;
  }

  static void set_integer(AttrValue& value) {
    std::int64_t parsed = 0;
    const char* end = value.text.data() + value.text.size();
    auto [stop, error] = std::from_chars(value.text.data(), end, parsed);
    if (error == std::errc() && stop == end) value.integer = parsed;
  }

  // ---- statements
  // -----------------------------------------------------------------------------------------------
  Type type() {
    int line = token_.line;
    std::string_view text = word("a type such as f32[4, 8]");
    std::optional<DType> dtype = parse_dtype(text);
    if (!dtype) {
      std::vector<std::string_view> names;
      for (DType t : kAllDTypes) names.push_back(name(t));
      fail_at(line, fmt::format("unknown type '{}', types are {}", text, fmt::join(names, ", ")));
    }
    Type type{*dtype, {}};
    if (token_.is('[')) type.shape = integer_list();
    for (std::int64_t extent : type.shape) {
      if (extent < 0) fail_at(line, fmt::format("extent {} in a shape is negative", extent));
    }
    return type;
  }

  AttrValue attr_value() {
    AttrValue value;
    if (token_.is('[')) {
      value.kind = AttrValue::Kind::list;
      value.list = integer_list();
    } else if (token_.kind == Kind::string) {
      value.kind = AttrValue::Kind::string;
      value.text = unquote(token_.text);
      advance();
    } else if (token_.kind == Kind::word && !starts_integer() && !token_.is_word("inf") &&
               !token_.is_word("nan")) {
      value.kind = AttrValue::Kind::word;
      value.text = token_.text;
      advance();
    } else {
      value = number();
    }
    return value;
  }

  void attributes(Statement& s) {
    expect('{');
    while (!token_.is('}')) {
      std::string name(word("an attribute name"));
      for (const Attribute& a : s.attributes) {
        if (a.name == name) fail(fmt::format("attribute {} is given twice", name));
      }
      expect('=');
      s.attributes.push_back({std::move(name), attr_value()});
      if (!token_.is('}')) expect(',');
    }
    advance();
  }

  // The text that tells references apart, and the name they carry.
  struct Ref {
    std::string key, name;
  };
  Ref ref() const {
    std::string_view text = token_.text;
    std::size_t tilde = text.back() == '"' ? std::string_view::npos : text.rfind('~');
    std::string_view base = text.substr(0, tilde);
    if (base.front() != '"') return {std::string(text), is_number(base) ? "" : std::string(base)};
    std::string name = unquote(base);
    std::string key = is_plain_name(name) ? name : std::string(base);
    if (tilde != std::string_view::npos) key += text.substr(tilde);
    return {std::move(key), std::move(name)};
  }

  NodeId use() {
    if (token_.kind != Kind::ref) fail(fmt::format("expected a %name, got {}", token_.describe()));
    auto it = nodes_.find(ref().key);
    if (it == nodes_.end()) {
      std::vector<std::string_view> names;
      for (const auto& [key, definition] : nodes_) names.push_back(key);
      std::sort(names.begin(), names.end());
      fail(fmt::format("%{} is not defined{}", token_.text, did_you_mean(ref().key, names, "%")));
    }
    advance();
    return it->second.node;
  }

  StatementOperand operand() {
    if (token_.kind == Kind::ref) return {use(), {}};
    if (token_.is_word("true") || token_.is_word("false")) return {kNoNode, std::string(word(""))};
    return {kNoNode, number().text};
  }

  bool starts_operand() const {
    if (token_.kind == Kind::ref) {
      Lexer ahead = lexer_;
      return !ahead.next().is('=');  // else it begins the next statement
    }
    return token_.kind == Kind::floating || starts_integer() || token_.is_word("inf") ||
           token_.is_word("nan") || token_.is_word("true") || token_.is_word("false");
  }

  void statement() {
    if (token_.kind != Kind::ref)
      fail(fmt::format("expected '%name = ...', output or '}}', got {}", token_.describe()));
    int line = token_.line;
    Ref defined = ref();
    if (auto it = nodes_.find(defined.key); it != nodes_.end()) {
      fail(fmt::format("%{} is already defined on line {}", token_.text, it->second.line));
    }
    advance();
    expect('=');
    Statement s;
    s.name = defined.name;
    s.op = word("an operation");
    if (takes_type(s.op)) s.type = type();
    if (starts_operand()) {
      s.operands.push_back(operand());
      while (token_.is(',')) {
        advance();
        s.operands.push_back(operand());
      }
    }
    if (token_.is('{')) attributes(s);
    graph_.set_location({options_.file, line});
    if (token_.kind == Kind::scope) {
      graph_.set_scope(graph_.intern_scope(token_.text));
      advance();
    }
    std::int32_t before = graph_.size();
    NodeId result = build(graph_, s);
    graph_.set_scope(0);
    // A statement may be a no-op that stands for an older node, which keeps its own name.
    if (result >= before) graph_.set_node_name(result, s.name);
    nodes_.emplace(std::move(defined.key), Definition{result, line});
  }

  void output() {
    int line = token_.line;
    advance();
    std::string name;
    if (token_.kind == Kind::ref) {
      Ref r = ref();
      name = r.name.empty() ? r.key : r.name;
    } else {
      name = word_or_string("%name or an output name");
      expect('=');
    }
    NodeId node = use();
    graph_.set_location({options_.file, line});
    graph_.output(std::move(name), node);
  }

  const ParseOptions& options_;
  Lexer lexer_;
  Token token_;
  ir::Graph graph_;
  std::unordered_map<std::string, std::int64_t> sizes_;
  std::vector<std::string> size_names_;  // in order of declaration
  std::unordered_map<std::string, Definition> nodes_;
};

}  // namespace

ir::Graph parse(std::string_view text, const ParseOptions& options) { return Parser(text, options).run(); }

ir::Graph parse_file(const std::string& path, const std::map<std::string, std::int64_t>& sizes) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in.is_open() || in.bad()) throw Error(fmt::format("cannot read {}", path));
  return parse(text, {path, sizes});
}

}  // namespace bz

#include "ir/lex.h"

#include <fmt/format.h>

#include <algorithm>

namespace bz {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_scope_char(char c) { return is_name_char(c) || c == '/'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string Token::describe() const {
  switch (kind) {
    case Kind::end: return "the end of the text";
    case Kind::ref: return fmt::format("%{}", text);
    case Kind::scope: return fmt::format("@{}", text);
    case Kind::string: return std::string(text);
    case Kind::word:
    case Kind::integer:
    case Kind::floating:
    case Kind::punct: return fmt::format("'{}'", text);
  }
  throw InternalError("token of an unknown kind");
}

bool is_number(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_digit);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_char) && !is_number(name);
}

bool is_plain_word(std::string_view name) { return is_plain_name(name) && is_letter(name.front()); }

std::string quote(std::string_view name) {
  std::string out = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string unquote(std::string_view with_quotes) {
  std::string_view body = with_quotes.substr(1, with_quotes.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
    } else if (i + 3 < body.size() && body[i + 1] == 'x' && hex_digit(body[i + 2]) >= 0 &&
               hex_digit(body[i + 3]) >= 0) {
      out += static_cast<char>(hex_digit(body[i + 2]) * 16 + hex_digit(body[i + 3]));
      i += 3;
    } else if (i + 1 < body.size()) {
      out += body[++i];
    }
  }
  return out;
}

void Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c == '\n') {
      ++line_;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#' || text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

std::string_view Lexer::take_while(bool (*accept)(char)) {
  std::size_t begin = at_;
  while (at_ < text_.size() && accept(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view Lexer::take_string() {
  std::size_t begin = at_++;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size() || text_[at_] != '"') fail("string without a closing quote");
  ++at_;
  return text_.substr(begin, at_ - begin);
}

Token Lexer::number(int line) {
  std::size_t begin = at_;
  Token::Kind kind = Token::Kind::integer;
  take_while(is_digit);
  if (at_ < text_.size() && text_[at_] == '.') {
    kind = Token::Kind::floating;
    ++at_;
    take_while(is_digit);
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    kind = Token::Kind::floating;
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (take_while(is_digit).empty())
      fail(fmt::format("malformed number '{}'", text_.substr(begin, at_ - begin)));
  }
  if (!take_while(is_name_char).empty()) {
    fail(fmt::format("malformed number '{}'", text_.substr(begin, at_ - begin)));
  }
  return {kind, text_.substr(begin, at_ - begin), line};
}

Token Lexer::next() {
  skip_blanks();
  int line = line_;
  if (at_ >= text_.size()) return {Token::Kind::end, {}, line};
  char c = text_[at_];
  if (is_letter(c)) return {Token::Kind::word, take_while(is_name_char), line};
  if (is_digit(c)) return number(line);
  if (c == '"') return {Token::Kind::string, take_string(), line};
  if (c == '%') {
    std::size_t begin = ++at_;
    bool quoted = at_ < text_.size() && text_[at_] == '"';
    std::string_view name = quoted ? take_string() : take_while(is_name_char);
    if (name.empty()) fail("expected a name after '%'");
    if (at_ < text_.size() && text_[at_] == '~') {
      ++at_;
      if (take_while(is_digit).empty()) fail(fmt::format("expected a number after %{}~", name));
    }
    return {Token::Kind::ref, text_.substr(begin, at_ - begin), line};
  }
  if (c == '@') {
    ++at_;
    std::string_view label = take_while(is_scope_char);
    if (label.empty()) fail("expected a scope label after '@'");
    return {Token::Kind::scope, label, line};
  }
  if (std::string_view("=,{}[]()+-*/").find(c) != std::string_view::npos) {
    return {Token::Kind::punct, text_.substr(at_++, 1), line};
  }
  if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) {
    fail(fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned char>(c)));
  }
  fail(fmt::format("unexpected character '{}'", c));
}

}  // namespace bz

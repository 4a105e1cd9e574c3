// Tokens of the text form (see ir/parse.h).
#pragma once

#include <string>
#include <string_view>

#include "support/error.h"

namespace bz {

struct Token {
  enum class Kind : std::uint8_t {
    end,
    word,      // input, max_sumexp.1, f32, R, true
    ref,       // %x, %12, %x~2, %"my input"; `text` is without the '%'
    scope,     // @softmax.1/max.2; `text` is without the '@'
    integer,   // 12
    floating,  // 0.5, 1e-05
    string,    // "my input"; `text` is with the quotes
    punct,     // one of = , { } [ ] ( ) + - * /
  };
  Kind kind = Kind::end;
  std::string_view text;
  int line = 1;

  bool is(char c) const { return kind == Kind::punct && text[0] == c; }
  bool is_word(std::string_view w) const { return kind == Kind::word && text == w; }
  // "'='", "end of file", ... for messages.
  std::string describe() const;
};

// Splits a text into tokens, one at a time. Comments run from '#' or '//' to the end of the line. The text
// must outlive the tokens, and `file` the lexer.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {}
  Token next();

 private:
  void skip_blanks();
  std::string_view take_while(bool (*accept)(char));
  std::string_view take_string();
  Token number(int line);
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(SourceLoc{std::string(file_), line_}, message);
  }

  std::string_view text_;
  std::string_view file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// Letters, digits, '_' and '.', not all of them digits: a name that needs no quotes after '%'.
bool is_plain_name(std::string_view name);
// The same, starting with a letter or '_': a name that needs no quotes where a word stands.
bool is_plain_word(std::string_view name);
bool is_number(std::string_view name);  // digits only, at least one

std::string quote(std::string_view name);           // "a\"b", control characters as \xHH
std::string unquote(std::string_view with_quotes);  // the inverse of quote()

}  // namespace bz

// Firmware text, token by token.
//
//   text ──next()──► name | integer | real | string | symbol | end of line | end of text
//
// A comment runs from ';' to the end of its line. Between '[' and ']' a line goes on. A name may
// have parts joined by '.': product.image.channels. Every token knows its line and column, both
// counted from 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::firmware {

struct Place {
  int line = 1, column = 1;
};

enum class TokenKind { kName, kInteger, kReal, kString, kSymbol, kEndOfLine, kEndOfText };

struct Token {
  TokenKind kind = TokenKind::kEndOfText;
  std::string text;           // a name, a string's contents, the symbol, a number as written
  std::uint64_t integer = 0;  // of an integer
  double real = 0;            // of an integer or a real
  Place place;

  bool is(std::string_view symbol) const { return kind == TokenKind::kSymbol && text == symbol; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool ends_line() const { return kind == TokenKind::kEndOfLine || kind == TokenKind::kEndOfText; }
};

class Lexer {
 public:
  // `text` outlives the lexer; `name` is how messages call it.
  Lexer(std::string_view text, std::string name);

  // The token at hand. A lexical error is found when its token is reached.
  const Token& peek() const { return token_; }
  Status advance();
  Result<Token> next();  // the token at hand; moves on

  // The next token must be this; `after` says what it belongs to.
  Status expect(std::string_view symbol, const char* after);
  Result<std::string> expect_name(const char* what);
  Result<std::string> expect_string(const char* what);
  // With an optional '-' in front; must fit in 64 signed bits.
  Result<std::int64_t> expect_integer(const char* what);
  Result<std::uint64_t> expect_unsigned(const char* what);
  // A number with an optional '-' in front.
  Result<double> expect_real(const char* what);
  Status expect_end_of_line(const char* after);
  // Moves on if the token at hand is this one.
  Result<bool> accept(std::string_view symbol);
  Result<bool> accept_name(std::string_view name);
  Status skip_empty_lines();

  // To come back to, for a loop.
  struct Position {
    std::size_t at = 0;
    Place place;
    int brackets = 0;
    Token token;
  };
  Position position() const { return {at_, place_, brackets_, token_}; }
  void seek(const Position& position);

  Error error(const Place& place, const std::string& message) const;
  // "found 'x'; allowed: ..." at the token at hand.
  Error unexpected(const std::string& allowed) const;

 private:
  char current() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool at_end() const { return at_ >= text_.size(); }
  void step();
  void skip_blanks();
  Status read_name();
  Status read_number();
  Status read_string();

  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0;
  Place place_;
  int brackets_ = 0;
  Token token_;
  Status first_;  // of the first token
};

// A string as it is written between quotes; characters that a terminal would obey as \xNN, a byte
// each.
std::string in_quotes(std::string_view text);

}  // namespace tessera::firmware

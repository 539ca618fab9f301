#include "firmware/lexer.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace tessera::firmware {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string shown(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEndOfLine:
      return "the end of the line";
    case TokenKind::kEndOfText:
      return "the end of the text";
    case TokenKind::kString:
      return in_quotes(token.text.substr(0, 40));
    default:
      return "'" + token.text.substr(0, 40) + "'";
  }
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const std::string_view bytes = text.substr(at, c.bytes);
    if (bytes == "\"" || bytes == "\\") {
      out += '\\';
      out += bytes;
    } else if (bytes == "\n") {
      out += "\\n";
    } else if (c.visible()) {
      out += bytes;
    } else {
      for (const char byte : bytes) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    at += c.bytes;
  }
  return out + "\"";
}

Lexer::Lexer(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {
  first_ = advance();
  // An error in the first token is reported where the parser first asks for one.
  if (!first_.ok()) token_ = Token{};
}

Error Lexer::error(const Place& place, const std::string& message) const {
  return {ErrorCode::kInvalidModel,
          fmt::format("{}:{}:{}: {}", name_, place.line, place.column, message)};
}

Error Lexer::unexpected(const std::string& allowed) const {
  return error(token_.place, fmt::format("found {}; allowed: {}", shown(token_), allowed));
}

void Lexer::step() {
  if (current() == '\n') {
    ++place_.line;
    place_.column = 1;
  } else {
    ++place_.column;
  }
  ++at_;
}

void Lexer::skip_blanks() {
  while (!at_end()) {
    const char c = current();
    if (c == ';') {
      while (!at_end() && current() != '\n') step();
    } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && brackets_ > 0)) {
      step();
    } else {
      return;
    }
  }
}

Status Lexer::advance() {
  if (!first_.ok()) return first_;
  skip_blanks();
  token_ = Token{};
  token_.place = place_;
  if (at_end()) return {};
  const char c = current();
  if (c == '\n') {
    token_.kind = TokenKind::kEndOfLine;
    step();
    return {};
  }
  if (is_letter(c)) return read_name();
  if (is_digit(c)) return read_number();
  if (c == '"') return read_string();
  constexpr std::string_view kSymbols = "[](),:=+-*/@%";
  if (kSymbols.find(c) == std::string_view::npos) {
    const auto byte = static_cast<unsigned char>(c);
    return error(place_, byte > 0x20 && byte < 0x7F
                             ? fmt::format("the character '{}' has no meaning here", c)
                             : fmt::format("the byte {:#04x} has no meaning here", byte));
  }
  if (c == '[') ++brackets_;
  if (c == ']' && brackets_ > 0) --brackets_;
  token_.kind = TokenKind::kSymbol;
  token_.text = c;
  step();
  return {};
}

Status Lexer::read_name() {
  token_.kind = TokenKind::kName;
  const std::size_t begin = at_;
  const auto joined = [this] {  // a '.' between two parts
    return current() == '.' && at_ + 1 < text_.size() && is_letter(text_[at_ + 1]);
  };
  while (is_letter(current()) || is_digit(current()) || joined()) step();
  token_.text = text_.substr(begin, at_ - begin);
  return {};
}

Status Lexer::read_number() {
  const std::size_t begin = at_;
  if (current() == '0' && at_ + 1 < text_.size() && (text_[at_ + 1] == 'x')) {
    step();
    step();
    while (is_hex(current())) step();
    token_.text = text_.substr(begin, at_ - begin);
    const char* const first = token_.text.data() + 2;
    const char* const last = token_.text.data() + token_.text.size();
    const auto [end, failed] = std::from_chars(first, last, token_.integer, 16);
    if (failed != std::errc{} || end != last || first == last) {
      return error(token_.place, fmt::format("'{}' is no number of at most 64 bits", token_.text));
    }
    token_.kind = TokenKind::kInteger;
    token_.real = static_cast<double>(token_.integer);
    return {};
  }
  bool real = false;
  while (is_digit(current())) step();
  if (current() == '.') {
    real = true;
    step();
    while (is_digit(current())) step();
  }
  if (current() == 'e' || current() == 'E') {
    real = true;
    step();
    if (current() == '-' || current() == '+') step();
    while (is_digit(current())) step();
  }
  token_.text = text_.substr(begin, at_ - begin);
  const char* const first = token_.text.data();
  const char* const last = first + token_.text.size();
  const auto parsed = std::from_chars(first, last, token_.real);
  bool good = parsed.ec == std::errc{} && parsed.ptr == last;
  if (!real) {
    const auto whole = std::from_chars(first, last, token_.integer);
    good = good && whole.ec == std::errc{} && whole.ptr == last;
  }
  if (!good || is_letter(current())) {
    return error(token_.place, fmt::format("'{}{}' is no number", token_.text,
                                           is_letter(current()) ? std::string(1, current()) : ""));
  }
  token_.kind = real ? TokenKind::kReal : TokenKind::kInteger;
  return {};
}

Status Lexer::read_string() {
  token_.kind = TokenKind::kString;
  step();
  while (!at_end() && current() != '"' && current() != '\n') {
    char c = current();
    step();
    if (c != '\\') {
      token_.text += c;
      continue;
    }
    c = current();
    if (c == 'n') {
      token_.text += '\n';
    } else if (c == '"' || c == '\\') {
      token_.text += c;
    } else if (c == 'x' && at_ + 2 < text_.size() && is_hex(text_[at_ + 1]) &&
               is_hex(text_[at_ + 2])) {
      unsigned value = 0;
      std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, value, 16);
      token_.text += static_cast<char>(value);
      step();
      step();
    } else {
      return error(place_, "a backslash is followed by n, \", \\ or x and two hexadecimal digits");
    }
    step();
  }
  if (current() != '"') return error(token_.place, "the string has no end; close it with '\"'");
  step();
  return {};
}

void Lexer::seek(const Position& position) {
  at_ = position.at;
  place_ = position.place;
  brackets_ = position.brackets;
  token_ = position.token;
}

Result<Token> Lexer::next() {
  if (!first_.ok()) return first_.error();
  Token token = token_;
  TESSERA_RETURN_IF_ERROR(advance());
  return token;
}

Status Lexer::expect(std::string_view symbol, const char* after) {
  if (!token_.is(symbol)) {
    return unexpected(fmt::format("'{}' {}", symbol, after));
  }
  return advance();
}

Result<std::string> Lexer::expect_name(const char* what) {
  if (!first_.ok()) return first_.error();
  if (token_.kind != TokenKind::kName) return unexpected(what);
  TESSERA_TRY(Token token, next());
  return std::move(token.text);
}

Result<std::string> Lexer::expect_string(const char* what) {
  if (token_.kind != TokenKind::kString) return unexpected(fmt::format("{} in quotes", what));
  TESSERA_TRY(Token token, next());
  return std::move(token.text);
}

Result<std::int64_t> Lexer::expect_integer(const char* what) {
  TESSERA_TRY(const bool negative, accept("-"));
  if (token_.kind != TokenKind::kInteger) return unexpected(fmt::format("{}, an integer", what));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  if (token_.integer > (negative ? kMost : kMost - 1)) {
    return error(token_.place, fmt::format("{}: {} does not fit in 64 bits", what, token_.text));
  }
  TESSERA_TRY(const Token token, next());
  return static_cast<std::int64_t>(negative ? 0 - token.integer : token.integer);
}

Result<std::uint64_t> Lexer::expect_unsigned(const char* what) {
  if (token_.kind != TokenKind::kInteger) {
    return unexpected(fmt::format("{}, an integer of at least 0", what));
  }
  TESSERA_TRY(const Token token, next());
  return token.integer;
}

Result<double> Lexer::expect_real(const char* what) {
  TESSERA_TRY(const bool negative, accept("-"));
  if (token_.kind != TokenKind::kInteger && token_.kind != TokenKind::kReal) {
    return unexpected(fmt::format("{}, a number", what));
  }
  TESSERA_TRY(const Token token, next());
  return negative ? -token.real : token.real;
}

Status Lexer::expect_end_of_line(const char* after) {
  if (!token_.ends_line()) return unexpected(fmt::format("the end of the line {}", after));
  if (token_.kind == TokenKind::kEndOfText) return {};
  return advance();
}

Result<bool> Lexer::accept(std::string_view symbol) {
  if (!first_.ok()) return first_.error();
  if (!token_.is(symbol)) return false;
  TESSERA_RETURN_IF_ERROR(advance());
  return true;
}

Result<bool> Lexer::accept_name(std::string_view name) {
  if (!first_.ok()) return first_.error();
  if (!token_.is_name(name)) return false;
  TESSERA_RETURN_IF_ERROR(advance());
  return true;
}

Status Lexer::skip_empty_lines() {
  if (!first_.ok()) return first_;
  while (token_.kind == TokenKind::kEndOfLine) TESSERA_RETURN_IF_ERROR(advance());
  return {};
}

}  // namespace tessera::firmware

#include "firmware/expression.h"

#include <fmt/format.h>

#include <vector>

#include "arch/nearest.h"

namespace tessera::firmware {
namespace {

constexpr int kDepthMax = 64;  // of parentheses

class ExpressionParser {
 public:
  ExpressionParser(Lexer& lexer, const Scalars& scalars, const char* what)
      : lexer_(lexer), scalars_(scalars), what_(what) {}

  Result<std::int64_t> sum() {
    TESSERA_TRY(std::int64_t left, product());
    while (lexer_.peek().is("+") || lexer_.peek().is("-")) {
      TESSERA_TRY(const Token sign, lexer_.next());
      TESSERA_TRY(const std::int64_t right, product());
      const bool overflow = sign.is("+") ? __builtin_add_overflow(left, right, &left)
                                         : __builtin_sub_overflow(left, right, &left);
      if (overflow) return too_large(sign);
    }
    return left;
  }

 private:
  Result<std::int64_t> product() {
    TESSERA_TRY(std::int64_t left, factor());
    while (lexer_.peek().is("*") || lexer_.peek().is("/") || lexer_.peek().is("%")) {
      TESSERA_TRY(const Token sign, lexer_.next());
      TESSERA_TRY(const std::int64_t right, factor());
      if (sign.is("*")) {
        if (__builtin_mul_overflow(left, right, &left)) return too_large(sign);
        continue;
      }
      if (right == 0) return lexer_.error(sign.place, fmt::format("{}: division by 0", what_));
      if (right == -1) {  // the one quotient that overflows
        if (sign.is("/") && __builtin_sub_overflow(0, left, &left)) return too_large(sign);
        if (sign.is("%")) left = 0;
        continue;
      }
      left = sign.is("/") ? left / right : left % right;
    }
    return left;
  }

  Result<std::int64_t> factor() {
    if (++depth_ > kDepthMax) {
      return lexer_.error(lexer_.peek().place, fmt::format("{}: nested too deeply", what_));
    }
    TESSERA_TRY(const std::int64_t value, primary());
    --depth_;
    return value;
  }

  Result<std::int64_t> primary() {
    TESSERA_TRY(const bool negative, lexer_.accept("-"));
    if (negative) {
      const Token sign = lexer_.peek();
      TESSERA_TRY(std::int64_t value, factor());
      if (__builtin_sub_overflow(0, value, &value)) return too_large(sign);
      return value;
    }
    TESSERA_TRY(const bool open, lexer_.accept("("));
    if (open) {
      TESSERA_TRY(const std::int64_t value, sum());
      TESSERA_RETURN_IF_ERROR(lexer_.expect(")", "to close the parenthesis"));
      return value;
    }
    const Token token = lexer_.peek();
    if (token.kind != TokenKind::kName) return lexer_.expect_integer(what_);
    const auto found = scalars_.find(token.text);
    if (found == scalars_.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : scalars_) names.push_back(name);
      const std::string near = nearest_name(token.text, names);
      return lexer_.error(
          token.place,
          fmt::format("{}: '{}' is no scalar register;{} declare it with 'set "
                      "{} = VALUE'",
                      what_, token.text,
                      near.empty() ? "" : fmt::format(" did you mean '{}'?", near), token.text));
    }
    TESSERA_RETURN_IF_ERROR(lexer_.advance());
    return found->second;
  }

  Error too_large(const Token& at) const {
    return lexer_.error(at.place, fmt::format("{}: the value does not fit in 64 bits", what_));
  }

  Lexer& lexer_;
  const Scalars& scalars_;
  const char* const what_;
  int depth_ = 0;
};

}  // namespace

Result<std::int64_t> parse_expression(Lexer& lexer, const Scalars& scalars, const char* what) {
  return ExpressionParser(lexer, scalars, what).sum();
}

}  // namespace tessera::firmware

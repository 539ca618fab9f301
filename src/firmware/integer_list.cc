#include "firmware/integer_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera::firmware {

Result<std::vector<std::int64_t>> parse_integers(Lexer& lexer, const char* what, std::size_t most) {
  const Place place = lexer.peek().place;
  TESSERA_RETURN_IF_ERROR(lexer.expect("[", what));
  std::vector<std::int64_t> values;
  while (!lexer.peek().is("]")) {
    TESSERA_TRY(const std::int64_t value, lexer.expect_integer(what));
    values.push_back(value);
    if (values.size() > most) {
      return lexer.error(place, fmt::format("more than {} numbers {}", most, what));
    }
    TESSERA_TRY(const bool more, lexer.accept(","));
    if (!more) break;
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect("]", what));
  return values;
}

std::string integers_text(const std::vector<std::int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

}  // namespace tessera::firmware

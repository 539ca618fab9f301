#include "firmware/parse_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/nearest.h"

namespace tessera::firmware {

Result<std::int64_t> parse_bounded(ParseContext& context, const char* what, std::int64_t lowest,
                                   std::int64_t highest) {
  const Place place = context.lexer.peek().place;
  TESSERA_TRY(const std::int64_t value, parse_expression(context.lexer, context.scalars, what));
  if (value < lowest || value > highest) {
    return context.lexer.error(
        place, fmt::format("{} is {}, allowed {}..{}", what, value, lowest, highest));
  }
  return value;
}

Result<Extents> parse_axes(ParseContext& context, const char* what, std::int64_t lowest) {
  Extents written{};
  std::size_t count = 0;
  while (true) {
    if (count == kAxes) {
      return context.lexer.error(context.lexer.peek().place,
                                 fmt::format("{}: more than {} axes", what, kAxes));
    }
    TESSERA_TRY(written[count], parse_bounded(context, what, lowest, kExtentMax));
    ++count;
    TESSERA_TRY(const bool more, context.lexer.accept_name("x"));
    if (!more) break;
  }
  if (count == kAxes && written[0] > kPlanesMax) {
    return context.lexer.error(
        context.lexer.peek().place,
        fmt::format("{}: {} planes, allowed up to {}", what, written[0], kPlanesMax));
  }
  Extents result;
  result.fill(lowest);
  std::copy_n(written.begin(), count, result.end() - static_cast<std::ptrdiff_t>(count));
  return result;
}

Result<std::size_t> parse_symbol(ParseContext& context, const char* what) {
  const Place place = context.lexer.peek().place;
  TESSERA_TRY(const std::string name, context.lexer.expect_name(what));
  const auto found = context.names.find(name);
  if (found != context.names.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, index] : context.names) names.push_back(known);
  const std::string near = nearest_name(name, names);
  return context.lexer.error(
      place, fmt::format("'{}' is not declared{}", name,
                         near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

}  // namespace tessera::firmware

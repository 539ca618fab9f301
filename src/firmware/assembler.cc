#include "firmware/assembler.h"

#include <fmt/format.h>

#include "firmware/lexer.h"
#include "firmware/program_text.h"

namespace tessera::firmware {
namespace {

constexpr std::uint64_t kVersion = 1;  // of the language

}  // namespace

Result<program::Program> assemble(std::string_view text, const std::string& name,
                                  const AssembleOptions& options) {
  Lexer lexer(text, name);
  TESSERA_RETURN_IF_ERROR(lexer.skip_empty_lines());
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::string level, lexer.expect_name("'program 1', the first line of a text"));
  if (level != "program") {
    return lexer.error(place, fmt::format("a text begins with 'program 1', not with '{}'", level));
  }
  TESSERA_TRY(const std::uint64_t version, lexer.expect_unsigned("the language's version"));
  if (version != kVersion) {
    return lexer.error(place,
                       fmt::format("version {} of the language, allowed {}", version, kVersion));
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect_end_of_line("behind the version"));
  return parse_program_text(lexer, options.read);
}

}  // namespace tessera::firmware

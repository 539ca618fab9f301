#include "firmware/assembler.h"

#include <fmt/format.h>

#include <utility>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "firmware/chain_parser.h"
#include "firmware/chain_tasks.h"
#include "firmware/lexer.h"
#include "firmware/program_text.h"

namespace tessera::firmware {
namespace {

constexpr std::uint64_t kVersion = 1;  // of the language

// `arch "brainwave"`, if it is there, and then chains.
Result<isa::Program> assemble_chains(Lexer& lexer, const AssembleOptions& options) {
  TESSERA_RETURN_IF_ERROR(lexer.skip_empty_lines());
  const Place place = lexer.peek().place;
  TESSERA_TRY(const bool named, lexer.accept_name("arch"));
  std::string arch = "brainwave";
  if (named) {
    TESSERA_TRY(arch, lexer.expect_string("an architecture"));
    TESSERA_RETURN_IF_ERROR(lexer.expect_end_of_line("behind the architecture"));
  }
  auto chip = options.chip != nullptr
                  ? Result<ChipConfig>(*options.chip)
                  : load_chip_config(options.arch.empty() ? arch : options.arch);
  if (!chip.ok()) return lexer.error(place, chip.error().message);
  TESSERA_TRY(const ChainProgram chains, parse_chains(lexer, *chip, options));
  return chain_program(chains, *chip, lexer, options);
}

}  // namespace

Result<isa::CardProgram> assemble_card(std::string_view text, const std::string& name,
                                       const AssembleOptions& options) {
  Lexer lexer(text, name);
  TESSERA_RETURN_IF_ERROR(lexer.skip_empty_lines());
  const Place place = lexer.peek().place;
  TESSERA_TRY(const std::string level,
              lexer.expect_name("'firmware 1' or 'program 1', the first line of a text"));
  if (level != "program" && level != "firmware") {
    return lexer.error(place,
                       fmt::format("a text begins with 'firmware 1' (chains) or 'program 1' (every "
                                   "descriptor written out), not with '{}'",
                                   level));
  }
  TESSERA_TRY(const std::uint64_t version, lexer.expect_unsigned("the language's version"));
  if (version != kVersion) {
    return lexer.error(place,
                       fmt::format("version {} of the language, allowed {}", version, kVersion));
  }
  TESSERA_RETURN_IF_ERROR(lexer.expect_end_of_line("behind the version"));
  if (level == "firmware") {
    isa::CardProgram program;
    TESSERA_TRY(isa::Program chains, assemble_chains(lexer, options));
    program.cores.push_back(std::move(chains));
    return program;
  }
  if (options.streaming) {
    return lexer.error(place, "only chains ('firmware 1') have a time loop to stream through");
  }
  return parse_program_text(lexer, options);
}

Result<isa::Program> assemble(std::string_view text, const std::string& name,
                              const AssembleOptions& options) {
  TESSERA_TRY(isa::CardProgram program, assemble_card(text, name, options));
  if (program.cores.size() == 1) return std::move(program.cores.front());
  return Error{
      ErrorCode::kUnsupported,
      fmt::format(
          "'{}' is the text of a program for {} cores of a card, which 'tessera run', 'asm' and "
          "'derive' take; here give one of one core",
          name, program.cores.size())};
}

}  // namespace tessera::firmware

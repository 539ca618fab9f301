// What the parsers of declarations and chains share: the state of a text, and the pieces of both.
#pragma once

#include <map>
#include <string>

#include "arch/chip_config.h"
#include "firmware/assemble_options.h"
#include "firmware/chain.h"
#include "firmware/expression.h"

namespace tessera::firmware {

struct ParseContext {
  Lexer& lexer;
  const ChipConfig& chip;
  const AssembleOptions& options;
  Scalars scalars;
  std::map<std::string, std::size_t> names;  // of symbols
  // Scalar registers that a queue's messages set, and the queue: known to a stream only.
  std::map<std::string, std::size_t> message_scalars = {};
  ChainProgram program;
  std::int64_t elements = 0;  // of all declared names
  bool in_time_loop = false;
  std::string loop_counters = {};  // "[2]" behind the names of chains in a loop
};

inline constexpr std::int64_t kExtentMax = std::int64_t{1} << 20;    // of any axis
inline constexpr std::int64_t kPlanesMax = 4096;                     // of the first of three axes
inline constexpr std::int64_t kElementsMax = std::int64_t{1} << 27;  // of all declared names

// A whole number in lowest..highest.
Result<std::int64_t> parse_bounded(ParseContext& context, const char* what, std::int64_t lowest,
                                   std::int64_t highest);
// "3 x 3", the last axes of three.
Result<Extents> parse_axes(ParseContext& context, const char* what, std::int64_t lowest);
// The declared name at hand, by its index; the error offers the nearest.
Result<std::size_t> parse_symbol(ParseContext& context, const char* what);

}  // namespace tessera::firmware

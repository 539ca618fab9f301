// The declarations of a firmware text: names, and what they start with.
#pragma once

#include <string>

#include "firmware/parse_context.h"

namespace tessera::firmware {

// `set`, `file`, `vector`, `matrix`, `queue` and `dram`, behind the word itself.
Status parse_declaration(ParseContext& context, const std::string& word, const Place& place);

}  // namespace tessera::firmware

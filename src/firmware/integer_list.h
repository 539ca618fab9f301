// Lists of whole numbers in firmware text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "firmware/lexer.h"

namespace tessera::firmware {

// "[1, 2, 3]", at most `most` numbers.
Result<std::vector<std::int64_t>> parse_integers(Lexer& lexer, const char* what, std::size_t most);
std::string integers_text(const std::vector<std::int64_t>& values);

}  // namespace tessera::firmware

// Integer expressions over scalar registers: + - * / % ( ), evaluated at
// assembly.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "firmware/lexer.h"

namespace tessera::firmware {

using Scalars = std::map<std::string, std::int64_t>;

// `what` names it in messages.
Result<std::int64_t> parse_expression(Lexer& lexer, const Scalars& scalars, const char* what);

}  // namespace tessera::firmware

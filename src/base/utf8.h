// Text of strangers made UTF-8, for files that have to be.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Bytes that are no UTF-8 (overlong forms, surrogates and what lies beyond U+10FFFF among them)
// become U+FFFD, one for each byte.
std::string as_utf8(std::string_view text);

}  // namespace tessera

// Text as a JSON string.
#pragma once

#include <string>

namespace tessera::metrics {

// A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(const std::string& text);

}  // namespace tessera::metrics

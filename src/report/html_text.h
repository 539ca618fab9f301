// Text as it stands in a page.
#pragma once

#include <string>
#include <string_view>

namespace tessera::report {

// Bytes that are not UTF-8 become U+FFFD.
std::string html_text(std::string_view text);

}  // namespace tessera::report

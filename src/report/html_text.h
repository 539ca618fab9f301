// Text as it stands in a page.
#pragma once

#include <string>
#include <string_view>

namespace tessera::report {

inline std::string html_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace tessera::report

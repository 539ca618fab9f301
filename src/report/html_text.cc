#include "report/html_text.h"

#include "base/utf8.h"

namespace tessera::report {

std::string html_text(std::string_view text) {
  std::string result;
  for (const char c : as_utf8(text)) {
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

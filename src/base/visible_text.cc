#include "tessera/visible_text.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace tessera {
namespace {

// Whether the line break at `at` stays one.
bool kept(std::string_view text, std::size_t at, LineBreaks breaks) {
  if (text[at] != '\n' || breaks == LineBreaks::kShown) return false;
  return breaks == LineBreaks::kKept || text.substr(at + 1, 2) == "  ";
}

std::string written_out(const Character& c) {
  if (c.code == '\n') return "\\n";
  if (c.code == '\t') return "\\t";
  // A control character of one byte, or a byte that is none.
  if (c.bytes == 1) return fmt::format("\\x{:02x}", c.code);
  return fmt::format("\\u{{{:x}}}", c.code);
}

}  // namespace

std::string visible_text(std::string_view text, LineBreaks breaks) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.visible() || kept(text, at, breaks)) {
      shown += text.substr(at, c.bytes);
    } else {
      shown += written_out(c);
    }
    at += c.bytes;
  }
  return shown;
}

std::string visible_json(std::string_view json, LineBreaks breaks) {
  std::string shown;
  shown.reserve(json.size());
  for (std::size_t at = 0; at < json.size();) {
    const Character c = character_at(json, at);
    if (!c.valid) {
      shown += "\xEF\xBF\xBD";
    } else if (c.visible() || kept(json, at, breaks)) {
      shown += json.substr(at, c.bytes);
    } else if (c.code < 0x20) {
      shown += ' ';  // between values; JSON's strings hold none
    } else {
      shown += fmt::format("\\u{:04x}", c.code);
    }
    at += c.bytes;
  }
  return shown;
}

}  // namespace tessera

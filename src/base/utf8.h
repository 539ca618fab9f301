// Untrusted text, character by character.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// A character, or a byte that begins none.
struct Character {
  std::uint32_t code = 0;  // of a byte that begins none: the byte
  std::size_t bytes = 1;
  bool valid = false;
  // Whether a terminal shows it as a sign of its own: no control character, no mark that turns the
  // direction of text, no separator of lines.
  bool visible() const;
};
// `at` is below the text's size.
Character character_at(std::string_view text, std::size_t at);

// Bytes that are no UTF-8 (overlong forms, surrogates and what lies beyond U+10FFFF among them)
// become U+FFFD, one for each byte.
std::string as_utf8(std::string_view text);

// The first bytes, at most this number; no character is cut.
std::string_view first_bytes(std::string_view text, std::size_t bytes);

}  // namespace tessera

#include "base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace tessera {
namespace {

// Table 3-7 of the Unicode standard: bytes of a character by its first, and the range of its
// second.
struct Form {
  std::uint8_t first, last;
  std::size_t bytes;
  std::uint8_t second_least, second_most;
};
constexpr Form kForms[] = {
    {0x00, 0x7F, 1, 0, 0},       {0xC2, 0xDF, 2, 0x80, 0xBF}, {0xE0, 0xE0, 3, 0xA0, 0xBF},
    {0xE1, 0xEC, 3, 0x80, 0xBF}, {0xED, 0xED, 3, 0x80, 0x9F}, {0xEE, 0xEF, 3, 0x80, 0xBF},
    {0xF0, 0xF0, 4, 0x90, 0xBF}, {0xF1, 0xF3, 4, 0x80, 0xBF}, {0xF4, 0xF4, 4, 0x80, 0x8F}};

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

// Bytes of the character at `at`; 0 where there is none.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  const std::uint8_t first = byte_at(text, at);
  const Form* form = std::find_if(std::begin(kForms), std::end(kForms), [first](const Form& row) {
    return row.first <= first && first <= row.last;
  });
  if (form == std::end(kForms) || form->bytes > text.size() - at) return 0;
  for (std::size_t i = 1; i < form->bytes; ++i) {
    const std::uint8_t byte = byte_at(text, at + i);
    const std::uint8_t least = i == 1 ? form->second_least : 0x80;
    const std::uint8_t most = i == 1 ? form->second_most : 0xBF;
    if (byte < least || byte > most) return 0;
  }
  return form->bytes;
}

// Unicode's control characters, marks and separators that a terminal or an editor obeys.
struct Range {
  std::uint32_t first, last;
};
constexpr Range kObeyed[] = {
    {0x00, 0x1F},      // C0
    {0x7F, 0x9F},      // delete, C1
    {0x61C, 0x61C},    // Arabic letter mark
    {0x200E, 0x200F},  // left-to-right and right-to-left marks
    {0x2028, 0x202E},  // separators of lines and paragraphs, directions
    {0x2066, 0x2069},  // directions of isolated text
    {0xFEFF, 0xFEFF},  // byte order mark
    {0xFFF9, 0xFFFB},  // annotations
};

}  // namespace

bool Character::visible() const {
  return valid && std::ranges::none_of(kObeyed, [this](const Range& range) {
           return range.first <= code && code <= range.last;
         });
}

Character character_at(std::string_view text, std::size_t at) {
  const std::size_t bytes = character_bytes(text, at);
  const std::uint32_t first = byte_at(text, at);
  if (bytes <= 1) return {first, 1, bytes == 1};
  std::uint32_t code = first & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) code = code << 6 | (byte_at(text, at + i) & 0x3FU);
  return {code, bytes, true};
}

std::string as_utf8(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text, at);
    result += bytes == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(at, bytes);
    at += std::max<std::size_t>(1, bytes);
  }
  return result;
}

std::string_view first_bytes(std::string_view text, std::size_t bytes) {
  if (bytes >= text.size()) return text;
  std::size_t end = 0;
  while (end < bytes) {
    const std::size_t next = end + character_at(text, end).bytes;
    if (next > bytes) break;
    end = next;
  }
  return text.substr(0, end);
}

}  // namespace tessera

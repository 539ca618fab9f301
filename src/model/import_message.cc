#include "model/import_message.h"

#include <algorithm>

namespace tessera::model {
namespace {

constexpr std::size_t kShownNumbersMax = 16;

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the well-formed sequence at the start of `text`, 0 if there is none.
std::size_t utf8_sequence(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(at(i))) return 0;
  }
  const bool overlong = (first == 0xE0 && at(1) < 0xA0) || (first == 0xF0 && at(1) < 0x90);
  const bool surrogate = first == 0xED && at(1) > 0x9F;
  const bool too_large = first == 0xF4 && at(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::size_t utf8_prefix(std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t length = utf8_sequence(text.substr(done));
    if (length == 0) break;
    done += length;
  }
  return done;
}

std::string in_quotes(std::string_view name, std::size_t bytes_max) {
  std::string text = "'";
  std::size_t done = 0;
  while (done < name.size() && done < bytes_max) {
    const std::size_t length = utf8_sequence(name.substr(done));
    const auto byte = static_cast<unsigned char>(name[done]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
      done += 1;
    } else {
      text += name.substr(done, length);
      done += length;
    }
  }
  if (done < name.size()) text += "...";
  return text + "'";
}

std::string node_label(std::string_view name, std::string_view op_type) {
  const std::string op = in_quotes(op_type);
  return fmt::format("node {} ({})", in_quotes(name), op.substr(1, op.size() - 2));
}

std::string list_text(std::span<const std::int64_t> numbers) {
  std::string text = "[";
  for (const std::int64_t number : numbers.first(std::min(numbers.size(), kShownNumbersMax))) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(number);
  }
  return text + (numbers.size() > kShownNumbersMax ? ", ...]" : "]");
}

std::string count_text(std::int64_t count, std::string_view singular) {
  return fmt::format("{} {}{}", count, singular, count == 1 ? "" : "s");
}

}  // namespace tessera::model

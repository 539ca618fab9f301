#include "model/import_message.h"

#include <algorithm>

#include "base/utf8.h"
#include "tessera/visible_text.h"

namespace tessera::model {
namespace {

constexpr std::size_t kShownNumbersMax = 16;

}  // namespace

std::size_t utf8_prefix(std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const Character c = character_at(text, done);
    if (!c.valid) break;
    done += c.bytes;
  }
  return done;
}

std::string in_quotes(std::string_view name, std::size_t bytes_max) {
  std::string text = "'";
  std::size_t done = 0;
  while (done < name.size() && done < bytes_max) {
    const std::size_t bytes = character_at(name, done).bytes;
    text += visible_text(name.substr(done, bytes));
    done += bytes;
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

#include "cluster/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace tessera::cluster {

bool is_name(const std::string& text) {
  constexpr std::size_t kBytesMax = 64;
  return !text.empty() && text.size() <= kBytesMax && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status check_name(const std::string& what, const std::string& text) {
  if (is_name(text)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("{} '{}'; allowed are 1 to 64 letters, digits, '.', '_' and '-'", what, text)};
}

std::string random_name() {
  std::random_device source;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", source());
  return text;
}

}  // namespace tessera::cluster

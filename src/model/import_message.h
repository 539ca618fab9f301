// How the importer words what is wrong with a file: names are untrusted, so they are quoted,
// shortened and cannot put control characters on a terminal.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tessera::model {

// "'name'", its characters as visible_text() shows them; what follows the first `bytes_max` bytes
// is left out and marked by "...".
std::string in_quotes(std::string_view name, std::size_t bytes_max = 120);

// "node 'conv1' (Conv)".
std::string node_label(std::string_view name, std::string_view op_type);

// "[1, 3, 224, 224]"; what follows the first 16 numbers is left out and marked by "...".
std::string list_text(std::span<const std::int64_t> numbers);

// "1 byte", "2 bytes".
std::string count_text(std::int64_t count, std::string_view singular);

// Length of the well-formed UTF-8 prefix of `text`; text.size() when all of it is.
std::size_t utf8_prefix(std::string_view text);

template <typename... Args>
Error invalid_model(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInvalidModel, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename... Args>
Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kUnsupported, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace tessera::model

// What people see: a progress bar on standard error (only on a terminal), tables, numbers. Every
// verb prints with show() or show_lines(), because names and messages come from files and peers.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/session.h"
#include "tessera/visible_text.h"

namespace tessera::tools {

// Draws "stage [####    ] 42 %" while something long goes on; nothing when standard error is no
// terminal.
ProgressCallback progress_bar();

// Lines that the program made; what a terminal would obey in them is written out (visible_text.h).
// Throws std::system_error where they cannot be printed, as fmt does.
void show_lines(std::FILE* to, std::string_view lines);
inline void show_lines(std::string_view lines) { show_lines(stdout, lines); }

// An argument of show(): in texts, line breaks are written out, too.
template <typename Argument>
decltype(auto) shown(const Argument& argument) {
  if constexpr (std::is_convertible_v<const Argument&, std::string_view>) {
    return visible_text(argument);
  } else {
    return (argument);
  }
}
// Prints as fmt::print does. Its texts are names and messages; a text of lines is for show_lines().
template <typename... Arguments>
void show(std::FILE* to, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  show_lines(to, fmt::format(fmt::runtime(fmt::string_view(format)), shown(arguments)...));
}
template <typename... Arguments>
void show(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  show(stdout, format, std::forward<Arguments>(arguments)...);
}

// Columns are as wide as their longest cell; the first column is left-aligned, the others right.
// Cells are names and numbers: what a terminal would obey, and line breaks, are written out.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) { add(std::move(header)); }
  void add(std::vector<std::string> row);
  // No line is longer than `width_max`; the first column is cut with "..." where it must be.
  std::string text(std::size_t width_max = 110) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Indented. Bytes of a name that are not UTF-8 become U+FFFD; characters that a terminal would obey
// are written as \uNNNN.
std::string json_text(const nlohmann::json& document);
std::string json_line(const nlohmann::json& document);  // likewise, without a line end
std::string with_separators(std::int64_t number);       // 1,234,567
std::string percent(double share);                      // "42.1 %"
std::string dims_text(const Shape& dims);               // "1x3x48x320"
std::string engine_table(const RunResult& run);         // utilisation of every engine
// "note: ..." for each stated default.
std::string notes_text(const std::vector<std::string>& notes);
std::string placement_text(const Placement& placement);

}  // namespace tessera::tools

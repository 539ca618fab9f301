// What people see: a progress bar on standard error (only on a terminal), tables, numbers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tessera/session.h"

namespace tessera::tools {

// Draws "stage [####    ] 42 %" while something long goes on; nothing when standard error is no
// terminal.
ProgressCallback progress_bar();

// Columns are as wide as their longest cell; the first column is left-aligned, the others right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // No line is longer than `width_max`; the first column is cut with "..." where it must be.
  std::string text(std::size_t width_max = 110) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Indented. Bytes of a name that are not UTF-8 become U+FFFD.
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

#include "repro/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/input_file.h"

namespace tessera::repro {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{64} << 20;

Error at_line(const std::string& file_name, std::int64_t line, const std::string& message) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", file_name, line, message)};
}

bool is_space(char c) { return c == ' ' || c == '\t'; }

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// A cell as it stands between two commas; what is in quotes stays as it is.
std::string content(std::string_view text) {
  text = without_spaces(text);
  std::string cell;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '"') {
      cell += text[i];
    } else if (quoted && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else {
      quoted = !quoted;
    }
  }
  return cell;
}

// The cells of one line.
Result<std::vector<std::string>> cut_line(std::string_view text, const std::string& file_name,
                                          std::int64_t line) {
  std::vector<std::string> cells;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] != ',' || quoted) continue;
    cells.push_back(content(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (quoted) return at_line(file_name, line, "a cell's quotes do not end on their line");
  cells.push_back(content(text.substr(begin)));
  return cells;
}

// Takes the next line off; "\n", "\r\n" and "\r" end one.
std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find_first_of("\r\n");
  const std::string_view line = text.substr(0, end);
  if (end == std::string_view::npos) {
    text = {};
  } else {
    const bool both = text[end] == '\r' && end + 1 < text.size() && text[end + 1] == '\n';
    text.remove_prefix(end + (both ? 2 : 1));
  }
  return line;
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& file_name,
                                 BadRows bad_rows) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  CsvTable table;
  table.file_name_ = file_name;
  std::int64_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::string_view row = without_spaces(next_line(text));
    if (row.empty() || row.starts_with('#')) continue;
    auto cells = cut_line(row, file_name, line);
    std::optional<Error> error;
    if (!cells.ok()) {
      error = cells.error();
    } else if (table.header_.empty()) {
      table.header_ = std::move(*cells);
      continue;
    } else {
      const std::size_t columns = table.header_.size();
      while (bad_rows == BadRows::kLeftOut && cells->size() > columns && cells->back().empty()) {
        cells->pop_back();
      }
      if (cells->size() == columns) {
        table.rows_.push_back({line, std::move(*cells)});
        continue;
      }
      error = at_line(file_name, line,
                      fmt::format("found {} cells, the header has {}", cells->size(), columns));
    }
    if (bad_rows == BadRows::kError || table.header_.empty()) return *error;
    table.left_out_.push_back(error->message);
  }
  if (table.rows_.empty() && table.left_out_.empty()) {
    return at_line(file_name, line, "found no row, allowed a header and at least one row");
  }
  return table;
}

Result<CsvTable> CsvTable::read(const std::string& path, BadRows bad_rows) {
  const auto bytes = read_input(path, {.bytes_max = kFileBytesMax, .descriptors = true});
  if (!bytes.ok()) return bytes.error().with_context(fmt::format("cannot read '{}'", path));
  return parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path, bad_rows);
}

Result<std::size_t> CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (same_letters(header_[i], name)) return i;
  }
  return at_line(file_name_, 1,
                 fmt::format("no column '{}', found {}", name, fmt::join(header_, ", ")));
}

Result<std::int64_t> CsvTable::whole_number(const CsvRow& row, std::size_t column,
                                            std::int64_t min) const {
  const std::string& cell = row.cells[column];
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (code != std::errc{} || end != cell.data() + cell.size() || value < min) {
    return error_at(row, fmt::format("{}: found '{}', allowed a whole number {}", header_[column],
                                     cell, min > 0 ? "greater than 0" : "from 0 on"));
  }
  return value;
}

Result<std::int64_t> CsvTable::integer(const CsvRow& row, std::size_t column) const {
  return whole_number(row, column, 1);
}

Result<std::int64_t> CsvTable::count(const CsvRow& row, std::size_t column) const {
  return whole_number(row, column, 0);
}

Result<double> CsvTable::number(const CsvRow& row, std::size_t column) const {
  const std::string& cell = row.cells[column];
  double value = 0;
  const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = code == std::errc{} && end == cell.data() + cell.size();
  if (!whole || !(value > 0) || value > 1e15) {
    return error_at(
        row, fmt::format("{}: found '{}', allowed a number greater than 0", header_[column], cell));
  }
  return value;
}

Error CsvTable::error_at(const CsvRow& row, const std::string& message) const {
  return at_line(file_name_, row.line, message);
}

}  // namespace tessera::repro

#include "repro/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "base/input_file.h"

namespace tessera::repro {
namespace {

constexpr std::int64_t kFileBytesMax = std::int64_t{64} << 20;

Error at_line(const std::string& file_name, std::int64_t line, const std::string& message) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", file_name, line, message)};
}

// The cells of one line.
Result<std::vector<std::string>> cut_line(std::string_view text, const std::string& file_name,
                                          std::int64_t line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        cells.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cells.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) return at_line(file_name, line, "a cell's quotes do not end on their line");
  return cells;
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, const std::string& file_name) {
  CsvTable table;
  table.file_name_ = file_name;
  std::int64_t line = 0;
  while (!text.empty()) {
    ++line;
    const std::size_t end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    TESSERA_TRY(std::vector<std::string> cells, cut_line(row, file_name, line));
    if (table.header_.empty()) {
      table.header_ = std::move(cells);
      continue;
    }
    if (cells.size() != table.header_.size()) {
      return at_line(
          file_name, line,
          fmt::format("found {} cells, the header has {}", cells.size(), table.header_.size()));
    }
    table.rows_.push_back({line, std::move(cells)});
  }
  if (table.rows_.empty()) {
    return at_line(file_name, line, "found no row, allowed a header and at least one row");
  }
  return table;
}

Result<CsvTable> CsvTable::read(const std::string& path) {
  const auto bytes = read_input(path, {.bytes_max = kFileBytesMax, .descriptors = true});
  if (!bytes.ok()) return bytes.error().with_context(fmt::format("cannot read '{}'", path));
  return parse({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, path);
}

Result<std::size_t> CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (header_[i] == name) return i;
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

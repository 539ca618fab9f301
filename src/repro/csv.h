// Tables of comma-separated values, as measured figures are stored. A cell may stand in double
// quotes and then hold commas; "" in it is a quote. Spaces around a cell, lines that are empty or
// begin with '#', the ends of lines of any system and a byte order mark are no content. Every
// message names file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::repro {

struct CsvRow {
  std::int64_t line = 0;  // of the file, from 1
  std::vector<std::string> cells;
};

// What becomes of a row with more or fewer cells than the header, or with open quotes.
enum class BadRows : std::uint8_t {
  kError,
  kLeftOut,  // and named in CsvTable::left_out()
};

class CsvTable {
 public:
  // The first line names the columns; every other has as many cells. Empty cells behind the last
  // column are no content with BadRows::kLeftOut.
  static Result<CsvTable> parse(std::string_view text, const std::string& file_name,
                                BadRows bad_rows = BadRows::kError);
  static Result<CsvTable> read(const std::string& path, BadRows bad_rows = BadRows::kError);

  const std::vector<std::string>& header() const { return header_; }
  const std::vector<CsvRow>& rows() const { return rows_; }
  // Rows that are not in rows(), with what is wrong with each.
  const std::vector<std::string>& left_out() const { return left_out_; }
  // The position of a column, in whatever case; an error that names the columns there are.
  Result<std::size_t> column(std::string_view name) const;
  // A cell as a number greater than 0.
  Result<std::int64_t> integer(const CsvRow& row, std::size_t column) const;
  Result<double> number(const CsvRow& row, std::size_t column) const;
  // A cell as a whole number from 0 on.
  Result<std::int64_t> count(const CsvRow& row, std::size_t column) const;
  Error error_at(const CsvRow& row, const std::string& message) const;

 private:
  Result<std::int64_t> whole_number(const CsvRow& row, std::size_t column, std::int64_t min) const;

  std::string file_name_;
  std::vector<std::string> header_;
  std::vector<CsvRow> rows_;
  std::vector<std::string> left_out_;
};

}  // namespace tessera::repro

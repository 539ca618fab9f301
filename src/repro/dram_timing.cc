#include "repro/dram_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <future>
#include <map>
#include <system_error>
#include <thread>

namespace tessera::repro {
namespace {

constexpr std::int64_t kOutstandingMax = 4096;
constexpr std::int64_t kRequestsMax = 1 << 22;
constexpr std::size_t kThreadsMax = 8;
constexpr std::size_t kLargestShown = 10;

struct MappingName {
  std::string_view name;
  DramInterleave interleave;
};
// As published, then as in architecture files.
constexpr std::array<MappingName, 6> kMappings = {
    {{"RoBaRaCoCh", DramInterleave::kRow},
     {"BI256", DramInterleave::kBank},
     {"BG64", DramInterleave::kGroup},
     {kDramInterleaveNames[0], DramInterleave::kRow},
     {kDramInterleaveNames[1], DramInterleave::kBank},
     {kDramInterleaveNames[2], DramInterleave::kGroup}}};

std::optional<DramInterleave> mapping_of(std::string_view name) {
  for (const MappingName& mapping : kMappings) {
    if (mapping.name == name) return mapping.interleave;
  }
  return std::nullopt;
}

struct Columns {
  std::size_t device, mapping, pattern, outstanding, requests, bandwidth, latency, latency_p99;
  std::size_t hits, misses, conflicts, refreshes;

  static Result<Columns> of(const CsvTable& table) {
    Columns columns{};
    const std::pair<const char*, std::size_t*> named[] = {
        {"device", &columns.device},           {"mapping", &columns.mapping},
        {"pattern", &columns.pattern},         {"outstanding", &columns.outstanding},
        {"requests", &columns.requests},       {"bandwidth_gbs", &columns.bandwidth},
        {"latency_mean_ns", &columns.latency}, {"latency_p99_ns", &columns.latency_p99},
        {"row_hits", &columns.hits},           {"row_misses", &columns.misses},
        {"row_conflicts", &columns.conflicts}, {"refreshes", &columns.refreshes},
    };
    for (const auto& [name, column] : named) {
      TESSERA_TRY(*column, table.column(name));
    }
    return columns;
  }
};

Result<std::int64_t> integer_up_to(const CsvTable& table, const CsvRow& row, std::size_t column,
                                   std::int64_t max) {
  TESSERA_TRY(const std::int64_t value, table.integer(row, column));
  if (value <= max) return value;
  return table.error_at(
      row, fmt::format("{}: found {}, allowed 1 to {}", table.header()[column], value, max));
}

Result<std::optional<double>> number_or_nothing(const CsvTable& table, const CsvRow& row,
                                                std::size_t column) {
  if (row.cells[column].empty()) return std::optional<double>();
  TESSERA_TRY(const double value, table.number(row, column));
  return std::optional<double>(value);
}

// The figures of a row; what it is a row of, the caller knows.
Result<DramReferenceRow> read_figures(const CsvTable& table, const CsvRow& row,
                                      const Columns& columns) {
  DramReferenceRow read;
  TESSERA_TRY(read.outstanding, integer_up_to(table, row, columns.outstanding, kOutstandingMax));
  TESSERA_TRY(read.requests, integer_up_to(table, row, columns.requests, kRequestsMax));
  TESSERA_TRY(read.gigabytes_per_second, table.number(row, columns.bandwidth));
  TESSERA_TRY(read.latency_mean_nanoseconds, number_or_nothing(table, row, columns.latency));
  TESSERA_TRY(read.latency_p99_nanoseconds, number_or_nothing(table, row, columns.latency_p99));
  TESSERA_TRY(read.counts.hits, table.count(row, columns.hits));
  TESSERA_TRY(read.counts.misses, table.count(row, columns.misses));
  TESSERA_TRY(read.counts.conflicts, table.count(row, columns.conflicts));
  TESSERA_TRY(read.counts.refreshes, table.count(row, columns.refreshes));
  return read;
}

DramFigures ours_of(const DramReferenceRow& row) {
  return drive_dram(*row.device, {.interleave = row.interleave}, row.pattern,
                    {.outstanding = row.outstanding, .measured = row.requests});
}

// All rows, on a few threads; fewer where the system has no more.
std::vector<DramFigures> drive_all(const std::vector<DramReferenceRow>& rows) {
  std::vector<DramFigures> figures(rows.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) figures[i] = ours_of(rows[i]);
  };
  std::size_t threads = std::min(
      {kThreadsMax, rows.size(), std::size_t{std::max(1u, std::thread::hardware_concurrency())}});
  std::vector<std::future<void>> others;
  while (others.size() + 1 < threads) {
    try {
      others.push_back(std::async(std::launch::async, work));
    } catch (const std::system_error&) {
      threads = others.size() + 1;  // this one works in any case
    }
  }
  work();
  for (std::future<void>& other : others) other.get();
  return figures;
}

struct Compared {
  const DramReferenceRow* row = nullptr;
  DramFigures ours;
  double error_percent() const {
    return (ours.gigabytes_per_second / row->gigabytes_per_second - 1) * 100;
  }
};

struct Errors {
  double mean = 0, p95 = 0, largest = 0;
};

Errors errors_of(std::vector<double> absolute) {
  std::ranges::sort(absolute);
  double sum = 0;
  for (const double error : absolute) sum += error;
  const std::size_t rank = (absolute.size() * 95 + 99) / 100;  // from 1
  return {.mean = sum / static_cast<double>(absolute.size()),
          .p95 = absolute[rank - 1],
          .largest = absolute.back()};
}

template <typename Key>
FigureTable summary(const std::string& name, const std::string& column,
                    const std::vector<Compared>& compared, Key&& key) {
  std::map<std::string, std::vector<double>> groups;
  std::vector<std::string> order;
  for (const Compared& each : compared) {
    std::vector<double>& group = groups[key(*each.row)];
    if (group.empty()) order.push_back(key(*each.row));
    group.push_back(std::abs(each.error_percent()));
  }
  FigureTable table{.name = name,
                    .columns = {column, "rows", "mean_error", "p95_error", "largest_error"}};
  for (const std::string& group : order) {
    const Errors errors = errors_of(groups[group]);
    table.rows.push_back(
        {group, std::ssize(groups[group]), errors.mean, errors.p95, errors.largest});
  }
  return table;
}

FigureCell cell_of(const std::optional<double>& value) {
  return value ? FigureCell(*value) : FigureCell();
}

FigureTable table_of(const std::string& name, const std::vector<Compared>& compared) {
  FigureTable table{
      .name = name,
      .columns = {"device", "mapping", "pattern", "outstanding", "reference_gbs", "ours_gbs",
                  "error_percent", "reference_latency_mean_ns", "ours_latency_mean_ns",
                  "reference_latency_p99_ns", "ours_latency_p99_ns", "reference_row_hits",
                  "ours_row_hits", "reference_row_misses", "ours_row_misses",
                  "reference_row_conflicts", "ours_row_conflicts", "reference_refreshes",
                  "ours_refreshes"},
      .in_text = false};
  for (const Compared& each : compared) {
    const DramReferenceRow& row = *each.row;
    const DramFigures& ours = each.ours;
    const bool reads = ours.latency_mean_nanoseconds > 0;
    table.rows.push_back({row.device_name, row.mapping_name, row.pattern_name, row.outstanding,
                          row.gigabytes_per_second, ours.gigabytes_per_second, each.error_percent(),
                          cell_of(row.latency_mean_nanoseconds),
                          reads ? FigureCell(ours.latency_mean_nanoseconds) : FigureCell(),
                          cell_of(row.latency_p99_nanoseconds),
                          reads ? FigureCell(ours.latency_p99_nanoseconds) : FigureCell(),
                          row.counts.hits, ours.counts.hits, row.counts.misses, ours.counts.misses,
                          row.counts.conflicts, ours.counts.conflicts, row.counts.refreshes,
                          ours.counts.refreshes});
  }
  return table;
}

// The rows with the largest errors, in few columns.
FigureTable largest_of(std::vector<Compared> compared) {
  std::ranges::stable_sort(compared, [](const Compared& a, const Compared& b) {
    return std::abs(a.error_percent()) > std::abs(b.error_percent());
  });
  compared.resize(std::min(compared.size(), kLargestShown));
  FigureTable table{.name = "largest",
                    .columns = {"device", "mapping", "pattern", "outstanding", "reference_gbs",
                                "ours_gbs", "error_percent"}};
  for (const Compared& each : compared) {
    table.rows.push_back({each.row->device_name, each.row->mapping_name, each.row->pattern_name,
                          each.row->outstanding, each.row->gigabytes_per_second,
                          each.ours.gigabytes_per_second, each.error_percent()});
  }
  return table;
}

Result<std::vector<std::string>> reference_files(const std::string& data) {
  const std::filesystem::path path(data);
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return std::vector<std::string>{data};
  std::vector<std::string> files;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("dram_") && name.ends_with(".csv"))
      files.push_back(entry->path().string());
  }
  if (files.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("nothing to compare with in '{}'; dram needs a file dram_reference.csv "
                    "there, or another dram_*.csv",
                    data)};
  }
  std::ranges::sort(files);
  return files;
}

ExperimentResult compare(const DramReference& reference) {
  const std::vector<DramFigures> figures = drive_all(reference.rows);
  std::vector<Compared> compared;
  std::vector<double> errors;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    compared.push_back({&reference.rows[i], figures[i]});
    errors.push_back(std::abs(compared.back().error_percent()));
  }
  const Errors all = errors_of(errors);
  ExperimentResult result;
  result.figures = {{"mean_error", all.mean},
                    {"p95_error", all.p95},
                    {"largest_error", all.largest},
                    {"rows_compared", std::ssize(compared)},
                    {"rows_left_out", reference.left_out}};
  using Row = DramReferenceRow;
  result.figure_tables = {
      summary("by_device", "device", compared, [](const Row& r) { return r.device_name; }),
      summary("by_mapping", "mapping", compared, [](const Row& r) { return r.mapping_name; }),
      summary("by_pattern", "pattern", compared, [](const Row& r) { return r.pattern_name; }),
      summary("by_outstanding", "outstanding", compared,
              [](const Row& r) { return std::to_string(r.outstanding); }),
      largest_of(compared),
      table_of("rows", compared)};
  result.notes = reference.notes;
  return result;
}

}  // namespace

Result<DramReference> read_dram_reference(const CsvTable& table, const std::string& file_name) {
  TESSERA_TRY(const Columns columns, Columns::of(table));
  DramReference reference;
  std::map<std::string, std::vector<std::int64_t>> unknown;  // what, lines
  for (const CsvRow& row : table.rows()) {
    TESSERA_TRY(DramReferenceRow read, read_figures(table, row, columns));
    read.device_name = row.cells[columns.device];
    read.mapping_name = row.cells[columns.mapping];
    read.pattern_name = row.cells[columns.pattern];
    const auto device = find_dram_device(read.device_name);
    const auto mapping = mapping_of(read.mapping_name);
    const auto pattern = DramPattern::find(read.pattern_name);
    if (!device.ok() || !mapping || !pattern) {
      const std::string what = !device.ok() ? fmt::format("device '{}'", read.device_name)
                               : !mapping   ? fmt::format("mapping '{}'", read.mapping_name)
                                            : fmt::format("pattern '{}'", read.pattern_name);
      unknown[what].push_back(row.line);
      ++reference.left_out;
      continue;
    }
    read.device = *device;
    read.interleave = *mapping;
    read.pattern = *pattern;
    reference.rows.push_back(std::move(read));
  }
  for (const auto& [what, lines] : unknown) {
    reference.notes.push_back(
        fmt::format("not compared: {} with the unknown {}, the first in {}:{}",
                    lines.size() == 1 ? "1 row" : fmt::format("{} rows", lines.size()), what,
                    file_name, lines.front()));
  }
  return reference;
}

Result<ExperimentResult> dram_timing(const std::string& data) {
  TESSERA_TRY(const std::vector<std::string> files, reference_files(data));
  DramReference all;
  for (const std::string& file : files) {
    TESSERA_TRY(const CsvTable table, CsvTable::read(file));
    TESSERA_TRY(DramReference reference, read_dram_reference(table, file));
    std::ranges::move(reference.rows, std::back_inserter(all.rows));
    std::ranges::move(reference.notes, std::back_inserter(all.notes));
    all.left_out += reference.left_out;
  }
  if (all.rows.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("no row of '{}' can be compared: {}", data, all.notes.front())};
  }
  return compare(all);
}

}  // namespace tessera::repro

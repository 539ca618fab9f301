#include "repro/card_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"

namespace tessera::repro {
namespace {

constexpr std::array<std::int64_t, 5> kCoresOfRows = {1, 2, 4, 8, 16};
constexpr double kMega = 1e6;

// Rows of a table whose columns have these values.
using Keys = std::vector<std::pair<const char*, FigureCell>>;

const FigureTable& table_of(const std::vector<FigureTable>& tables, const std::string& name) {
  const auto found = std::ranges::find(tables, name, &FigureTable::name);
  TESSERA_CHECK(found != tables.end(), "no table '{}'", name);
  return *found;
}

std::size_t column_of(const FigureTable& table, const std::string& name) {
  const auto found = std::ranges::find(table.columns, name);
  TESSERA_CHECK(found != table.columns.end(), "table '{}' has no column '{}'", table.name, name);
  return static_cast<std::size_t>(found - table.columns.begin());
}

// Null if there is none.
const std::vector<FigureCell>* row_of(const FigureTable& table, const Keys& keys) {
  for (const std::vector<FigureCell>& row : table.rows) {
    const bool fits = std::ranges::all_of(
        keys, [&](const auto& key) { return row[column_of(table, key.first)] == key.second; });
    if (fits) return &row;
  }
  return nullptr;
}

const FigureCell& cell_of(const FigureTable& table, const std::vector<FigureCell>& row,
                          const char* column) {
  return row[column_of(table, column)];
}

std::string count_text(const FigureCell& cell) {
  const auto* const count = std::get_if<std::int64_t>(&cell);
  return count == nullptr ? "" : fmt::format("{}", fmt::group_digits(*count));
}
std::string ratio_text(const FigureCell& cell) {
  if (const auto* const text = std::get_if<std::string>(&cell)) return *text;
  const auto* const value = std::get_if<double>(&cell);
  return value == nullptr ? "" : fmt::format("{:.2f}", *value);
}
std::string megabytes_text(const FigureCell& cell) {
  const auto* const bytes = std::get_if<std::int64_t>(&cell);
  return bytes == nullptr ? "" : fmt::format("{:.1f}", static_cast<double>(*bytes) / kMega);
}
// A published ratio as the source has it.
std::string published_text(const FigureCell& cell) {
  const auto* const value = std::get_if<double>(&cell);
  return value == nullptr ? ratio_text(cell) : fmt::format("{}", *value);
}

std::string line(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += cell.empty() ? "  |" : fmt::format(" {} |", cell);
  return text + "\n";
}
// The first column is text, the others figures.
std::string head(const std::vector<std::string>& columns) {
  std::string text = line(columns) + "| --- |";
  for (std::size_t i = 1; i < columns.size(); ++i) text += " ---: |";
  return text + "\n";
}

std::vector<std::string> core_columns(std::vector<std::string> before) {
  before.emplace_back("1 core");
  for (std::size_t i = 1; i < kCoresOfRows.size(); ++i) {
    before.push_back(fmt::format("{}", kCoresOfRows[i]));
  }
  return before;
}

const std::vector<FigureCell>* scaled_row(const FigureTable& table, const std::string& network,
                                          std::int64_t bits, std::int64_t cores,
                                          std::int64_t team) {
  return row_of(table,
                {{"network", network}, {"bits", bits}, {"cores", cores}, {"cores_of_image", team}});
}

// Cycles by cores, and how well sixteen are used.
std::string cycles_text(const std::vector<std::string>& networks, const FigureTable& table,
                        std::int64_t bits) {
  std::vector<std::string> columns = core_columns({fmt::format("cycles, {}-bit data", bits)});
  columns.emplace_back("of the ideal");
  std::string text = head(columns);
  for (const std::string& network : networks) {
    std::vector<std::string> cells = {network};
    for (const std::int64_t cores : kCoresOfRows) {
      cells.push_back(
          count_text(cell_of(table, *scaled_row(table, network, bits, cores, cores), "cycles")));
    }
    cells.push_back(
        ratio_text(cell_of(table, *scaled_row(table, network, bits, 16, 16), "scaling")));
    text += line(cells);
  }
  return text;
}

// Shares of the bound by cores, and with an image for some of the cores or for each.
std::string bounds_text(const std::vector<std::string>& networks, const FigureTable& table,
                        std::int64_t bits) {
  std::vector<std::string> columns = core_columns({fmt::format("of the bound, {}-bit data", bits)});
  const bool teams = scaled_row(table, networks.front(), bits, 16, 1) != nullptr;
  if (teams) columns.insert(columns.end(), {"16, four an image", "16, one an image"});
  std::string text = head(columns);
  for (const std::string& network : networks) {
    std::vector<std::string> cells = {network};
    const auto add = [&](std::int64_t cores, std::int64_t team) {
      cells.push_back(
          ratio_text(cell_of(table, *scaled_row(table, network, bits, cores, team), "of_bound")));
    };
    for (const std::int64_t cores : kCoresOfRows) add(cores, cores);
    if (teams) {
      add(16, 4);
      add(16, 1);
    }
    text += line(cells);
  }
  return text;
}

std::string ratio_line(const FigureTable& rows, const std::vector<FigureCell>& row,
                       const std::string& name) {
  std::string cycles = count_text(cell_of(rows, row, "cycles"));
  const auto& table = std::get<std::string>(cell_of(rows, row, "table"));
  if (table == "throughput") {
    cycles += fmt::format(" for {} images", count_text(cell_of(rows, row, "images")));
  }
  return line({name, published_text(cell_of(rows, row, "published")),
               ratio_text(cell_of(rows, row, "ours")),
               ratio_text(cell_of(rows, row, "ours_strong")), cycles});
}

// Every published figure of one network.
std::string network_text(const std::string& network, const FigureTable& rows) {
  if (row_of(rows, {{"table", "throughput"}, {"network", network}}) == nullptr) return "";
  std::string text = head({network, "published", "as published", "strong", "ours, cycles"});
  const auto add = [&](const char* table, std::int64_t cores, std::int64_t cards,
                       const FigureCell& gigabits, const std::string& name) {
    Keys keys = {{"table", table}, {"network", network}, {"cores", cores}, {"cards", cards}};
    if (gigabits != FigureCell{}) keys.emplace_back("gigabits", gigabits);
    if (const auto* const row = row_of(rows, keys)) text += ratio_line(rows, *row, name);
  };
  for (const std::int64_t cores : kCoresOfRows) {
    add("latency", cores, 1, {},
        cores == 1 ? "latency, 1 core" : fmt::format("latency, {} cores", cores));
  }
  add("throughput", 16, 1, {}, "throughput, an image a core");
  add("within_bound", 16, 1, {}, "within the strictest bound that the baseline keeps");
  for (const std::int64_t gigabits : {std::int64_t{100}, std::int64_t{200}}) {
    for (std::int64_t cards = 2; cards <= 4; ++cards) {
      add("cards", 16 * cards, cards, gigabits,
          fmt::format("latency, {} cores of {} cards, {} Gb/s", 16 * cards, cards, gigabits));
    }
  }
  return text + "\n";
}

// Latency on all cores of a card, with the bytes of all sides.
std::string latency_text(const std::vector<std::string>& networks, const FigureTable& rows) {
  std::string text = head({"latency, 16 cores", "as published", "strong", "of the bound",
                           "DRAM, MB: ours", "as published", "strong"});
  for (const std::string& network : networks) {
    const std::vector<FigureCell>& row =
        *row_of(rows, {{"table", "latency"}, {"network", network}, {"cores", std::int64_t{16}}});
    text += line({network, ratio_text(cell_of(rows, row, "ours")),
                  ratio_text(cell_of(rows, row, "ours_strong")),
                  ratio_text(cell_of(rows, row, "of_bound")),
                  megabytes_text(cell_of(rows, row, "dram_bytes")),
                  megabytes_text(cell_of(rows, row, "dram_bytes_published")),
                  megabytes_text(cell_of(rows, row, "dram_bytes_strong"))});
  }
  for (const std::int64_t cores : {std::int64_t{16}, std::int64_t{1}}) {
    const std::vector<FigureCell>& row =
        *row_of(rows, {{"table", "latency_mean"}, {"cores", cores}});
    const std::string published = published_text(cell_of(rows, row, "published"));
    text += line(
        {std::get<std::string>(cell_of(rows, row, "network")) + (cores == 1 ? ", one core" : ""),
         ratio_text(cell_of(rows, row, "ours")) +
             (published.empty() ? "" : fmt::format(" (published: {})", published)),
         ratio_text(cell_of(rows, row, "ours_strong")), "", "", "", ""});
  }
  return text + "\n";
}

// Factors of cycles by change, a column a network.
std::string changes_text(const FigureTable& changes) {
  std::vector<std::string> networks, columns = {"change", "cores"};
  for (const std::vector<FigureCell>& row : changes.rows) {
    const auto& network = std::get<std::string>(cell_of(changes, row, "network"));
    if (std::ranges::find(networks, network) == networks.end()) networks.push_back(network);
  }
  columns.insert(columns.end(), networks.begin(), networks.end());
  std::string text = head(columns);
  for (const std::vector<FigureCell>& row : changes.rows) {
    if (cell_of(changes, row, "network") != FigureCell{networks.front()}) continue;
    const auto& from = std::get<std::string>(cell_of(changes, row, "from"));
    const auto& change = std::get<std::string>(cell_of(changes, row, "change"));
    std::vector<std::string> cells = {fmt::format("{}, {}", from, change),
                                      count_text(cell_of(changes, row, "cores"))};
    for (const std::string& network : networks) {
      cells.push_back(ratio_text(cell_of(
          changes, *row_of(changes, {{"change", change}, {"from", from}, {"network", network}}),
          "factor")));
    }
    text += line(cells);
  }
  return text;
}

}  // namespace

std::string card_markdown(const std::vector<std::string>& networks,
                          const std::vector<FigureTable>& tables) {
  const FigureTable& rows = table_of(tables, "rows");
  const FigureTable& scaling = table_of(tables, "scaling");
  std::string text = "Ours, by cores:\n\n";
  for (const std::int64_t bits : {std::int64_t{8}, std::int64_t{16}}) {
    text += cycles_text(networks, scaling, bits) + "\n";
  }
  text += "Of the bound of arithmetic and bytes:\n\n";
  for (const std::int64_t bits : {std::int64_t{8}, std::int64_t{16}}) {
    text += bounds_text(networks, scaling, bits) + "\n";
  }
  text += "A baseline's cycles by ours:\n\n";
  for (const char* const network : {"mobilenet_v1", "ssd_vgg"}) text += network_text(network, rows);
  text += latency_text(networks, rows);
  return text + "Factors of cycles, by change:\n\n" + changes_text(table_of(tables, "sensitivity"));
}

}  // namespace tessera::repro

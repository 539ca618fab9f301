#include "tools/report/figures.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "report/html_text.h"
#include "report/line_chart.h"
#include "tessera/file.h"

namespace tessera::tools {
namespace {

using repro::FigureCell;
using repro::FigureTable;

std::string cell_text(const FigureCell& cell) {
  if (const auto* const name = std::get_if<std::string>(&cell)) return *name;
  if (const auto* const count = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *count);
  if (const auto* const value = std::get_if<double>(&cell)) return fmt::format("{:.6g}", *value);
  return "";
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"') quoted += '"';
    quoted += letter;
  }
  return quoted + '"';
}

std::string table_html(const FigureTable& table) {
  std::string text = fmt::format("<h2>{}</h2>\n<table>\n<tr>", report::html_text(table.name));
  for (const std::string& column : table.columns) text += "<th>" + report::html_text(column);
  text += "</tr>\n";
  for (const std::vector<FigureCell>& row : table.rows) {
    text += "<tr>";
    for (const FigureCell& cell : row) text += "<td>" + report::html_text(cell_text(cell));
    text += "</tr>\n";
  }
  return text + "</table>\n";
}

}  // namespace

std::string csv_text(const FigureTable& table) {
  std::string text;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    text += (i == 0 ? "" : ",") + csv_cell(table.columns[i]);
  }
  text += "\n";
  for (const std::vector<FigureCell>& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += (i == 0 ? "" : ",") + csv_cell(cell_text(row[i]));
    }
    text += "\n";
  }
  return text;
}

std::string figures_page_text(const std::string& title, const repro::ExperimentResult& result) {
  std::string page = fmt::format(
      "<!doctype html><meta charset='utf-8'><title>{0}</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:.2em .8em;text-align:right;"
      "white-space:nowrap}}</style>\n<h1>{0}</h1>\n",
      report::html_text(title));
  for (const std::string& note : result.notes) {
    page += fmt::format("<p>{}</p>\n", report::html_text(note));
  }
  for (const repro::FigurePlot& plot : result.plots) {
    std::vector<report::ChartLine> lines;
    for (const repro::PlotLine& line : plot.lines) lines.push_back({line.name, line.points});
    page += fmt::format("<h2>{}</h2>\n{}", report::html_text(plot.title),
                        report::line_chart_svg(plot.across, plot.up, lines));
  }
  for (const FigureTable& table : result.figure_tables) page += table_html(table);
  return page;
}

Status make_figures_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && access(folder.c_str(), W_OK | X_OK) != 0) {
    error.assign(errno, std::generic_category());
  }
  if (!error) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("--output '{}': no files can be made there ({}); name a folder that can be "
                  "written to",
                  folder, error.message())};
}

Status write_figures(const std::string& folder, const std::string& name, const std::string& title,
                     const repro::ExperimentResult& result) {
  TESSERA_RETURN_IF_ERROR(make_figures_folder(folder));
  const std::filesystem::path in(folder);
  for (const FigureTable& table : result.figure_tables) {
    TESSERA_RETURN_IF_ERROR(
        write_text_file((in / (table.name + ".csv")).string(), csv_text(table)));
  }
  for (const auto& [file, text] : result.documents) {
    TESSERA_RETURN_IF_ERROR(write_text_file((in / file).string(), text));
  }
  return write_text_file((in / (name + ".html")).string(), figures_page_text(title, result));
}

}  // namespace tessera::tools

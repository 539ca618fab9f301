// What an experiment gives: tables of figures side by side, summaries, notes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "repro/timing_table.h"

namespace tessera::repro {

// Nothing, a name, a count or a figure.
using FigureCell = std::variant<std::monostate, std::string, std::int64_t, double>;

// Rows of named cells; in JSON an object a row.
struct FigureTable {
  std::string name;                  // "by_device"
  std::vector<std::string> columns;  // the first names the row
  std::vector<std::vector<FigureCell>> rows = {};
  bool in_text = true;           // otherwise in JSON alone
  std::size_t text_columns = 0;  // in the text: the first so many; 0: all
};

// Points from left to right, joined by lines; both axes are logarithmic, and all values above 0.
struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
struct FigurePlot {
  std::string title, across, up;  // what the axes say, with the unit
  std::vector<PlotLine> lines;
};

struct ExperimentResult {
  std::vector<TimingTable> tables = {};
  std::vector<std::pair<std::string, FigureCell>> figures = {};  // of the whole experiment
  std::vector<FigureTable> figure_tables = {};
  std::vector<FigurePlot> plots = {};
  std::vector<std::pair<std::string, std::string>> documents = {};  // files to write: name, text
  std::vector<std::string> notes = {};                              // what was left out, and why
};

}  // namespace tessera::repro

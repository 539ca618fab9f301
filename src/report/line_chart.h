// A chart of lines as SVG, for pages that stand alone.
//
//   up  │    *── name        both axes are logarithmic, so that a factor is as long everywhere
//       │ *
//       └────────── across
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tessera::report {

struct ChartLine {
  std::string name;                               // any bytes
  std::vector<std::pair<double, double>> points;  // across and up, above 0; others are left out
};

// Lines have colours in their order, and a legend. Empty where there is no point.
std::string line_chart_svg(const std::string& across, const std::string& up,
                           const std::vector<ChartLine>& lines);

}  // namespace tessera::report

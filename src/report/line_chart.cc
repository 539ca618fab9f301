#include "report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "report/html_text.h"

namespace tessera::report {
namespace {

constexpr double kChartLeft = 80, kChartTop = 20, kChartWidth = 560, kChartHeight = 320,
                 kLegendWidth = 250;
constexpr std::array<const char*, 6> kColours = {"#2457a6", "#b8461b", "#3a7d2c",
                                                 "#7b3aa6", "#a68324", "#3a8fa6"};

// What lies between the least and the most value of an axis, with a place for each.
class LogAxis {
 public:
  void add(double value) {
    least_ = std::min(least_, value);
    most_ = std::max(most_, value);
  }
  // From 0 to 1.
  double place(double value) const {
    return most_ > least_ ? std::log(value / least_) / std::log(most_ / least_) : 0.5;
  }
  // 1, 2 and 5 times powers of ten.
  std::vector<double> ticks() const {
    std::vector<double> found;
    for (double power = std::pow(10, std::floor(std::log10(least_))); power <= most_; power *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * power;
        if (value >= least_ * (1 - 1e-9) && value <= most_ * (1 + 1e-9)) found.push_back(value);
      }
    }
    if (found.empty()) found = {least_};
    return found;
  }

 private:
  double least_ = std::numeric_limits<double>::infinity(), most_ = 0;
};

bool has_place(const std::pair<double, double>& point) {
  return point.first > 0 && point.second > 0 && std::isfinite(point.first) &&
         std::isfinite(point.second);
}

struct Chart {
  LogAxis across, up;
  double x(double value) const { return kChartLeft + kChartWidth * across.place(value); }
  double y(double value) const { return kChartTop + kChartHeight * (1 - up.place(value)); }
};

std::string ticks_text(const Chart& chart) {
  std::string text;
  for (const double value : chart.across.ticks()) {
    text +=
        fmt::format("<text x='{:.1f}' y='{}' font-size='10' text-anchor='middle'>{:.6g}</text>\n",
                    chart.x(value), kChartTop + kChartHeight + 16, value);
  }
  for (const double value : chart.up.ticks()) {
    text += fmt::format(
        "<path d='M{} {:.1f}H{}' stroke='#ddd'/><text x='{}' y='{:.1f}' font-size='10' "
        "text-anchor='end'>{:.6g}</text>\n",
        kChartLeft, chart.y(value), kChartLeft + kChartWidth, kChartLeft - 6, chart.y(value) + 3,
        value);
  }
  return text;
}

std::string line_text(const Chart& chart, const ChartLine& line, std::size_t number) {
  const char* const colour = kColours[number % kColours.size()];
  std::string points, marks;
  for (const auto& point : line.points) {
    if (!has_place(point)) continue;
    points += fmt::format("{:.1f},{:.1f} ", chart.x(point.first), chart.y(point.second));
    marks += fmt::format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'/>", chart.x(point.first),
                         chart.y(point.second), colour);
  }
  const double top = kChartTop + 14 + 18 * static_cast<double>(number);
  return fmt::format(
      "<polyline fill='none' stroke='{0}' points='{1}'/>{2}\n"
      "<text x='{3}' y='{4}' font-size='11' fill='{0}'>{5}</text>\n",
      colour, points, marks, kChartLeft + kChartWidth + 14, top, html_text(line.name));
}

}  // namespace

std::string line_chart_svg(const std::string& across, const std::string& up,
                           const std::vector<ChartLine>& lines) {
  Chart chart;
  bool any = false;
  for (const ChartLine& line : lines) {
    for (const auto& point : line.points) {
      if (!has_place(point)) continue;
      chart.across.add(point.first);
      chart.up.add(point.second);
      any = true;
    }
  }
  if (!any) return {};
  std::string text = fmt::format(
      "<svg viewBox='0 0 {0} {1}' width='{0}' height='{1}' role='img'>\n"
      "<path d='M{2} {3}V{4}H{5}' fill='none' stroke='#888'/>\n",
      kChartLeft + kChartWidth + kLegendWidth, kChartTop + kChartHeight + 50, kChartLeft, kChartTop,
      kChartTop + kChartHeight, kChartLeft + kChartWidth);
  text += ticks_text(chart);
  for (std::size_t i = 0; i < lines.size(); ++i) text += line_text(chart, lines[i], i);
  return text + fmt::format(
                    "<text x='{}' y='{}' font-size='11'>{}</text>"
                    "<text x='{}' y='{}' font-size='11' text-anchor='end'>{}</text>\n</svg>\n",
                    kChartLeft + 6, kChartTop + 4, html_text(up), kChartLeft + kChartWidth,
                    kChartTop + kChartHeight + 36, html_text(across));
}

}  // namespace tessera::report

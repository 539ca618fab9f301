// The page of a format study: a plot of the error over the operands' bytes, as SVG, and the table.
#include "report/format_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "package/container.h"
#include "report/html_text.h"
#include "report/label_places.h"
#include "tessera/file.h"

namespace tessera::report {
namespace {

constexpr double kPlotLeft = 70, kPlotTop = 20, kPlotWidth = 720, kPlotHeight = 380;
constexpr double kLabelMargin = 90;       // right of the plot
constexpr double kLetterWidth = 6.2;      // of the labels, at most on average
constexpr double kSmallestError = 1e-12;  // 1 - cosine below this is drawn here

std::int64_t bytes_of(const FormatRow& row) { return row.weight_bytes + row.activation_bytes; }

double error_of(const FormatRow& row) { return std::max(1 - row.accuracy.cosine, kSmallestError); }

const char* colour_of(const std::string& format) {
  if (format.starts_with("bfp")) return "#2457a6";
  if (format.starts_with("mx")) return "#b8461b";
  return "#3a7d2c";
}

// Places of the rows in the picture: bytes to the right, error upwards by powers of ten.
class FormatPlot {
 public:
  explicit FormatPlot(const FormatStudy& study) {
    for (const FormatRow& row : study.rows) {
      // What equals float32 in everything has no place on a scale of powers of ten, nor have
      // results that are no numbers.
      const bool has_place = row.accuracy.cosine >= -1 && row.accuracy.cosine < 1;
      if (!row.error.empty() || !has_place) continue;
      rows_.push_back(&row);
      most_bytes_ = std::max(most_bytes_, bytes_of(row));
      const int power = static_cast<int>(std::floor(std::log10(error_of(row))));
      lowest_ = std::min(lowest_, power);
      highest_ = std::max(highest_, power + 1);
    }
  }

  std::string svg() const {
    if (rows_.empty()) return {};
    std::string text = fmt::format(
        "<svg viewBox='0 0 {0} {1}' width='{0}' height='{1}' role='img'>\n"
        "<path d='M{2} {3}V{4}H{5}' fill='none' stroke='#888'/>\n",
        kPlotLeft + kPlotWidth + kLabelMargin, kPlotTop + kPlotHeight + 50, kPlotLeft, kPlotTop,
        kPlotTop + kPlotHeight, kPlotLeft + kPlotWidth);
    for (int power = lowest_; power <= highest_; ++power) {
      text += fmt::format(
          "<path d='M{0} {1:.1f}H{2}' stroke='#ddd'/><text x='{3}' y='{4:.1f}' font-size='10' "
          "text-anchor='end'>1e{5}</text>\n",
          kPlotLeft, y_of(power), kPlotLeft + kPlotWidth, kPlotLeft - 6, y_of(power) + 3, power);
    }
    for (int part = 0; part <= 4; ++part) {
      const double share = part / 4.0;
      text +=
          fmt::format("<text x='{:.1f}' y='{}' font-size='10' text-anchor='middle'>{:.0f}</text>\n",
                      kPlotLeft + share * kPlotWidth, kPlotTop + kPlotHeight + 16,
                      share * static_cast<double>(most_bytes_));
    }
    text += fmt::format(
        "<text x='{}' y='{}' font-size='11'>1 - cosine to float32</text>"
        "<text x='{}' y='{}' font-size='11' text-anchor='end'>bytes of the products' operands"
        "</text>\n",
        kPlotLeft + 8, kPlotTop + 12, kPlotLeft + kPlotWidth, kPlotTop + kPlotHeight + 34);
    return text + points() + "</svg>\n";
  }

 private:
  double y_of(double power) const {
    return kPlotTop + kPlotHeight * (highest_ - power) / std::max(1, highest_ - lowest_);
  }
  double x_of(const FormatRow& row) const {
    return kPlotLeft + kPlotWidth * static_cast<double>(bytes_of(row)) /
                           static_cast<double>(std::max<std::int64_t>(1, most_bytes_));
  }

  // Every row's point, and its name where it covers no other (a line leads there from the point
  // where it is not beside it).
  std::string points() const {
    std::vector<LabelledPoint> places;
    for (const FormatRow* row : rows_) {
      places.push_back({.x = x_of(*row),
                        .y = y_of(std::log10(error_of(*row))),
                        .width = kLetterWidth * static_cast<double>(row->format.size())});
    }
    const std::vector<LabelBox> labels = place_labels(places, kPlotTop + kPlotHeight);
    std::string text;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const LabelBox& label = labels[i];
      const char* const colour = colour_of(rows_[i]->format);
      if (label.apart) {
        const bool right = label.left > places[i].x;
        text +=
            fmt::format("<path d='M{:.1f} {:.1f}L{:.1f} {:.1f}' stroke='{}' stroke-width='.5'/>",
                        places[i].x, places[i].y, right ? label.left : label.left + label.width,
                        label.top + label.height / 2, colour);
      }
      text += fmt::format(
          "<circle cx='{0:.1f}' cy='{1:.1f}' r='{6}' fill='{2}'/><text x='{3:.1f}' y='{4:.1f}' "
          "font-size='10' fill='{2}'>{5}</text>\n",
          places[i].x, places[i].y, colour, label.left, label.top + kLabelHeight - 2.5,
          html_text(rows_[i]->format), kPointRadius);
    }
    return text;
  }

  std::vector<const FormatRow*> rows_;  // that ran
  std::int64_t most_bytes_ = 0;
  int lowest_ = 0, highest_ = -12;
};

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

std::string table_row(const FormatRow& row) {
  if (!row.error.empty()) {
    return fmt::format("<tr><td class='name'>{}<td colspan='8'>{}</tr>\n", html_text(row.format),
                       html_text(row.error));
  }
  const Accuracy& a = row.accuracy;
  return fmt::format(
      "<tr><td class='name'>{}<td>{:.9f}<td>{:.3g}<td>{:.3g}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n",
      html_text(row.format), a.cosine, a.max_error, a.largest, share_text(a.top1),
      share_text(a.texts), row.weight_bytes, row.activation_bytes,
      row.cycles ? std::to_string(*row.cycles) : html_text(row.cycles_error));
}

}  // namespace

std::string format_page_text(const std::string& title, const FormatStudy& study) {
  std::string page = fmt::format(
      "<!doctype html><meta charset='utf-8'><title>{0}: number formats</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:.2em .8em;"
      "text-align:right;white-space:nowrap}}.name{{text-align:left}}</style>\n<h1>{0}: number "
      "formats</h1>\n"
      "<p>Outputs of {1} input(s) against float32. Cosine: of the output that has the smallest. "
      "Top-1: rows of the first output with the same best class. Texts: the same after "
      "repetitions and class 0 are left out. Bytes: what the operands of products take in the "
      "format; the processor keeps them in its vector format and quantises at the array's "
      "inputs. Cycles: of the compiled program.</p>\n{2}<table>\n"
      "<tr><th class='name'>format<th>cosine<th>largest error<th>of at most<th>top-1<th>texts"
      "<th>weights, bytes<th>activations, bytes<th>cycles</tr>\n",
      html_text(title), study.cases, FormatPlot(study).svg());
  for (const FormatRow& row : study.rows) page += table_row(row);
  return page + "</table>\n";
}

Status write_format_page(const std::string& path, const std::string& title,
                         const FormatStudy& study) {
  const std::string page = format_page_text(title, study);
  return write_text_file(path, page);
}

}  // namespace tessera::report

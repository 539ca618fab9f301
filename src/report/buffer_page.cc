// The page of a buffer curve: two lines over the buffer's size on a logarithmic scale, as SVG.
#include "report/buffer_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "package/container.h"
#include "report/html_text.h"
#include "tessera/file.h"

namespace tessera::report {
namespace {

constexpr double kLeft = 70, kTop = 20, kWidth = 640, kHeight = 300;

// Places of the points in the picture.
class Plot {
 public:
  explicit Plot(const BufferCurve& curve) {
    for (const BufferPoint& point : curve.points) {
      if (point.error.empty()) points_.push_back(point);
    }
    for (const BufferPoint& point : points_) {
      most_cycles_ = std::max(most_cycles_, point.cycles);
      most_bytes_ = std::max(most_bytes_, point.dram_bytes);
    }
  }

  std::string svg(std::int64_t smallest) const {
    if (points_.empty()) return {};
    std::string text = fmt::format(
        "<svg viewBox='0 0 {0} {1}' width='{0}' height='{1}' role='img'>\n"
        "<path d='M{2} {3}V{4}H{5}' fill='none' stroke='#888'/>\n",
        kLeft + kWidth + 20, kTop + kHeight + 50, kLeft, kTop, kTop + kHeight, kLeft + kWidth);
    for (const BufferPoint& point : points_) {
      text += fmt::format(
          "<text x='{:.1f}' y='{:.1f}' font-size='10' text-anchor='end' "
          "transform='rotate(-35 {:.1f} {:.1f})'>{}</text>\n",
          x_of(point.bytes), kTop + kHeight + 14, x_of(point.bytes), kTop + kHeight + 14,
          point.bytes);
    }
    text += line("#2457a6", [&](const BufferPoint& p) { return share(p.cycles, most_cycles_); });
    text += line("#b8461b", [&](const BufferPoint& p) { return share(p.dram_bytes, most_bytes_); });
    if (smallest >= points_.back().bytes && smallest <= points_.front().bytes) {
      text += fmt::format(
          "<path d='M{0:.1f} {1}V{2}' stroke='#3a7d2c' stroke-dasharray='4 3'/>\n"
          "<text x='{0:.1f}' y='{3}' font-size='11'>smallest without spilling</text>\n",
          x_of(smallest), kTop, kTop + kHeight, kTop + 10);
    }
    return text + fmt::format(
                      "<text x='{0}' y='{1}' font-size='11' fill='#2457a6'>cycles, at most {2}"
                      "</text><text x='{0}' y='{3}' font-size='11' fill='#b8461b'>DRAM bytes, at "
                      "most {4}</text>\n</svg>\n",
                      kLeft + kWidth - 240, kTop + 30, most_cycles_, kTop + 46, most_bytes_);
  }

 private:
  static double share(std::int64_t value, std::int64_t most) {
    return most > 0 ? static_cast<double>(value) / static_cast<double>(most) : 0;
  }
  double x_of(std::int64_t bytes) const {
    const double low = std::log(static_cast<double>(points_.back().bytes));
    const double high = std::log(static_cast<double>(points_.front().bytes));
    const double at = high > low ? (std::log(static_cast<double>(bytes)) - low) / (high - low) : 0;
    return kLeft + at * kWidth;
  }

  template <typename Share>
  std::string line(const char* colour, Share&& share_of) const {
    std::string text = fmt::format("<polyline fill='none' stroke='{}' points='", colour);
    for (const BufferPoint& point : points_) {
      text +=
          fmt::format("{:.1f},{:.1f} ", x_of(point.bytes), kTop + kHeight * (1 - share_of(point)));
    }
    return text + "'/>\n";
  }

  std::vector<BufferPoint> points_;  // that compile, descending sizes
  std::int64_t most_cycles_ = 0, most_bytes_ = 0;
};

}  // namespace

std::string buffer_page_text(const std::string& title, const BufferCurve& curve) {
  std::string page = fmt::format(
      "<!doctype html><meta charset='utf-8'><title>{0}: state buffer</title>\n"
      "<style>body{{font-family:sans-serif;margin:2em}}td,th{{padding:.2em .8em;"
      "text-align:right}}</style>\n<h1>{0}: state buffer</h1>\n"
      "<p>Smallest buffer without spilling: {1} bytes a partition.</p>\n{2}<table>\n"
      "<tr><th>bytes a partition<th>cycles<th>DRAM bytes<th>tensors spilled<th>their bytes</tr>\n",
      html_text(title), curve.smallest, Plot(curve).svg(curve.smallest));
  for (const BufferPoint& point : curve.points) {
    if (point.error.empty()) {
      page += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", point.bytes, point.cycles,
                          point.dram_bytes, point.spilled, point.spilled_bytes);
    } else {
      page +=
          fmt::format("<tr><td>{}<td colspan='4'>{}</tr>\n", point.bytes, html_text(point.error));
    }
  }
  return page + "</table>\n";
}

Status write_buffer_page(const std::string& path, const std::string& title,
                         const BufferCurve& curve) {
  const std::string page = buffer_page_text(title, curve);
  return write_text_file(path, page);
}

}  // namespace tessera::report

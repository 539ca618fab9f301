#include "annotate.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace ocr {
namespace {

void draw_line(tessera::Picture& picture, Point a, Point b) {
  const int steps = static_cast<int>(std::max(std::abs(b.x - a.x), std::abs(b.y - a.y))) + 1;
  for (int i = 0; i <= steps; ++i) {
    const double t = static_cast<double>(i) / steps;
    const auto x = std::lround(a.x + (b.x - a.x) * t), y = std::lround(a.y + (b.y - a.y) * t);
    for (std::int64_t py = y - 1; py <= y; ++py) {
      for (std::int64_t px = x - 1; px <= x; ++px) {
        if (px < 0 || py < 0 || px >= picture.width || py >= picture.height) continue;
        std::uint8_t* const pixel = picture.pixel(px, py);
        pixel[0] = 220, pixel[1] = 40, pixel[2] = 30;
      }
    }
  }
}

// Digits of 3 x 5 dots, one bit per dot, rows from the top.
void draw_number(tessera::Picture& picture, std::int64_t x, std::int64_t y, std::size_t number) {
  static constexpr unsigned kDigits[] = {0x7B6F, 0x2C97, 0x73E7, 0x73CF, 0x5BC9,
                                         0x79CF, 0x79EF, 0x7249, 0x7BEF, 0x7BCF};
  constexpr std::int64_t kDot = 2;
  for (const char digit : std::to_string(number)) {
    const unsigned bits = kDigits[digit - '0'];
    for (std::int64_t dot = 0; dot < 15; ++dot) {
      if ((bits >> (14 - dot) & 1) == 0) continue;
      for (std::int64_t i = 0; i < kDot * kDot; ++i) {
        const std::int64_t px = x + dot % 3 * kDot + i % kDot, py = y + dot / 3 * kDot + i / kDot;
        if (px < 0 || py < 0 || px >= picture.width || py >= picture.height) continue;
        std::uint8_t* const pixel = picture.pixel(px, py);
        pixel[0] = 20, pixel[1] = 70, pixel[2] = 220;
      }
    }
    x += 4 * kDot;
  }
}

}  // namespace

tessera::Picture annotate(const tessera::Picture& picture, const std::vector<Line>& lines) {
  tessera::Picture result = picture;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Box& box = lines[i].box;
    for (std::size_t side = 0; side < 4; ++side) {
      draw_line(result, box[side], box[(side + 1) % 4]);
    }
    draw_number(result, std::lround(box[0].x), std::lround(box[0].y) - 13, i + 1);
  }
  return result;
}

}  // namespace ocr

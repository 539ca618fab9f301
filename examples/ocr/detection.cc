#include "detection.h"

#include <algorithm>
#include <cmath>

namespace ocr {
namespace {

constexpr double kSideMin = 3;  // pixels of the map; smaller regions are noise

std::int64_t multiple_of_32(double side) {
  return std::max<std::int64_t>(32, std::lround(side / 32) * 32);
}

// Pixels of one 8-connected region of text, row by row the first and last column only: enough for
// the hull.
std::vector<Point> region_outline(std::vector<char>& mask, std::int64_t width, std::int64_t height,
                                  std::int64_t seed) {
  std::vector<std::int64_t> stack{seed};
  mask[static_cast<std::size_t>(seed)] = 0;
  std::vector<Point> points;
  while (!stack.empty()) {
    const std::int64_t at = stack.back();
    stack.pop_back();
    const std::int64_t x = at % width, y = at / width;
    points.push_back({static_cast<double>(x), static_cast<double>(y)});
    for (std::int64_t ny = std::max<std::int64_t>(0, y - 1); ny <= std::min(height - 1, y + 1);
         ++ny) {
      for (std::int64_t nx = std::max<std::int64_t>(0, x - 1); nx <= std::min(width - 1, x + 1);
           ++nx) {
        char& next = mask[static_cast<std::size_t>(ny * width + nx)];
        if (next == 0) continue;
        next = 0;
        stack.push_back(ny * width + nx);
      }
    }
  }
  return points;
}

// Mean probability inside a convex box (corners in order).
double mean_inside(const float* map, std::int64_t width, std::int64_t height, const Box& box) {
  const auto [left, right] = std::minmax({box[0].x, box[1].x, box[2].x, box[3].x});
  const auto [top, bottom] = std::minmax({box[0].y, box[1].y, box[2].y, box[3].y});
  double sum = 0;
  std::int64_t count = 0;
  for (auto y = std::max<std::int64_t>(0, std::lround(std::floor(top)));
       y <= std::min(height - 1, static_cast<std::int64_t>(std::lround(std::ceil(bottom)))); ++y) {
    for (auto x = std::max<std::int64_t>(0, std::lround(std::floor(left)));
         x <= std::min(width - 1, static_cast<std::int64_t>(std::lround(std::ceil(right)))); ++x) {
      bool inside = true;
      for (std::size_t i = 0; i < 4; ++i) {
        const Point& a = box[i];
        const Point& b = box[(i + 1) % 4];
        const double side = (b.x - a.x) * (static_cast<double>(y) - a.y) -
                            (b.y - a.y) * (static_cast<double>(x) - a.x);
        if (side < -1e-6) inside = false;
      }
      if (!inside) continue;
      sum += map[y * width + x];
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace

DetectionView own_view(const tessera::Picture& picture, const DetectionOptions& options) {
  const double longest = static_cast<double>(std::max(picture.width, picture.height));
  const double scale = std::min(1.0, static_cast<double>(options.side_max) / longest);
  const std::int64_t width = multiple_of_32(static_cast<double>(picture.width) * scale);
  const std::int64_t height = multiple_of_32(static_cast<double>(picture.height) * scale);
  return {width, height, width, height};
}

DetectionView view_within(const tessera::Picture& picture, std::int64_t width,
                          std::int64_t height) {
  const double scale =
      std::min({1.0, static_cast<double>(width) / static_cast<double>(picture.width),
                static_cast<double>(height) / static_cast<double>(picture.height)});
  const auto scaled = [scale](std::int64_t side, std::int64_t side_max) {
    return std::clamp<std::int64_t>(std::lround(static_cast<double>(side) * scale), 1, side_max);
  };
  return {width, height, scaled(picture.width, width), scaled(picture.height, height)};
}

tessera::Tensor detection_input(const tessera::Picture& picture, const DetectionView& view) {
  const tessera::Picture scaled = tessera::resize(picture, view.used_width, view.used_height);
  static constexpr float kMean[] = {0.485f, 0.456f, 0.406f};
  static constexpr float kDeviation[] = {0.229f, 0.224f, 0.225f};
  tessera::Tensor tensor =
      tessera::Tensor::zeros(tessera::Format::kF32, {1, 3, view.height, view.width});
  float* const values = tensor.as<float>().data();
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t y = 0; y < view.used_height; ++y) {
      float* const row = values + (c * view.height + y) * view.width;
      for (std::int64_t x = 0; x < view.used_width; ++x) {
        const float level = static_cast<float>(scaled.pixel(x, y)[2 - c]);
        row[x] = (level / 255.0f - kMean[c]) / kDeviation[c];
      }
    }
  }
  return tensor;
}

std::vector<Box> boxes_from_map(const tessera::Tensor& map, const DetectionView& view,
                                PictureSize size, const DetectionOptions& options) {
  const std::int64_t height = map.dims[2], width = map.dims[3];
  const float* const probability = map.as<float>().data();
  std::vector<char> mask(static_cast<std::size_t>(width * height));
  for (std::size_t i = 0; i < mask.size(); ++i) {
    mask[i] = static_cast<double>(probability[i]) > options.pixel_threshold ? 1 : 0;
  }
  const double scale_x = static_cast<double>(size.width) / static_cast<double>(view.used_width);
  const double scale_y = static_cast<double>(size.height) / static_cast<double>(view.used_height);
  std::vector<Box> boxes;
  for (std::int64_t seed = 0; seed < width * height; ++seed) {
    if (mask[static_cast<std::size_t>(seed)] == 0) continue;
    const std::vector<Point> hull = convex_hull(region_outline(mask, width, height, seed));
    if (hull.size() < 3) continue;
    const RotatedRectangle tight = smallest_rectangle(hull);
    if (std::min(tight.width, tight.height) < kSideMin) continue;
    if (mean_inside(probability, width, height, tight.corners()) < options.box_threshold) continue;
    const double margin =
        tight.width * tight.height * options.grow_ratio / (2 * (tight.width + tight.height));
    Box box = reading_order(tight.grown(margin).corners());
    for (Point& corner : box) {
      corner.x = std::clamp(corner.x * scale_x, 0.0, static_cast<double>(size.width));
      corner.y = std::clamp(corner.y * scale_y, 0.0, static_cast<double>(size.height));
    }
    boxes.push_back(box);
  }
  return boxes;
}

}  // namespace ocr

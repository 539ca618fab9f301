#include "schedule/performance.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tessera::schedule {
namespace {

constexpr std::size_t kPointsMax = 4096;

Error out_of_range(const std::string& what, std::int64_t found, std::int64_t least,
                   std::int64_t most) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} is {}, allowed {} to {}", what, found, least, most)};
}

bool in_range(const OperatingPoint& point, const Bounds& bounds, int cores_most) {
  return point.cores >= bounds.cores_min && point.cores <= std::min(bounds.cores_max, cores_most);
}

bool holds(const OperatingPoint& point, const Bounds& bounds) {
  return point.latency_picoseconds <= bounds.latency_picoseconds_max &&
         point.milli_images_per_second >= bounds.milli_images_per_second_min;
}

// Whether `a` comes before `b` in the answer, and is the better of two with as many cores.
bool before(const OperatingPoint& a, const OperatingPoint& b) {
  return std::tuple(a.cores, -a.milli_images_per_second, a.latency_picoseconds, a.images_at_once) <
         std::tuple(b.cores, -b.milli_images_per_second, b.latency_picoseconds, b.images_at_once);
}

}  // namespace

Status check_performance(const Performance& performance) {
  const auto& points = performance.points;
  if (points.empty() || points.size() > kPointsMax) {
    return out_of_range("the number of points of the performance table",
                        static_cast<std::int64_t>(points.size()), 1, kPointsMax);
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    const OperatingPoint& p = points[i];
    const auto name = [&](const char* field) { return fmt::format("points[{}].{}", i, field); };
    if (p.cores < 1 || p.cores > kCardCoresMax) {
      return out_of_range(name("cores"), p.cores, 1, kCardCoresMax);
    }
    if (p.images_at_once < 1 || p.images_at_once > p.cores) {
      return out_of_range(name("images_at_once"), p.images_at_once, 1, p.cores);
    }
    if (p.latency_picoseconds < 1) {
      return out_of_range(name("latency_picoseconds"), p.latency_picoseconds, 1, INT64_MAX);
    }
    if (p.milli_images_per_second < 1 || p.milli_images_per_second > kMilliImagesMax) {
      return out_of_range(name("milli_images_per_second"), p.milli_images_per_second, 1,
                          kMilliImagesMax);
    }
  }
  return {};
}

Status check_bounds(const Bounds& b) {
  if (b.latency_picoseconds_max < 1) {
    return out_of_range("latency_picoseconds_max", b.latency_picoseconds_max, 1, INT64_MAX);
  }
  if (b.milli_images_per_second_min < 0 || b.milli_images_per_second_min > kMilliImagesMax) {
    return out_of_range("milli_images_per_second_min", b.milli_images_per_second_min, 0,
                        kMilliImagesMax);
  }
  if (b.cores_max < 1 || b.cores_max > kCardCoresMax) {
    return out_of_range("cores_max", b.cores_max, 1, kCardCoresMax);
  }
  if (b.cores_min < 1 || b.cores_min > b.cores_max) {
    return out_of_range("cores_min", b.cores_min, 1, b.cores_max);
  }
  return {};
}

std::vector<OperatingPoint> points_that_hold(const Performance& performance, const Bounds& bounds,
                                             int cores_most) {
  std::vector<OperatingPoint> points;
  for (const OperatingPoint& point : performance.points) {
    if (in_range(point, bounds, cores_most) && holds(point, bounds)) points.push_back(point);
  }
  std::sort(points.begin(), points.end(), before);
  const auto same_cores = [](const auto& a, const auto& b) { return a.cores == b.cores; };
  points.erase(std::unique(points.begin(), points.end(), same_cores), points.end());
  return points;
}

std::string why_none_holds(const Performance& performance, const Bounds& bounds, int cores_most) {
  std::int64_t latency = INT64_MAX;
  std::int64_t images = 0;
  int found = 0;
  for (const OperatingPoint& point : performance.points) {
    if (!in_range(point, bounds, cores_most)) continue;
    ++found;
    latency = std::min(latency, point.latency_picoseconds);
    images = std::max(images, point.milli_images_per_second);
  }
  const int cores_max = std::min(bounds.cores_max, cores_most);
  if (bounds.cores_min > cores_max) {
    return fmt::format("it wants {} cores or more, the largest card has {}", bounds.cores_min,
                       cores_most);
  }
  const bool one = cores_max == 1;
  const std::string cores =
      one ? "1 core" : fmt::format("{} to {} cores", bounds.cores_min, cores_max);
  if (found == 0) return fmt::format("its performance table has no point of {}", cores);
  if (latency > bounds.latency_picoseconds_max) {
    return fmt::format("on {} an image takes {} ps at the least, its bound is {} ps", cores,
                       latency, bounds.latency_picoseconds_max);
  }
  if (images < bounds.milli_images_per_second_min) {
    return fmt::format("on {} it makes {} images in 1000 s at the most, its bound is {}", cores,
                       images, bounds.milli_images_per_second_min);
  }
  return fmt::format("no point of {} holds both its bounds, {} ps and {} images in 1000 s", cores,
                     bounds.latency_picoseconds_max, bounds.milli_images_per_second_min);
}

}  // namespace tessera::schedule

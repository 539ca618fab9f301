// What a tenant's package does on a number of cores, and what the tenant wants of it.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/card_config.h"
#include "base/result.h"

namespace tessera::schedule {

// One way to run the package: so many cores, cut into `images_at_once` teams of equal size with an
// image each.
struct OperatingPoint {
  std::int32_t cores = 1;                    // 1 to kCardCoresMax
  std::int32_t images_at_once = 1;           // 1 (all cores on one image) to `cores`
  std::int64_t latency_picoseconds = 1;      // of an image, from its input to its result; above 0
  std::int64_t milli_images_per_second = 1;  // images in 1000 seconds; 1 to kMilliImagesMax
  friend bool operator==(const OperatingPoint&, const OperatingPoint&) = default;
};
inline constexpr std::int64_t kMilliImagesMax = 1'000'000'000'000;

// A package's performance model: any number of points for a number of cores, in any order. A number
// of cores without a point is one that the package cannot be linked for.
struct Performance {
  std::vector<OperatingPoint> points;  // 1 to 4096
};

// What must hold while a tenant is admitted.
struct Bounds {
  std::int64_t latency_picoseconds_max = INT64_MAX;  // above 0
  std::int64_t milli_images_per_second_min = 0;      // 0: none
  std::int32_t cores_min = 1;                        // 1 to cores_max
  std::int32_t cores_max = kCardCoresMax;            // to kCardCoresMax
};

// An error names the field, what was found and what is allowed.
Status check_performance(const Performance& performance);
Status check_bounds(const Bounds& bounds);

// For each number of cores up to `cores_most` with points that hold the bounds, the one of them that
// gives most images (then the one of less latency, then of fewer images at once). Ascending by cores;
// empty where none holds.
std::vector<OperatingPoint> points_that_hold(const Performance& performance, const Bounds& bounds,
                                             int cores_most);

// Why points_that_hold() is empty, in words: the bound, and the nearest that the table has.
std::string why_none_holds(const Performance& performance, const Bounds& bounds, int cores_most);

}  // namespace tessera::schedule

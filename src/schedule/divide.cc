#include "schedule/divide.h"

#include <tuple>

#include "base/check.h"

namespace tessera::schedule {
namespace {

struct Score {
  std::int64_t throughput = -1;  // -1: not possible
  int changed = 0;
  int cores = 0;

  bool better_than(const Score& other) const {
    return std::tuple(-throughput, changed, cores) <
           std::tuple(-other.throughput, other.changed, other.cores);
  }
};

Score score(const Claim& claim, const OperatingPoint& point) {
  return {.throughput = claim.weight * point.milli_images_per_second,
          .changed = claim.cores_now != 0 && claim.cores_now != point.cores ? 1 : 0,
          .cores = point.cores};
}

Score sum(const Score& a, const Score& b) {
  return {a.throughput + b.throughput, a.changed + b.changed, a.cores + b.cores};
}

}  // namespace

std::vector<int> divide(std::span<const Claim> claims, int cores) {
  struct Cell {
    Score best;  // of this claim and those behind it, with this many cores
    int point = 0;
  };
  const int width = cores + 1;
  const int count = static_cast<int>(claims.size());
  std::vector<Cell> cells((count + 1) * width);
  for (int left = 0; left < width; ++left) cells[count * width + left].best.throughput = 0;
  for (int i = count - 1; i >= 0; --i) {
    // More cores are tried first, and only what is better takes their place.
    const auto& points = claims[i].points;
    for (int p = static_cast<int>(points.size()) - 1; p >= 0; --p) {
      const Score own = score(claims[i], points[p]);
      for (int left = points[p].cores; left < width; ++left) {
        const Score& behind = cells[(i + 1) * width + left - points[p].cores].best;
        if (behind.throughput < 0) continue;
        Cell& cell = cells[i * width + left];
        const Score both = sum(own, behind);
        if (both.better_than(cell.best)) cell = {.best = both, .point = p};
      }
    }
  }
  std::vector<int> chosen(count);
  int left = cores;
  TESSERA_CHECK(cells[left].best.throughput >= 0, "{} tenants do not fit on {} cores", count,
                cores);
  for (int i = 0; i < count; ++i) {
    chosen[i] = cells[i * width + left].point;
    left -= claims[i].points[chosen[i]].cores;
  }
  return chosen;
}

}  // namespace tessera::schedule

#include "graph/block_cut.h"

#include <algorithm>

#include "base/quantity.h"

namespace tessera::graph {
namespace {

constexpr std::int64_t kSideBySide = 8;    // different input pixels in a matrix, at most
constexpr std::int64_t kStackedRows = 32;  // that an input pixel takes, in whole
constexpr std::int64_t kPortValues = 8;    // of a channel in a cycle
constexpr std::int64_t kTurnsMax = 8, kBufferRegisters = 2;  // arch/array_fold.h

// What a matrix of N x N takes for `moving` vectors while the next one is brought, `loads` times a row
// at a time.
double matrix_cost(const SumShape& of, double moving, std::int64_t loads) {
  return std::max(moving, static_cast<double>(loads * of.native_dimension));
}

// Pixels of which what is left of a sum across taps lies side by side.
std::int64_t sides_across_taps(const SumShape& of) {
  const std::int64_t n = of.native_dimension;
  const std::int64_t rest = of.kernel_h * of.kernel_w * of.channels % n;
  if (rest == 0) return 1;
  const std::int64_t places = n / of.output_channels;
  return std::max<std::int64_t>(1, std::min({places, n / rest, kSideBySide}));
}

// Matrices across taps, which belong to one output pixel. What is left of the sum takes several side
// by side.
double across_taps_cost(const SumShape& of) {
  const std::int64_t n = of.native_dimension;
  const std::int64_t sum = of.kernel_h * of.kernel_w * of.channels;
  const auto pixels = static_cast<double>(of.pixels);
  const std::int64_t whole = sum / n;
  const double cost = static_cast<double>(whole) * matrix_cost(of, pixels, 1);
  if (sum % n == 0) return cost;
  return cost + matrix_cost(of, pixels / static_cast<double>(sides_across_taps(of)), 1);
}

// Matrices along channels, for `h` x `w` neighbouring output pixels, which share those of the input
// pixels that they read: `stacked` of these below each other.
double sharing_cost(const SumShape& of, std::int64_t h, std::int64_t w, std::int64_t stacked) {
  const std::int64_t read = (of.kernel_h + (h - 1) * std::min(of.stride_h, of.kernel_h)) *
                            (of.kernel_w + (w - 1) * std::min(of.stride_w, of.kernel_w));
  const std::int64_t matrices =
      ceil_div(of.channels, of.native_dimension) * ceil_div(read, stacked);
  const double moving = static_cast<double>(of.pixels) / static_cast<double>(h * w);
  // Kernel rows that are no wider together than a matrix are brought at once.
  const std::int64_t rows = std::min(h, of.kernel_h);
  const std::int64_t width =
      rows * of.kernel_w * of.output_channels * ceil_div(of.channels, of.native_dimension);
  const std::int64_t loads = std::min(rows, ceil_div(width, of.native_dimension));
  return static_cast<double>(matrices) * matrix_cost(of, moving, loads);
}

// Of all tiles of output pixels the one that takes least.
double least_sharing_cost(const SumShape& of) {
  const std::int64_t n = of.native_dimension;
  const std::int64_t places = n / of.output_channels;
  const std::int64_t rows = ceil_div(of.channels, kStackedRows) * kStackedRows;
  const std::int64_t sides = std::max<std::int64_t>(1, std::min(n / of.channels, kSideBySide));
  const std::int64_t stacked = std::clamp<std::int64_t>(n / rows, 1, kSideBySide);
  double least = sharing_cost(of, 1, 1, stacked);
  for (std::int64_t h = 1; h <= places; ++h) {
    for (std::int64_t w = 1; w <= places / h; ++w) {
      least = std::min(least, sharing_cost(of, h, w, stacked));
    }
    for (std::int64_t side = 2; side <= std::min(sides, places / h); ++side) {
      SumShape part = of;
      part.pixels = ceil_div(of.pixels, side);
      least = std::min(least, sharing_cost(part, h, places / side / h, 1));
    }
  }
  return least;
}

// Until the values of all pixels have come through the port of a channel's partition. Pixels below each
// other take turns, and what input rows they share comes once.
double port_cost(const SumShape& of) {
  const std::int64_t columns = std::min(of.kernel_w, of.stride_w);
  double least = static_cast<double>(of.kernel_h * columns);
  for (std::int64_t turns = 2; turns <= kTurnsMax; ++turns) {
    const std::int64_t rows = of.kernel_h + (turns - 1) * std::min(of.stride_h, of.kernel_h);
    if (rows * of.kernel_w * of.channels > kBufferRegisters * of.native_dimension) break;
    least = std::min(least, static_cast<double>(rows * columns) / static_cast<double>(turns));
  }
  return static_cast<double>(of.pixels) * least / static_cast<double>(kPortValues);
}

double block_cost(const SumShape& of, BlockCut cut) {
  if (cut == BlockCut::kIm2col) return std::max(across_taps_cost(of), port_cost(of));
  return least_sharing_cost(of);
}

}  // namespace

bool sharing_takes_less(const SumShape& of) {
  constexpr double kWorth = 0.8;
  return of.output_channels <= of.native_dimension &&
         least_sharing_cost(of) < kWorth * across_taps_cost(of);
}

double cut_cost(const SumShape& of, BlockCut cut) {
  SumShape block = of;
  double cost = 0;
  block.output_channels = of.native_dimension;
  const std::int64_t whole = of.output_channels / of.native_dimension;
  if (whole != 0) cost += static_cast<double>(whole) * block_cost(block, cut);
  block.output_channels = of.output_channels % of.native_dimension;
  return block.output_channels == 0 ? cost : cost + block_cost(block, cut);
}

}  // namespace tessera::graph

// The fit of the three averages of the profile `gemmini8`, and how well it foretells a row that it has
// not seen. The virtual core says what a layer takes and how that follows each average; near the
// profile's own the cycles are as good as linear in all three.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "arch/chip_config.h"

namespace tessera::repro {

inline constexpr std::size_t kAverages = 3;
// Cycles that a command and a tile of weights lose, in thousandths, and the latency of the memory in
// nanoseconds.
struct Averages : std::array<double, kAverages> {
  static Averages of(const ChipConfig& chip);
  // The chip with these, rounded.
  ChipConfig in(const ChipConfig& chip) const;
};

struct MeasuredLayer {
  double measured = 0;                     // cycles
  Averages at = {};                        // with these, the layer takes
  double cycles = 0;                       // so many on the virtual core,
  std::array<double, kAverages> slopes{};  // and so many more for each of an average
  double cycles_with(const Averages& averages) const;
};

// Least squares of the relative errors; with fewer samples than averages, those of the first.
Averages fit_averages(const std::vector<const MeasuredLayer*>& samples);

// The error of each sample with averages that were fitted to the others; empty for fewer than four
// samples.
std::vector<double> left_out_errors_percent(const std::vector<MeasuredLayer>& samples);

}  // namespace tessera::repro

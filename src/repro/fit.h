// The fit of the three averages of repro/tile_pipeline.h, and how well it foretells a row that it
// has not seen. The averages of the profile `gemmini8` come from fit_stalls() over all rows,
// rounded.
#pragma once

#include <vector>

#include "repro/tile_pipeline.h"

namespace tessera::repro {

struct MeasuredTiles {
  std::vector<PipelineTile> tiles;
  double cycles = 0;
};

// Least squares of the relative errors, on a grid that is refined.
PipelineStalls fit_stalls(const std::vector<const MeasuredTiles*>& samples);

// The error of each sample with averages that were fitted to the others; empty for fewer than four
// samples.
std::vector<double> left_out_errors_percent(const std::vector<MeasuredTiles>& samples);

}  // namespace tessera::repro

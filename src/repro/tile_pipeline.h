// A command-driven array with a scratchpad in two halves, tile after tile:
//
//   load     | tile 0 | tile 1 |   wait   | tile 2 ...     may begin when tile t - 2 is computed
//   compute  |  wait  | tile 0 .......... | tile 1 ...     begins behind the tile's first data
//   store                                 | last tile of a sum
//
// Loads and stores move whole bursts of the memory port; a tile is computed in the time that
// arch/cost.h gives. Three figures of the profile are averages that were fitted, see
// docs/timing.md.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/quantity.h"

namespace tessera::repro {

// A tile in what it costs, whatever the averages are.
struct PipelineTile {
  Cycles load = 0;
  double first_share = 1;  // of the load, before the first command may begin
  Cycles compute = 0;      // without stalls
  std::int64_t weight_tiles = 0, commands = 0;
  Cycles store = 0;
};

// Averages of the profile.
struct PipelineStalls {
  std::int64_t command_thousandths = 0;
  std::int64_t tile_thousandths = 0;
  Cycles latency = 0;
  static PipelineStalls of(const ChipConfig& chip);
};

Cycles pipeline_cycles(const std::vector<PipelineTile>& tiles, const PipelineStalls& stalls);

}  // namespace tessera::repro

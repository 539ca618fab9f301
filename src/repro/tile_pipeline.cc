#include "repro/tile_pipeline.h"

#include <algorithm>
#include <cmath>

#include "arch/dram_config.h"

namespace tessera::repro {

PipelineStalls PipelineStalls::of(const ChipConfig& chip) {
  return {.command_thousandths = chip.neural.command_stall_thousandths,
          .tile_thousandths = chip.neural.tile_stall_thousandths,
          .latency = dram_costs(chip).latency};
}

Cycles pipeline_cycles(const std::vector<PipelineTile>& tiles, const PipelineStalls& stalls) {
  Cycles loaded = 0;
  Cycles computed = 0;         // the tile before
  Cycles computed_before = 0;  // the tile before that one: its half of the scratchpad is free
  Cycles stored = 0;
  for (const PipelineTile& tile : tiles) {
    const Cycles load_begin = std::max(loaded, computed_before);
    loaded = load_begin + tile.load;
    const auto first =
        static_cast<Cycles>(std::ceil(static_cast<double>(tile.load) * tile.first_share));
    const Cycles begin = std::max(computed, load_begin + stalls.latency + first);
    const Cycles stalled = ceil_div(
        tile.weight_tiles * stalls.tile_thousandths + tile.commands * stalls.command_thousandths,
        1000);
    computed_before = computed;
    computed = std::max(begin + tile.compute + stalled, loaded + stalls.latency);
    if (tile.store != 0) stored = std::max(stored, computed) + tile.store;
  }
  return std::max(computed, stored) + stalls.latency;
}

}  // namespace tessera::repro

// What the layers of a card's program move, in bytes of data: out of memories and into them, over the
// ring and over the network. Headers of frames, requests without data and descriptors are left out.
//
//   a read of memory 1 by core 0     group 1 ─► group 2 ─► group 3 ─► group 0: three links
//   a share of cores 0, 4 and 8      one read; one transfer as far as the last of them
#pragma once

#include <cstdint>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "isa/card_program.h"

namespace tessera::isa {

struct LayerTraffic {
  std::int64_t read = 0, written = 0;  // of all memories
  std::int64_t merged = 0;             // that a share saved: asked for by its other cores
  std::int64_t ring = 0;               // of all links: what goes over two counts twice
  std::int64_t network = 0;            // sent
};

// By layer, of `layers`. The program's cores lie as in `placement`; the chip's features say what is
// merged, broadcast and forwarded.
std::vector<LayerTraffic> layer_traffic(const CardProgram& program, const CardPlacement& placement,
                                        const ChipConfig& chip, std::size_t layers);

}  // namespace tessera::isa

// What each core of a card does of each layer. Every storage has a place of its own in DRAM, so that
// no core writes over what another may still read.
//
//   layer ─► boxes, parts, copies ─► pieces of core 0, of core 1, ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "compile/pieces.h"
#include "compile/plan.h"
#include "compile/share_choice.h"

namespace tessera::compile {

// The work on a layer.
struct LayerWork {
  ShareWay way = ShareWay::kOneCore;
  std::string reason;                             // why one core has all of it; else empty
  std::vector<LayerBox> boxes;                    // of the first cores; none of a transposition
  std::vector<std::vector<Piece>> pieces;         // of each core, if all goes through DRAM
  std::vector<std::vector<std::int32_t>> copies;  // of each core: indices into the layer's copies
};

// Cuts the copies of the layers, and the parts of transpositions, so that each core can have some.
// The order of a layer's copies stays. Before share_layers().
void cut_movement(const StoragePlan& storages, int cores, Layers& layers);

// By layer. An error names the layer that does not fit.
Result<Table<LayerIndex, LayerWork>> share_layers(const PlanInputs& inputs,
                                                  const ShareChoice& choice);

// Gives each storage of the workspace a place of its own; returns the bytes of all. An error if the
// DRAM does not hold them.
Result<std::int64_t> place_apart(const PlanInputs& inputs, Addresses& addresses);

}  // namespace tessera::compile

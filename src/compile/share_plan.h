// What each core of a card does of each layer, and the plan of each core. Everything goes through
// DRAM: no tensor stays in a state buffer between two layers, and every storage has a place of its
// own, so that no core writes over what another may still read.
//
//   layer ─► boxes, parts, copies ─► pieces of core 0, of core 1, ... ─► a plan each
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"
#include "compile/share_choice.h"

namespace tessera::compile {

// The work on a layer.
struct LayerWork {
  ShareWay way = ShareWay::kOneCore;
  std::string reason;                             // why one core has all of it; else empty
  std::vector<std::vector<Piece>> pieces;         // of each core
  std::vector<std::vector<std::int32_t>> copies;  // of each core: indices into the layer's copies
};

// Cuts the copies of the layers, and the parts of transpositions, so that each core can have some.
// The order of a layer's copies stays. Before share_layers().
void cut_movement(const StoragePlan& storages, int cores, Layers& layers);

// By layer. An error names the layer that does not fit.
Result<Table<LayerIndex, LayerWork>> share_layers(const PlanInputs& inputs,
                                                  const ShareChoice& choice);

// The pieces that `core` has, with their blocks placed. No storage has a home of the plan's.
Result<Plan> plan_core(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work,
                       std::size_t core);

// Gives each storage of the workspace a place of its own; returns the bytes of all. An error if the
// DRAM does not hold them.
Result<std::int64_t> place_apart(const PlanInputs& inputs, Addresses& addresses);

}  // namespace tessera::compile

// A graph's nodes as layers.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "base/watch.h"
#include "compile/kernel_store.h"
#include "compile/layer.h"
#include "compile/share_choice.h"
#include "compile/storage.h"
#include "compile/weight_region.h"
#include "graph/graph.h"

namespace tessera::compile {

// Where kernel images come from, and where they go.
struct KernelPlaces {
  KernelStore& store;
  WeightRegion& region;
  bool compress = true;
  Watch* watch = nullptr;  // told of the layers; null: none
};

// One layer a node, in the graph's order. Kernels are in slices for these shares.
Result<Layers> build_layers(const graph::Graph& graph, const ChipConfig& chip,
                            const StoragePlan& plan, const KernelPlaces& kernels,
                            const ShareChoice& shares = {});

}  // namespace tessera::compile

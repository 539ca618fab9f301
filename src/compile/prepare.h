// What every compilation begins with, for one core or several: the graph as layers over storages
// that have addresses, and what goes into a package or a program as the graph has it.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/compile_options.h"
#include "compile/plan.h"
#include "compile/share_choice.h"
#include "graph/graph.h"
#include "isa/program.h"
#include "package/package.h"

namespace tessera::compile {

struct Prepared {
  StoragePlan storages;
  Layers layers;
  WeightRegion weights;
  Addresses addresses;  // workspace: not yet
  std::int64_t input_bytes = 0, output_bytes = 0;
  std::vector<package::TranspositionHint> transpositions;
};
// Tensors `apart`: compile/far_parts.h.
Result<Prepared> prepare(const graph::Graph& graph, const ChipConfig& chip,
                         const CompileOptions& options, const ShareChoice& shares = {},
                         const std::set<graph::TensorId>& apart = {});

// The chip with as much of its memories as the network may use.
Result<ChipConfig> bounded_chip(const ChipConfig& chip, const CompileOptions& options);

// By layer.
std::vector<isa::LayerHint> layer_hints(const graph::Graph& graph, const Layers& layers);
// Of the graph's inputs and outputs. `addresses` are those of all storages, from here on.
std::vector<isa::TensorSlot> input_slots(const graph::Graph& graph, const StoragePlan& storages,
                                         const Addresses& addresses);
std::vector<isa::TensorSlot> output_slots(const graph::Graph& graph, const StoragePlan& storages,
                                          const Addresses& addresses);
// One a host layer, in order.
std::vector<isa::HostStep> make_host_steps(const graph::Graph& graph, const Layers& layers,
                                           const StoragePlan& storages, const Addresses& addresses);

}  // namespace tessera::compile

// What each layer costs by the way in which it and the layers that it reads are cut: the time of its
// slowest core by the formulas of the engines, or of what it moves, whichever is longer.
//
//   | this layer \ the one before | rows                       | channels             |
//   | rows                        | edges, or nothing          | everything, forward  |
//   | channels                    | everything, to everyone    | the same, or nothing |
//
// A grid moves what it reads of other bands, and of other ranges.
// Nothing moves where a core reads what it made itself (compile/share_residency.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "compile/layer_timeline.h"
#include "compile/share_draft.h"
#include "compile/split_search.h"
#include "isa/performance_model.h"

namespace tessera::compile {

enum class Movement : std::uint8_t { kNothing, kEdges, kForward, kToEveryone };
const char* movement_name(Movement movement);  // "nothing", "edges", ...

// Of a layer, for one way of itself and of what it reads.
struct LayerCost {
  double compute = 0;  // cycles of the slowest core's engines
  double memory = 0;   // cycles of the channels for its kernels, and what it moves
  double ring = 0, bus = 0, network = 0;
  bool crosses = false;                    // results of other cores
  double exchange = 0;                     // cycles that it waits for these and nothing hides
  double cycles = 0;                       // all together
  Movement movement = Movement::kNothing;  // the furthest of its operands

  double links() const { return std::max({ring, bus, network}); }
  double moved() const { return std::max(memory, links()); }
};

struct ModelRun {
  double cycles = 0;
  Table<LayerIndex, LayerSpan> layers;
  // Of each core: how long its busiest engine, or what it moves, takes for its part of the layer, without
  // what it waits for. 0: it has none.
  Table<LayerIndex, std::vector<double>> shares;
};

class SplitModel {
 public:
  // Of a network cut each way everywhere, in the order of Split; without kGrid no layer has a grid.
  // `setting.choice` says on which cores, which are of `cards` cards.
  SplitModel(const graph::Graph& graph, const ShareSetting& setting, int cards,
             std::vector<ShareDraft> drafts);
  ~SplitModel();
  SplitModel(SplitModel&&) noexcept;

  // Variables are the graph's nodes, ways the values of Split; kGrid where a node's layer has a grid and
  // `grids` allows it.
  std::vector<CostFactor> factors(bool grids = true) const;
  // The same with grids, in parts, for the package.
  std::vector<isa::ModelledLayer> modelled() const;
  // Of each layer when the nodes are cut so.
  std::vector<LayerCost> costs(const std::vector<Split>& of_nodes) const;
  // The network then (compile/layer_timeline.h).
  ModelRun run(const std::vector<Split>& of_nodes) const;
  double estimate(const std::vector<Split>& of_nodes) const { return run(of_nodes).cycles; }

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace tessera::compile

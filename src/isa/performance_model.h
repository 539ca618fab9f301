// What a package says of the time that its layers take on several cores, for every way in which each of them
// can be cut: what the linker finds the shortest path in (compile/performance_model.h), for as much of the
// memories' bandwidth as its cores may count on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace tessera::isa {

// Cycles of a layer for one choice of ways.
struct ModelledCost {
  float compute = 0;   // of the slowest core's engines
  float memory = 0;    // of the memories at their whole bandwidth
  float links = 0;     // of ring, bus or network, whichever takes longest
  float exchange = 0;  // that it waits for what other cores made, and nothing hides
  friend bool operator==(const ModelledCost&, const ModelledCost&) = default;
};

// A layer, or what it takes of one operand where it has very many.
struct ModelledLayer {
  std::vector<std::int32_t> nodes;  // whose ways its cost depends on, each once
  std::vector<std::uint8_t> ways;   // of each: how many it has
  // One for each choice: the ways of nodes[0] side by side, then those of nodes[1], ...
  std::vector<ModelledCost> costs;
  friend bool operator==(const ModelledLayer&, const ModelledLayer&) = default;
};

struct ModelledCores {
  std::int32_t cores =
      1;  // that the program uses: fewer than it is for where they would wait too long
  // Of the network, from its inputs in memory to its outputs there, without host steps.
  double cycles = 0;
  bool load_before_arithmetic = false;  // compute and transfers one after the other
  std::vector<std::uint8_t> chosen;     // the way of each node of the graph
  std::vector<ModelledLayer> layers;
  friend bool operator==(const ModelledCores&, const ModelledCores&) = default;
};

// `bandwidth` is the part of the memories' that the cores may count on: above 0, up to 1.
double modelled_cycles(const ModelledCores& model, const ModelledCost& cost, double bandwidth);
// All layers of the program one after the other, as it is cut: what choices are compared by. The network takes
// less, since layers run beside each other.
double modelled_path(const ModelledCores& model, double bandwidth);
// The network at this part of the bandwidth: its time at the whole of it, in the proportion of the layers'.
double modelled_network(const ModelledCores& model, double bandwidth);

// What comes from a file is looked at before it is used: nodes that there are, as many costs as choices, no
// cost below 0. The error names the layer.
Status check_model(const ModelledCores& model);

}  // namespace tessera::isa

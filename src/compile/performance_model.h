// Which ways the performance model of a package (isa/performance_model.h) would take.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/split_search.h"
#include "isa/performance_model.h"

namespace tessera::compile {

// For cheapest_choice(); `bandwidth` as of isa::modelled_cycles().
std::vector<CostFactor> factors_of(const isa::ModelledCores& model, double bandwidth);

// The shortest path through the layers, and the way of each node on it. Those that no layer's cost depends on
// keep theirs.
struct ShortestPath {
  std::vector<std::uint8_t> ways;
  double cycles = 0;  // as isa::modelled_path()
};
ShortestPath shortest_path(const isa::ModelledCores& model, double bandwidth);

}  // namespace tessera::compile

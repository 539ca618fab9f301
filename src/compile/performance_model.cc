#include "compile/performance_model.h"

namespace tessera::compile {

std::vector<CostFactor> factors_of(const isa::ModelledCores& model, double bandwidth) {
  std::vector<CostFactor> factors;
  factors.reserve(model.layers.size());
  for (const isa::ModelledLayer& layer : model.layers) {
    CostFactor factor{layer.nodes, {}, layer.ways};
    factor.costs.reserve(layer.costs.size());
    for (const isa::ModelledCost& cost : layer.costs) {
      factor.costs.push_back(isa::modelled_cycles(model, cost, bandwidth));
    }
    factors.push_back(std::move(factor));
  }
  return factors;
}

ShortestPath shortest_path(const isa::ModelledCores& model, double bandwidth) {
  const std::vector<CostFactor> factors = factors_of(model, bandwidth);
  const CheapestChoice found =
      cheapest_choice(static_cast<std::int32_t>(model.chosen.size()), factors);
  ShortestPath path{model.chosen, found.cost};
  for (const CostFactor& factor : factors) {
    for (const std::int32_t node : factor.variables) {
      const auto at = static_cast<std::size_t>(node);
      path.ways[at] = found.ways[at];
    }
  }
  return path;
}

}  // namespace tessera::compile

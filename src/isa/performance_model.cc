#include "isa/performance_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tessera::isa {
namespace {

constexpr std::size_t kCostsMax = std::size_t{1} << 16;  // of a layer
constexpr std::int32_t kCoresMax = 64;
constexpr std::uint8_t kWaysMax = 8;

bool is_cost(double cycles) { return std::isfinite(cycles) && cycles >= 0; }

const char* what_is_wrong(const ModelledLayer& layer, std::size_t nodes) {
  if (layer.nodes.size() != layer.ways.size()) return "nodes and ways are not as many";
  std::size_t choices = 1;
  for (std::size_t i = 0; i < layer.nodes.size(); ++i) {
    if (layer.nodes[i] < 0 || static_cast<std::size_t>(layer.nodes[i]) >= nodes) {
      return "a node that the graph does not have";
    }
    if (std::count(layer.nodes.begin(), layer.nodes.end(), layer.nodes[i]) > 1) {
      return "a node twice";
    }
    if (layer.ways[i] < 1 || layer.ways[i] > kWaysMax) return "a node with 0 ways, or more than 8";
    choices *= layer.ways[i];
    if (choices > kCostsMax) return "more than 65,536 choices";
  }
  if (choices != layer.costs.size()) return "costs that are not as many as its choices";
  for (const ModelledCost& cost : layer.costs) {
    if (!is_cost(cost.compute) || !is_cost(cost.memory) || !is_cost(cost.links) ||
        !is_cost(cost.exchange)) {
      return "a cost that is no number of cycles";
    }
  }
  return nullptr;
}

}  // namespace

double modelled_cycles(const ModelledCores& model, const ModelledCost& cost, double bandwidth) {
  TESSERA_CHECK(bandwidth > 0 && bandwidth <= 1, "{} of the bandwidth", bandwidth);
  const double compute = cost.compute;
  const double moved =
      std::max(static_cast<double>(cost.memory) / bandwidth, static_cast<double>(cost.links));
  const double busy = model.load_before_arithmetic ? compute + moved : std::max(compute, moved);
  return busy + static_cast<double>(cost.exchange);
}

double modelled_path(const ModelledCores& model, double bandwidth) {
  double cycles = 0;
  for (const ModelledLayer& layer : model.layers) {
    std::size_t index = 0, stride = 1;
    for (std::size_t i = 0; i < layer.nodes.size(); ++i) {
      index += stride * model.chosen[static_cast<std::size_t>(layer.nodes[i])];
      stride *= layer.ways[i];
    }
    cycles += modelled_cycles(model, layer.costs[index], bandwidth);
  }
  return cycles;
}

double modelled_network(const ModelledCores& model, double bandwidth) {
  const double whole = modelled_path(model, 1);
  return whole == 0 ? model.cycles : model.cycles * modelled_path(model, bandwidth) / whole;
}

Status check_model(const ModelledCores& model) {
  const auto bad = [](std::string what) {
    return Error{ErrorCode::kInvalidModel, "performance model: " + std::move(what)};
  };
  if (model.cores < 1 || model.cores > kCoresMax) {
    return bad(fmt::format("{} cores, allowed 1 to {}", model.cores, kCoresMax));
  }
  if (!is_cost(model.cycles)) return bad("the network's time is no number of cycles");
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const char* wrong = what_is_wrong(model.layers[i], model.chosen.size());
    if (wrong != nullptr) return bad(fmt::format("layer {}: {}", i, wrong));
    const ModelledLayer& layer = model.layers[i];
    for (std::size_t n = 0; n < layer.nodes.size(); ++n) {
      const std::uint8_t way = model.chosen[static_cast<std::size_t>(layer.nodes[n])];
      if (way >= layer.ways[n]) {
        return bad(fmt::format("layer {}: node {} goes way {} of {}", i, layer.nodes[n], way,
                               layer.ways[n]));
      }
    }
  }
  return {};
}

}  // namespace tessera::isa

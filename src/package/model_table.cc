#include "package/model_table.h"

#include <utility>

#include "package/container_tables.h"

namespace tessera::package {

std::unique_ptr<fb::PerformanceModelT> to_fb(const isa::ModelledCores& model) {
  auto table = std::make_unique<fb::PerformanceModelT>();
  table->cores = model.cores;
  table->cycles = model.cycles;
  table->load_before_arithmetic = model.load_before_arithmetic;
  table->chosen = model.chosen;
  for (const isa::ModelledLayer& layer : model.layers) {
    auto entry = std::make_unique<fb::ModelledLayerT>();
    entry->nodes = layer.nodes;
    entry->ways = layer.ways;
    for (const isa::ModelledCost& cost : layer.costs) {
      entry->costs.emplace_back(cost.compute, cost.memory, cost.links, cost.exchange);
    }
    table->layers.push_back(std::move(entry));
  }
  return table;
}

Result<std::shared_ptr<const isa::ModelledCores>> model_of(const fb::PerformanceModel* table,
                                                           const std::string& name) {
  using Model = std::shared_ptr<const isa::ModelledCores>;
  if (table == nullptr) return Model();
  fb::PerformanceModelT object;
  table->UnPackTo(&object);
  auto model = std::make_shared<isa::ModelledCores>();
  model->cores = object.cores;
  model->cycles = object.cycles;
  model->load_before_arithmetic = object.load_before_arithmetic;
  model->chosen = std::move(object.chosen);
  for (const auto& entry : object.layers) {
    if (!entry) return bad(name, "an empty layer of a performance model");
    isa::ModelledLayer& layer = model->layers.emplace_back();
    layer.nodes = std::move(entry->nodes);
    layer.ways = std::move(entry->ways);
    for (const fb::ModelledCost& cost : entry->costs) {
      layer.costs.push_back({cost.compute(), cost.memory(), cost.links(), cost.exchange()});
    }
  }
  const Status checked = isa::check_model(*model);
  if (!checked.ok()) return bad(name, checked.error().message);
  return Model(std::move(model));
}

}  // namespace tessera::package

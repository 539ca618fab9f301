#include "accuracy/value_ranges.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "accuracy/outputs.h"
#include "arith/format.h"
#include "arith/rounding.h"
#include "host/executor.h"
#include "model/infer.h"
#include "network/network.h"

namespace tessera::accuracy {
namespace {

void widen(const Tensor& tensor, double& largest) {
  for (const double value : values_of(tensor)) {
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : HUGE_VAL;
  }
}

// The model with all float values of its own graph as outputs, so that none is fused away.
Result<model::Model> observed_model(const Trials& trials) {
  model::Model observed = trials.model();
  TESSERA_TRY(const model::InferredModel inferred,
              model::infer(trials.model(), network::infer_options(trials.load())));
  std::set<std::string> outputs;
  for (const model::ValueInfo& output : observed.graph.outputs) outputs.insert(output.name);
  for (const model::Node& node : trials.model().graph.nodes) {
    for (const std::string& name : node.outputs) {
      const auto value = inferred.values.find(name);
      const bool wanted = value != inferred.values.end() && value->second.constant == nullptr &&
                          format_is_vector(value->second.format) &&
                          element_count(value->second.dims) > 0;
      if (!wanted || !outputs.insert(name).second) continue;
      observed.graph.outputs.push_back({.name = name, .dims = {}, .has_format = false});
    }
  }
  return observed;
}

}  // namespace

Result<std::map<std::string, double>> largest_magnitudes(const Trials& trials) {
  TESSERA_TRY(const model::Model observed, observed_model(trials));
  TESSERA_TRY(const auto graph,
              network::graph_of_model(observed, trials.float32_chip(), trials.load()));
  TESSERA_TRY(const auto executor,
              host::make_host_executor(graph, {.threads = trials.cases().threads}));
  std::map<std::string, double> largest;
  for (const std::vector<Tensor>& inputs : trials.cases().inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!format_is_vector(inputs[i].format)) continue;
      widen(inputs[i], largest[graph->tensor(graph->inputs[i]).name]);
    }
    TESSERA_TRY(const std::vector<Tensor> found, executor->run(inputs));
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!format_is_vector(found[i].format)) continue;
      widen(found[i], largest[graph->tensor(graph->outputs[i]).name]);
    }
  }
  return largest;
}

std::set<std::string> out_of_range(const std::map<std::string, double>& largest, Format vector) {
  const arith::FloatShape shape = arith::float_shape(vector);
  const double bound =
      std::ldexp(1.0, shape.exponent_max);  // half of what is behind the largest number
  std::set<std::string> names;
  for (const auto& [name, magnitude] : largest) {
    if (magnitude > bound) names.insert(name);
  }
  return names;
}

}  // namespace tessera::accuracy

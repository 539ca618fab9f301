#include "tools/derived/check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>

#include "arith/rounding.h"
#include "concord/fold/fold.h"
#include "concord/interpret.h"
#include "host/executor.h"

namespace tessera::tools {
namespace {

double element(const Tensor& tensor, std::int64_t i) {
  return arith::read_element(tensor.format, tensor.bytes.data() + i * format_bytes(tensor.format));
}

// As numbers: software carries most formats in float64.
std::optional<Difference> difference(const concord::Layer& layer, const Tensor& expected,
                                     const Tensor& actual) {
  for (std::int64_t i = 0; i < element_count(expected.dims); ++i) {
    const double a = element(expected, i), b = element(actual, i);
    if (arith::bits_of_f64(a) == arith::bits_of_f64(b) || (std::isnan(a) && std::isnan(b)))
      continue;
    return Difference{"", layer.name, layer.tensor, i, a, b};
  }
  return std::nullopt;
}

// The value of every tensor of the graph, by its name.
Result<std::map<std::string, Tensor>> graph_values(const DerivedPair& pair,
                                                   const std::vector<Tensor>& inputs) {
  std::map<std::string, Tensor> values;
  TESSERA_TRY(const auto host, host::make_host_executor(pair.graph));
  const auto keep = [&](const graph::Node&, graph::TensorId id, const Tensor& value) {
    values[pair.graph->tensor(id).name] = value;
  };
  TESSERA_TRY(const std::vector<Tensor> outputs, host->run(inputs, keep));
  (void)outputs;
  return values;
}

// The software with every layer's result among its outputs, and where each stands there.
struct Probe {
  concord::Software software;
  std::vector<std::pair<const concord::Layer*, std::size_t>> layers;
};

Probe make_probe(const concord::Software& software) {
  Probe probe;
  probe.software = software;
  std::map<std::int32_t, std::size_t> places;
  for (std::size_t i = 0; i < software.outputs.size(); ++i) {
    places[software.outputs[i].value.value] = i;
  }
  Table<concord::ValueId, bool> computed(software.values.size(), false);
  for (const concord::Operation& operation : software.operations) {
    for (const concord::ValueId id : operation.outputs) {
      computed[id] = true;
    }
  }
  for (const concord::Layer& layer : software.layers) {
    const std::int32_t value = layer.result.value;
    if (layer.tensor.empty() || !computed[layer.result]) continue;
    if (!places.contains(value)) {
      places[value] = probe.software.outputs.size();
      probe.software.outputs.push_back({layer.result, software.value(layer.result).name});
    }
    probe.layers.push_back({&layer, places[value]});
  }
  return probe;
}

std::optional<Difference> first_layer(const Probe& probe,
                                      const std::map<std::string, Tensor>& expected,
                                      const std::vector<Tensor>& results) {
  for (const auto& [layer, place] : probe.layers) {
    const auto wanted = expected.find(layer->tensor);
    if (wanted == expected.end()) continue;
    if (auto found = difference(*layer, wanted->second, results[place])) return found;
  }
  return std::nullopt;
}

using Rerun = std::function<Result<std::vector<Tensor>>(const concord::Software& probe)>;

// Which layer is the first to differ; the output itself where none does.
Result<Difference> locate(const DerivedPair& pair, const GoldenVector& vector, const Rerun& rerun,
                          const Difference& output) {
  const Probe probe = make_probe(*pair.software);
  TESSERA_TRY(const auto expected, graph_values(pair, vector.inputs));
  TESSERA_TRY(const std::vector<Tensor> results, rerun(probe.software));
  Difference found = first_layer(probe, expected, results).value_or(output);
  found.runtime = output.runtime;
  return found;
}

// Counts one run, and gives its first difference.
std::optional<Difference> compare(const DerivedPair& pair, const std::vector<Tensor>& expected,
                                  const std::vector<Tensor>& actual, RuntimeTally& tally) {
  std::optional<Difference> first;
  ++tally.runs;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto size = static_cast<std::size_t>(format_bytes(expected[i].format));
    const std::int64_t count = element_count(expected[i].dims);
    tally.values_compared += count;
    if (expected[i].bytes == actual[i].bytes) continue;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::size_t at = static_cast<std::size_t>(k) * size;
      if (std::memcmp(&expected[i].bytes[at], &actual[i].bytes[at], size) == 0) continue;
      ++tally.mismatches;
      if (first) continue;
      first = Difference{"",
                         "outputs",
                         pair.software->outputs[i].name,
                         k,
                         element(expected[i], k),
                         element(actual[i], k)};
    }
  }
  return first;
}

}  // namespace

std::string difference_text(const Difference& difference) {
  return fmt::format(
      "layer '{}', tensor '{}', element {}: the program has {}, the derived software {} ({})",
      difference.layer, difference.tensor, difference.element, difference.program,
      difference.derived, difference.runtime);
}

std::int64_t Verification::values_compared() const {
  return std::accumulate(
      tallies.begin(), tallies.end(), std::int64_t{0},
      [](std::int64_t sum, const RuntimeTally& tally) { return sum + tally.values_compared; });
}

std::int64_t Verification::mismatches() const {
  return std::accumulate(
      tallies.begin(), tallies.end(), std::int64_t{0},
      [](std::int64_t sum, const RuntimeTally& tally) { return sum + tally.mismatches; });
}

Status verify_by_evaluator(const DerivedPair& pair, const std::vector<GoldenVector>& vectors,
                           Verification& result) {
  RuntimeTally tally{"evaluator"};
  for (const GoldenVector& vector : vectors) {
    TESSERA_TRY(const std::vector<Tensor> actual,
                concord::interpret(concord::folded(*pair.software), vector.inputs));
    auto output = compare(pair, vector.outputs, actual, tally);
    if (!output || result.first) continue;
    output->runtime = tally.runtime;
    const auto rerun = [&](const concord::Software& probe) {
      return concord::interpret(concord::folded(probe), vector.inputs);
    };
    TESSERA_TRY(result.first, locate(pair, vector, rerun, *output));
  }
  result.tallies.push_back(tally);
  return {};
}

Status verify_runs(const DerivedPair& pair, const std::vector<GoldenVector>& vectors,
                   DerivedRuntime runtime, const std::vector<DerivedRun>& runs,
                   const DerivedRuntimeOptions& options, Verification& result) {
  RuntimeTally tally{runtime_name(runtime)};
  for (std::size_t c = 0; c < runs.size(); ++c) {
    for (std::size_t v = 0; v < vectors.size(); ++v) {
      if (runs[c].outputs[v].empty()) continue;
      auto output = compare(pair, vectors[v].outputs, runs[c].outputs[v], tally);
      if (!output || result.first) continue;
      output->runtime = tally.runtime;
      if (!runs[c].configuration.empty()) output->runtime += ", " + runs[c].configuration;
      const auto rerun = [&](const concord::Software& probe) -> Result<std::vector<Tensor>> {
        const DerivedProgram program{pair.name, &probe, std::span(&vectors[v], 1)};
        DerivedRuntimeOptions everywhere = options;
        everywhere.whole_vectors = SIZE_MAX;
        TESSERA_TRY(auto again, run_derived(runtime, std::span(&program, 1), everywhere));
        return std::move(again[0][c].outputs[0]);
      };
      TESSERA_TRY(result.first, locate(pair, vectors[v], rerun, *output));
    }
  }
  result.tallies.push_back(tally);
  return {};
}

}  // namespace tessera::tools

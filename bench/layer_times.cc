#include "layer_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "host/executor.h"
#include "network/network.h"
#include "tools/terminal/console.h"

namespace tessera::bench {
namespace {

// ONNX Runtime adds what it made of a node to the name of the node, or of its output.
std::string plain_name(std::string name) {
  for (const std::string suffix : {"_nchwc", "_quant", "_token_0", "_token_1", "_token_2"}) {
    if (name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  return name;
}

std::string short_name(const std::string& name) {
  constexpr std::size_t kLongest = 44;
  return name.size() > kLongest ? "..." + name.substr(name.size() - (kLongest - 3)) : name;
}

}  // namespace

Result<std::vector<LayerTime>> layer_times(const Network& network,
                                           const std::vector<Tensor>& inputs, int threads, int runs,
                                           const std::map<std::string, double>& ort_us) {
  const auto& graph = network.state().package.graph;
  std::map<std::string, double> host_ms;
  bool counts = false;  // not in the first run
  const auto timer = [&](const graph::Node& node, double milliseconds) {
    if (counts) host_ms[node.name] += milliseconds / runs;
  };
  TESSERA_TRY(const auto executor,
              host::make_host_executor(graph, {.threads = threads, .timer = timer}));
  for (int run = 0; run <= runs; ++run) {
    TESSERA_TRY(const auto outputs, executor->run(inputs));
    (void)outputs;
    counts = true;
  }
  std::map<std::string, double> theirs;
  for (const auto& [name, microseconds] : ort_us) theirs[plain_name(name)] += microseconds / 1000;
  std::vector<LayerTime> layers;
  for (const graph::Node& node : graph->nodes) {
    LayerTime layer{node.name, graph::node_kind_name(node.kind()), host_ms[node.name], -1};
    std::vector<std::string> names = node.origins;
    names.push_back(graph->tensor(node.outputs[0]).name);
    names.push_back(node.name);
    for (const std::string& name : names) {
      const auto found = theirs.find(name);
      if (found == theirs.end()) continue;
      layer.ort_ms = std::max(layer.ort_ms, 0.0) + found->second;
      theirs.erase(found);
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string slower_layers_text(const std::vector<LayerTime>& layers, std::size_t limit) {
  std::vector<LayerTime> slower;
  double unmatched = 0, total = 0;
  for (const LayerTime& layer : layers) {
    total += layer.host_ms;
    if (layer.ort_ms < 0) unmatched += layer.host_ms;
    if (layer.ort_ms >= 0 && layer.host_ms > layer.ort_ms) slower.push_back(layer);
  }
  if (slower.empty()) return "";
  std::ranges::sort(slower, [](const LayerTime& a, const LayerTime& b) {
    return a.host_ms - a.ort_ms > b.host_ms - b.ort_ms;
  });
  tools::TextTable table({"slower layer", "kind", "host ms", "ORT ms", "loss ms"});
  for (std::size_t i = 0; i < std::min(limit, slower.size()); ++i) {
    const LayerTime& layer = slower[i];
    table.add({short_name(layer.name), layer.kind, fmt::format("{:.3f}", layer.host_ms),
               fmt::format("{:.3f}", layer.ort_ms),
               fmt::format("{:.3f}", layer.host_ms - layer.ort_ms)});
  }
  return fmt::format(
      "{}{} layers slower; {:.2f} of {:.2f} host ms in layers that ONNX Runtime has "
      "under no name\n",
      table.text(), slower.size(), unmatched, total);
}

std::vector<LayerTime> slowest_layers(std::vector<LayerTime> layers, std::size_t limit) {
  std::ranges::sort(layers, std::greater<>(), &LayerTime::host_ms);
  layers.resize(std::min(limit, layers.size()));
  return layers;
}

std::string slowest_layers_text(const std::vector<LayerTime>& slowest) {
  tools::TextTable table({"slowest layer", "kind", "host ms", "ORT ms"});
  for (const LayerTime& layer : slowest) {
    table.add({short_name(layer.name), layer.kind, fmt::format("{:.3f}", layer.host_ms),
               layer.ort_ms < 0 ? "-" : fmt::format("{:.3f}", layer.ort_ms)});
  }
  return table.text();
}

std::vector<KindTime> times_by_kind(const std::vector<LayerTime>& layers) {
  std::map<std::string, KindTime> found;
  for (const LayerTime& layer : layers) {
    KindTime& kind = found[layer.kind];
    kind.kind = layer.kind;
    ++kind.layers;
    kind.host_ms += layer.host_ms;
  }
  std::vector<KindTime> kinds;
  for (const auto& [name, kind] : found) kinds.push_back(kind);
  std::ranges::sort(kinds, std::greater<>(), &KindTime::host_ms);
  return kinds;
}

std::string kinds_text(const std::vector<KindTime>& kinds) {
  std::string text = "layers by kind:";
  for (const KindTime& kind : kinds) {
    text += fmt::format("{} {} {} {:.3f} ms", &kind == kinds.data() ? "" : ",", kind.layers,
                        kind.kind, kind.host_ms);
  }
  return text + "\n";
}

}  // namespace tessera::bench

// tessera report: the layers' table (cycles, what bounds them, utilisation, bytes) and HTML.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arch/chip_config.h"
#include "runtime/network.h"
#include "tools/console.h"
#include "tools/tensor_file.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

struct ReportArguments {
  ModelArguments model;
  std::string html, trace;
  bool serial = false;
};

// The engine with the most busy cycles, or what the layer mostly waits for.
const char* bound_of(const LayerUse& layer) {
  const std::int64_t most = std::max({layer.neural, layer.planar, layer.dma});
  if (most == 0) return "-";
  if (layer.blocked_memory > most) return "DRAM";
  if (most == layer.neural) return "array";
  if (most == layer.planar) return "planar";
  return "DMA";
}

// Useful multiply-accumulates against what the array could have done in its busy cycles.
double array_use(const LayerUse& layer, const ChipConfig& chip) {
  const double peak = static_cast<double>(layer.neural) * chip.neural.rows * chip.neural.columns *
                      chip.neural.count;
  return peak > 0 ? static_cast<double>(layer.macs) / peak : 0;
}

nlohmann::json layers_json(const RunResult& run, const ChipConfig& chip) {
  nlohmann::json layers = nlohmann::json::array();
  for (const LayerUse& layer : run.layers) {
    layers.push_back({{"name", layer.name},
                      {"kind", layer.kind},
                      {"dims", layer.output_dims},
                      {"macs", layer.macs},
                      {"begin", layer.begin},
                      {"end", layer.end},
                      {"neural", layer.neural},
                      {"planar", layer.planar},
                      {"dma", layer.dma},
                      {"bound", bound_of(layer)},
                      {"array_use", array_use(layer, chip)}});
  }
  return layers;
}

void print_text(const Network& network, const RunResult& run) {
  const ChipConfig& chip = network.state().chip;
  Table table({"layer", "kind", "output", "MACs", "neural", "planar", "DMA", "bound", "array use"});
  for (const LayerUse& layer : run.layers) {
    table.add({layer.name, layer.kind, dims_text(layer.output_dims), with_separators(layer.macs),
               with_separators(layer.neural), with_separators(layer.planar),
               with_separators(layer.dma), bound_of(layer),
               layer.macs > 0 ? percent(array_use(layer, chip)) : "-"});
  }
  fmt::print("{}\n{}{} cycles, {:.1f} us at {} MHz\n{}", table.text(),
             placement_text(network.placement()), with_separators(run.cycles),
             static_cast<double>(run.cycles) * 1e6 / static_cast<double>(run.clock_hertz),
             run.clock_hertz / 1'000'000, engine_table(run));
}

Status report(const ReportArguments& arguments) {
  TESSERA_TRY(const Network network, arguments.model.load());
  SessionOptions options;
  options.timing_only = true;  // cycles do not depend on values
  options.serial = arguments.serial;
  options.trace = true;
  TESSERA_TRY(Session session, Session::open(network, options));
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < network.inputs().size(); ++i) {
    inputs.push_back(random_tensor(network.inputs()[i], 0, i));
  }
  TESSERA_TRY(const RunResult run, session.run(inputs));
  if (!arguments.html.empty()) {
    TESSERA_RETURN_IF_ERROR(write_html_report(arguments.html, arguments.model.model, network, run));
  }
  if (!arguments.trace.empty()) TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, run));
  if (arguments.model.json) {
    const nlohmann::json document = {{"model", arguments.model.model},
                                     {"arch", network.state().chip.name},
                                     {"cycles", run.cycles},
                                     {"nodes_on_processor", network.placement().nodes_on_processor},
                                     {"nodes_on_host", network.placement().nodes_on_host},
                                     {"notes", network.placement().notes},
                                     {"layers", layers_json(run, network.state().chip)}};
    fmt::print("{}\n", json_text(document));
    return {};
  }
  print_text(network, run);
  for (const std::string& path : {arguments.html, arguments.trace}) {
    if (!path.empty()) fmt::print("wrote {}\n", path);
  }
  return {};
}

}  // namespace

Action report_verb(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();  // shared with the returned action
  arguments->model.add_to(app);
  app.add_option("--html", arguments->html, "write a self-contained HTML report");
  app.add_option("--trace", arguments->trace, "write the timeline (Perfetto JSON)");
  app.add_flag("--serial", arguments->serial, "one task at a time");
  return [arguments] { return report(*arguments); };
}

}  // namespace tessera::tools

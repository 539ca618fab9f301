#include "tools/bench/roofline.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/bench/zoo_run.h"
#include "tools/report/roofline_text.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using report::Cause;

nlohmann::json to_json(const ZooRun& row) {
  nlohmann::json losses;
  for (int cause = 0; cause < report::kCauseCount; ++cause) {
    losses[cause_name(static_cast<Cause>(cause))] =
        row.roofline.distance[static_cast<Cause>(cause)];
  }
  return {{"network", row.name},
          {"cycles", row.cycles},
          {"roofline_cycles", row.roofline.roofline_cycles},
          {"share", row.roofline.share},
          {"losses", losses},
          {"overlap", row.roofline.distance.overlap},
          {"macs", row.roofline.total_bound.macs},
          {"compulsory_bytes", row.roofline.total_bound.bytes},
          {"dram_bytes", row.roofline.total.dram_bytes},
          {"nodes_on_host", row.nodes_on_host},
          {"cpu_seconds", row.cpu_seconds}};
}

void print(const std::vector<ZooRun>& rows, double mean, const std::string& arch) {
  TextTable table({"network", "cycles", "roofline", "share", "cells", "planar", "weights",
                   "transf.", "depend.", "start", "ports", "overlap", "CPU ms"});
  for (const ZooRun& row : rows) {
    const report::Distance& lost = row.roofline.distance;
    const auto part = [&](double value) {
      return fmt::format("{:.1f}", 100 * value / static_cast<double>(row.cycles));
    };
    table.add({row.name, with_separators(row.cycles),
               with_separators(std::llround(row.roofline.roofline_cycles)),
               percent(row.roofline.share), part(lost[Cause::kArray]), part(lost[Cause::kPlanar]),
               part(lost[Cause::kWeights]), part(lost[Cause::kTransfers]),
               part(lost[Cause::kDependency]), part(lost[Cause::kStartUp]),
               part(lost[Cause::kPorts]), part(lost.overlap),
               fmt::format("{:.0f}", row.cpu_seconds * 1e3)});
  }
  show_lines(fmt::format(
      "{}\ngeometric mean of the shares on {}: {}\n\n"
      "roofline: sum over layers of max(MACs / peak, compulsory bytes / bandwidth); compulsory:\n"
      "          constants once, the network's inputs and outputs\n"
      "cells to start: percent of the run that went beyond it, by cause: empty cells of the "
      "array,\n"
      "          waiting for the planar engine, weights, transfers, results in the pipeline,\n"
      "          start-up, ports of the state buffer; overlap: what layers saved in the shadow of "
      "others\n",
      table.text(100), visible_text(arch), percent(mean)));
}

}  // namespace

Status run_roofline_suite(const RooflineSuite& suite) {
  TESSERA_TRY(const std::vector<zoo::ZooNetwork> networks, zoo_networks(suite.networks));
  TESSERA_TRY(const ZooRunner runner, ZooRunner::make());
  std::vector<ZooRun> rows;
  double logarithms = 0;
  for (const zoo::ZooNetwork& network : networks) {
    auto row = runner.run(network, suite.arch);
    if (!row.ok()) return row.error().with_context(network.name);
    rows.push_back(std::move(row).value());
    logarithms += std::log(rows.back().roofline.share);
  }
  const double mean = std::exp(logarithms / static_cast<double>(rows.size()));
  if (!suite.json) {
    print(rows, mean, suite.arch);
    return {};
  }
  nlohmann::json list = nlohmann::json::array();
  for (const ZooRun& row : rows) list.push_back(to_json(row));
  show_lines(json_text({{"arch", suite.arch}, {"geomean_share", mean}, {"networks", list}}) + "\n");
  return {};
}

}  // namespace tessera::tools

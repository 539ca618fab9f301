#include "tools/bench/roofline.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/dynamic_network.h"
#include "tools/bench/zoo_run.h"
#include "tools/files/stored_files.h"
#include "tools/files/tensor_file.h"
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

// What the shares have in common. A model without work for the array has no roofline, nor a share.
struct Summary {
  int count = 0;
  double geomean = 0;
  const ZooRun* worst = nullptr;
};
constexpr std::int64_t kLargeMacs = 100'000'000;

Summary summary_of(const std::vector<ZooRun>& rows, std::int64_t macs_min) {
  Summary summary;
  double logarithms = 0;
  for (const ZooRun& row : rows) {
    if (row.roofline.total_bound.macs < macs_min || row.roofline.share <= 0) continue;
    ++summary.count;
    logarithms += std::log(row.roofline.share);
    if (summary.worst == nullptr || row.roofline.share < summary.worst->roofline.share) {
      summary.worst = &row;
    }
  }
  if (summary.count > 0) summary.geomean = std::exp(logarithms / summary.count);
  return summary;
}

nlohmann::json to_json(const Summary& summary) {
  if (summary.count == 0) return nullptr;
  return {{"count", summary.count},
          {"geomean_share", summary.geomean},
          {"least_share", summary.worst->roofline.share},
          {"least", summary.worst->name}};
}

std::string summary_text(const char* of, const Summary& summary) {
  if (summary.count == 0) return "";
  return fmt::format("{}: {} models, geometric mean {}, the least {} ({})\n", of, summary.count,
                     percent(summary.geomean), percent(summary.worst->roofline.share),
                     visible_text(summary.worst->name));
}

// A model that has no run, and why.
struct LeftOut {
  std::string name, reason;
};

struct Rows {
  std::vector<ZooRun> runs;
  std::vector<LeftOut> left_out;
};

std::string table_text(const std::vector<ZooRun>& rows, std::size_t width_max) {
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
  return table.text(width_max);
}

void print(const Rows& rows, const std::string& arch, bool of_folder) {
  // Names of files are longer than those of the zoo.
  std::string text = table_text(rows.runs, of_folder ? 140 : 100) + "\n";
  const Summary all = summary_of(rows.runs, 0);
  if (of_folder) {
    text += summary_text("all", all) +
            summary_text("above 100 million products", summary_of(rows.runs, kLargeMacs));
    for (const LeftOut& model : rows.left_out) {
      text +=
          fmt::format("left out: {}: {}\n", visible_text(model.name), visible_text(model.reason));
    }
  } else {
    text += fmt::format("geometric mean of the shares on {}: {}\n", visible_text(arch),
                        percent(all.geomean));
  }
  show_lines(
      text +
      "\nroofline: sum over layers of max(MACs / peak, compulsory bytes / bandwidth); "
      "compulsory:\n"
      "          constants once, the network's inputs and outputs\n"
      "cells to start: percent of the run that went beyond it, by cause: empty cells of the "
      "array,\n"
      "          waiting for the planar engine, weights, transfers, results in the pipeline,\n"
      "          start-up, ports of the state buffer; overlap: what layers saved in the shadow "
      "of others\n");
}

// Inputs of the model's first case; random ones where it has none. Open dimensions are 1 there.
Result<std::vector<Tensor>> inputs_of(const StoredFile& file, const DynamicNetwork& network) {
  std::vector<Tensor> inputs;
  for (const DeclaredShape& input : network.inputs()) {
    const auto values = file.values.find(input.name);
    const auto shape = file.shapes.find(input.name);
    TensorDescription wanted{input.name, input.format, input.dims};
    if (shape != file.shapes.end()) wanted.dims = shape->second;
    for (std::int64_t& extent : wanted.dims) extent = extent < 0 ? 1 : extent;
    if (values == file.values.end()) {
      inputs.push_back(random_tensor(wanted, 0, inputs.size()));
      continue;
    }
    TESSERA_TRY(Tensor tensor, read_npy(values->second));
    tensor.dims = wanted.dims;
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void add(const ZooRun& run, std::int64_t runs, ZooRun& total) {
  const auto times = static_cast<double>(runs);
  total.cycles += run.cycles * runs;
  total.nodes_on_host += run.nodes_on_host;
  total.idle_engine_cycles += run.idle_engine_cycles * runs;
  total.cpu_seconds += run.cpu_seconds * times;
  total.roofline.roofline_cycles += run.roofline.roofline_cycles * times;
  total.roofline.total.dram_bytes += run.roofline.total.dram_bytes * runs;
  total.roofline.total_bound.macs += run.roofline.total_bound.macs * runs;
  total.roofline.total_bound.bytes += run.roofline.total_bound.bytes * runs;
  for (int cause = 0; cause < report::kCauseCount; ++cause) {
    total.roofline.distance.losses[static_cast<Cause>(cause)] +=
        run.roofline.distance[static_cast<Cause>(cause)] * times;
  }
  total.roofline.distance.overlap += run.roofline.distance.overlap * times;
}

// Which networks run, and how often, the values of a case decide; each is timed once. The host finds out.
Result<ZooRun> run_in_parts(const StoredFile& file, const std::string& arch) {
  TESSERA_TRY(const DynamicNetwork network,
              DynamicNetwork::open(file.path, {.load = {.arch = arch}}));
  TESSERA_TRY(const std::vector<Tensor> inputs, inputs_of(file, network));
  TESSERA_TRY(DynamicSession session, DynamicSession::open(network, {.device = DeviceKind::kHost}));
  TESSERA_TRY(const RunResult run, session.run(inputs));
  ZooRun total{.name = file.name, .roofline = {}};
  for (const NetworkRuns& part : session.networks()) {
    TESSERA_TRY(const ZooRun one, run_for_timing(file.name, part.network));
    add(one, part.runs, total);
  }
  if (total.cycles > 0) {
    total.roofline.share = total.roofline.roofline_cycles / static_cast<double>(total.cycles);
  }
  return total;
}

Result<ZooRun> run_stored(const StoredFile& file, const std::string& arch) {
  TESSERA_TRY(LoadOptions options, load_options(file, arch));
  options.progress = progress_bar();
  const auto network = Network::load(file.path, options);
  if (network.ok()) return run_for_timing(file.name, *network);
  if (network.error().code != ErrorCode::kUnsupported) return network.error();
  return run_in_parts(file, arch);
}

// A model that is refused is left out: what others bring is not all supported.
Status add_folder(const RooflineSuite& suite, Rows& rows) {
  TESSERA_TRY(const std::vector<StoredFile> files, stored_files(suite.models));
  for (const StoredFile& file : files) {
    auto run = run_stored(file, suite.arch);
    if (run.ok()) {
      rows.runs.push_back(std::move(*run));
    } else {
      rows.left_out.push_back({file.name, run.error().to_string()});
    }
  }
  return {};
}

Status add_zoo(const RooflineSuite& suite, Rows& rows) {
  TESSERA_TRY(const std::vector<zoo::ZooNetwork> networks, zoo_networks(suite.networks));
  TESSERA_TRY(const ZooRunner runner, ZooRunner::make());
  for (const zoo::ZooNetwork& network : networks) {
    auto row = runner.run(network, suite.arch);
    if (!row.ok()) return row.error().with_context(network.name);
    rows.runs.push_back(std::move(row).value());
  }
  return {};
}

}  // namespace

Status run_roofline_suite(const RooflineSuite& suite) {
  Rows rows;
  if (suite.models.empty() || !suite.networks.empty()) {
    TESSERA_RETURN_IF_ERROR(add_zoo(suite, rows));
  }
  if (!suite.models.empty()) TESSERA_RETURN_IF_ERROR(add_folder(suite, rows));
  if (rows.runs.empty()) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("none of the {} models in '{}' runs; the first, '{}': {}", rows.left_out.size(),
                    suite.models, rows.left_out.front().name, rows.left_out.front().reason)};
  }
  if (!suite.json) {
    print(rows, suite.arch, !suite.models.empty());
    return {};
  }
  nlohmann::json list = nlohmann::json::array(), left_out = nlohmann::json::array();
  for (const ZooRun& row : rows.runs) list.push_back(to_json(row));
  for (const LeftOut& model : rows.left_out) {
    left_out.push_back({{"network", model.name}, {"reason", model.reason}});
  }
  const Summary all = summary_of(rows.runs, 0);
  show_lines(json_text({{"arch", suite.arch},
                        {"geomean_share", all.geomean},
                        {"all", to_json(all)},
                        {"above_100_million_macs", to_json(summary_of(rows.runs, kLargeMacs))},
                        {"networks", list},
                        {"left_out", left_out}}) +
             "\n");
  return {};
}

}  // namespace tessera::tools

#include "tools/bench/card_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "arch/architecture_file.h"
#include "network/network.h"
#include "tools/bench/zoo_run.h"
#include "tools/files/stored_files.h"
#include "tools/terminal/console.h"
#include "tools/workloads/card_model.h"
#include "tools/workloads/zoo_graph.h"

namespace tessera::tools {
namespace {

struct Row {
  std::string network;
  int cores = 1;
  CardModelRun run;
  RandomSplits random;
  std::string error;  // why there is none
};

// A network of the zoo by its name, or a model of the folder.
struct Source {
  std::string name;
  std::optional<StoredFile> file = {};
};

Result<std::vector<Source>> sources_of(const CardModelSuite& suite) {
  std::vector<Source> sources;
  if (suite.models.empty() || !suite.networks.empty()) {
    TESSERA_TRY(const std::vector<zoo::ZooNetwork> networks, zoo_networks(suite.networks));
    for (const zoo::ZooNetwork& network : networks) sources.push_back({std::string(network.name)});
  }
  if (suite.models.empty()) return sources;
  TESSERA_TRY(std::vector<StoredFile> files, stored_files(suite.models));
  for (StoredFile& file : files) sources.push_back({file.name, std::move(file)});
  return sources;
}

Result<Network> load(const Source& source, const CardModelSuite& suite, const ChipConfig& chip) {
  if (source.file) {
    TESSERA_TRY(const LoadOptions options, load_options(*source.file, suite.arch));
    return Network::load(source.file->path, options);
  }
  TESSERA_TRY(const auto graph, zoo_graph(source.name, chip, {}));
  return network::network_from_graph(graph, chip, {});
}

std::vector<int> cores_of(const CardModelSuite& suite, const ChipConfig& chip) {
  if (suite.cores > 0) return {suite.cores};
  std::vector<int> cores;
  for (int count = 1; count <= chip.card.cores(); count *= 2) cores.push_back(count);
  return cores;
}

Row run(const std::string& name, const Network& network, int cores, const CardModelSuite& suite) {
  Row row{.network = name, .cores = cores, .run = {}, .random = {}, .error = {}};
  const NetworkState& state = network.state();
  const auto placement = spread_cores(state.chip, 1, cores);
  auto found = placement.ok() ? run_card_model(state, *placement, CoreSplit::kAuto)
                              : Result<CardModelRun>(placement.error());
  if (!found.ok()) {
    row.error = found.error().to_string();
    return row;
  }
  row.run = std::move(*found);
  if (suite.random == 0 || cores == 1) return row;
  constexpr int kOnCardMax = 20;
  const int on_card = std::min(kOnCardMax, (suite.random + 9) / 10);
  auto random = run_random_splits(state, *placement, suite.random, on_card, /*seed=*/1);
  if (!random.ok()) row.error = random.error().to_string();
  if (random.ok()) row.random = *random;
  return row;
}

struct Means {
  MeanError networks, while_choosing, shares, shares_by_time;
};

Means means_of(const std::vector<Row>& rows) {
  Means means;
  for (const Row& row : rows) {
    if (!row.error.empty()) continue;
    means.networks.add(row.run.error());
    means.while_choosing.add(row.run.error_while_choosing());
    if (row.run.shares.empty()) continue;
    means.shares.add(row.run.share_error());
    means.shares_by_time.add(row.run.share_error_by_time());
  }
  return means;
}

std::string signed_percent(double share) { return fmt::format("{:+.1f} %", share * 100); }

void print(const std::vector<Row>& rows) {
  TextTable table(
      {"network", "cores", "used", "model", "card", "error", "shares", "of a share", "by time"});
  std::string errors, random;
  for (const Row& row : rows) {
    if (!row.error.empty()) {
      errors += fmt::format("{}, {} cores: {}\n", row.network, row.cores, row.error);
      continue;
    }
    const bool shares = !row.run.shares.empty();
    table.add({row.network, fmt::format("{}", row.cores), fmt::format("{}", row.run.cores),
               with_separators(std::llround(row.run.model_cycles)),
               with_separators(row.run.card_cycles), signed_percent(row.run.error()),
               fmt::format("{}", row.run.shares.size()),
               shares ? percent(row.run.share_error()) : "-",
               shares ? percent(row.run.share_error_by_time()) : "-"});
  }
  for (const Row& row : rows) {
    if (row.random.drawn == 0) continue;
    random += fmt::format(
        "{}, {} cores: the best {} of {} random choices take {} cycles at least, {:.2f} of ours\n",
        row.network, row.cores, row.random.on_card, row.random.drawn,
        with_separators(row.random.card_cycles),
        static_cast<double>(row.random.card_cycles) / static_cast<double>(row.run.card_cycles));
  }
  const Means means = means_of(rows);
  show_lines(fmt::format(
      "{}\n{}{}mean error of a network: {}, worst {}; while splits are chosen: {}, worst {}\n"
      "mean error of a share: {}, by time {}\n\n"
      "used: cores that have a part\n"
      "shares: parts of layers, a core's each: what the busiest of its engines takes\n"
      "of a share: its error on average; by time: where each counts as much as it takes\n",
      table.text(110), errors, random, percent(means.networks.mean()),
      percent(means.networks.worst), percent(means.while_choosing.mean()),
      percent(means.while_choosing.worst), percent(means.shares.mean()),
      percent(means.shares_by_time.mean())));
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json json = {{"network", row.network}, {"cores", row.cores}};
  if (!row.error.empty()) {
    json["failure"] = row.error;
    return json;
  }
  json.update({{"cores_used", row.run.cores},
               {"model_cycles", row.run.model_cycles},
               {"card_cycles", row.run.card_cycles},
               {"error", row.run.error()},
               {"chosen_by_cycles", row.run.chosen_by_cycles},
               {"error_while_choosing", row.run.error_while_choosing()},
               {"shares", row.run.shares.size()},
               {"share_error", row.run.share_error()},
               {"share_error_by_time", row.run.share_error_by_time()}});
  nlohmann::json layers = nlohmann::json::array();
  for (const ModelledLayer& layer : row.run.layers) {
    if (layer.card_end == 0) continue;
    layers.push_back({{"name", layer.name},
                      {"split", layer.way},
                      {"shares", layer.shares},
                      {"share_error", layer.share_error},
                      {"model_cycles", layer.model},
                      {"card_cycles", layer.card},
                      {"model_cost", layer.cost},
                      {"model_span", {layer.model_begin, layer.model_end}},
                      {"card_span", {layer.card_begin, layer.card_end}}});
  }
  if (row.random.drawn > 0) {
    json["random"] = {{"drawn", row.random.drawn},
                      {"on_card", row.random.on_card},
                      {"model_cycles", row.random.model_cycles},
                      {"card_cycles", row.random.card_cycles}};
  }
  json["layers"] = std::move(layers);
  return json;
}

}  // namespace

Status run_card_model_suite(const CardModelSuite& suite) {
  TESSERA_TRY(const ChipConfig chip, load_chip_config(suite.arch));
  TESSERA_TRY(const std::vector<Source> sources, sources_of(suite));
  const std::vector<int> cores = cores_of(suite, chip);
  const ProgressCallback progress = progress_bar();
  std::vector<Row> rows;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (progress) progress("card model", static_cast<double>(i) / std::ssize(sources));
    const auto network = load(sources[i], suite, chip);
    if (!network.ok()) {
      if (!sources[i].file) return network.error().with_context(sources[i].name);
      rows.push_back({sources[i].name, cores.front(), {}, {}, network.error().to_string()});
      continue;
    }
    for (const int count : cores) rows.push_back(run(sources[i].name, *network, count, suite));
  }
  if (!suite.json) {
    print(rows);
    return {};
  }
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) list.push_back(to_json(row));
  const Means means = means_of(rows);
  show_lines(json_text({{"arch", suite.arch},
                        {"mean_error", means.networks.mean()},
                        {"worst_error", means.networks.worst},
                        {"mean_share_error", means.shares.mean()},
                        {"mean_share_error_by_time", means.shares_by_time.mean()},
                        {"networks", std::move(list)}}) +
             "\n");
  return {};
}

}  // namespace tessera::tools

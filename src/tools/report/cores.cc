#include "tools/report/cores.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "network/network.h"
#include "report/card_use.h"
#include "report/core_waits.h"
#include "report/layer_json.h"
#include "tools/run/images.h"
#include "tools/run/output.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using report::CardUse;
using report::CoreUse;
using report::GroupUse;
using report::LinkUse;

constexpr std::size_t kCoresReportWidth = 110;

// "rows 16"; "1 core".
std::string split_text(const LayerSplit& split) {
  if (split.way == "one core") return "1 core";
  return split.cores > 0 ? fmt::format("{} {}", split.way, split.cores) : split.way;
}

constexpr std::string_view kThroughMemory = " through memory (";

// "own part through memory (no room)": "no room"; empty where nothing went there that could have stayed.
std::string_view reason_for_memory(const LayerSplit& split) {
  const std::string_view movement = split.movement;
  const std::size_t at = movement.find(kThroughMemory);
  if (at == std::string_view::npos) return {};
  const std::size_t first = at + kThroughMemory.size();
  return movement.substr(first, movement.size() - first - 1);
}

// The document's terms, short.
std::string movement_text(const LayerSplit& split) {
  if (!reason_for_memory(split).empty()) {
    return split.movement.substr(0, split.movement.find(kThroughMemory)) + ", memory";
  }
  if (split.movement == "full forward, full broadcast") return "forward+bcast";
  if (split.movement == "full forward") return "forward";
  return split.movement.empty() ? "-" : split.movement;
}

std::string weights_text(const LayerSplit& split) {
  if (split.weights.empty()) return "-";
  return split.weights == "own part" ? "own" : "bcast";
}

// A run with all layers cut one way, for what a layer would have taken.
struct OtherRun {
  CoreSplit split = CoreSplit::kRows;
  RunResult run;
  std::string error;  // why there is none
};

// Of a layer, where it would have been cut another way.
struct OtherSplit {
  std::string way;
  std::int64_t cycles = 0;
};
using OtherSplits = std::vector<std::optional<OtherSplit>>;

std::vector<OtherRun> other_runs(const CoresReport& arguments, const Network& network,
                                 const std::vector<Tensor>& inputs) {
  std::vector<OtherRun> runs;
  for (const CoreSplit split : {CoreSplit::kRows, CoreSplit::kChannels}) {
    if (split == arguments.cores.core_split()) continue;
    SessionOptions options;
    options.timing_only = true;
    arguments.cores.give_images_to(options);
    options.split = split;
    OtherRun& other = runs.emplace_back();
    other.split = split;
    auto session = Session::open(network, options);
    auto run = session.ok() ? session->run(inputs) : Result<RunResult>(session.error());
    if (run.ok()) {
      other.run = std::move(*run);
    } else {
      other.error = run.error().to_string();
    }
  }
  return runs;
}

// Layers have the same names in every run; those of one name are in one order.
OtherSplits other_splits(const RunResult& run, const std::vector<OtherRun>& others) {
  OtherSplits result(run.layers.size());
  for (const OtherRun& other : others) {
    const std::vector<std::int64_t> advances = report::layer_advances(other.run);
    std::multimap<std::string, std::size_t> places;
    for (std::size_t i = 0; i < other.run.layers.size(); ++i) {
      places.emplace(other.run.layers[i].name, i);
    }
    for (std::size_t i = 0; i < run.layers.size(); ++i) {
      const auto place = places.find(run.layers[i].name);
      if (place == places.end()) continue;
      const std::string& way = other.run.layers[place->second].split.way;
      if (way != run.layers[i].split.way && way != "nothing") {
        result[i] = {way, advances[place->second]};
      }
      places.erase(place);
    }
  }
  return result;
}

struct Totals {
  std::int64_t dram = 0, merged = 0, ring = 0, network = 0;
};

Totals totals_of(const RunResult& run) {
  Totals totals;
  for (const LayerUse& layer : run.layers) {
    totals.dram += layer.split.dram_bytes_read + layer.split.dram_bytes_written;
    totals.merged += layer.split.merged_bytes;
    totals.ring += layer.split.ring_bytes;
    totals.network += layer.split.network_bytes;
  }
  return totals;
}

std::string layer_table(const RunResult& run, const CardUse& use, const OtherSplits& others) {
  const bool ring = use.groups.size() > 1, network = use.cards > 1;
  std::vector<std::string> header = {"layer", "split", "behind", "gets", "weights", "DRAM bytes"};
  if (ring) header.emplace_back("ring");
  if (network) header.emplace_back("network");
  header.emplace_back("cycles");
  header.emplace_back("other");
  TextTable table(header);
  const std::vector<std::int64_t> advances = report::layer_advances(run);
  for (std::size_t i = 0; i < run.layers.size(); ++i) {
    const LayerSplit& split = run.layers[i].split;
    if (split.way == "nothing") continue;
    std::vector<std::string> row = {
        run.layers[i].name,
        split_text(split),
        split.before.empty() ? "-" : fmt::format("{}", fmt::join(split.before, ", ")),
        movement_text(split),
        weights_text(split),
        with_separators(split.dram_bytes_read + split.dram_bytes_written)};
    if (ring) row.push_back(with_separators(split.ring_bytes));
    if (network) row.push_back(with_separators(split.network_bytes));
    row.push_back(with_separators(advances[i]));
    row.push_back(others[i] ? with_separators(others[i]->cycles) : "-");
    table.add(std::move(row));
  }
  return table.text(kCoresReportWidth);
}

// Where results stayed with their cores, and why others went through memory.
std::string hand_over_text(const RunResult& run) {
  int stayed = 0;
  std::string text;
  for (const LayerUse& layer : run.layers) {
    const std::string_view reason = reason_for_memory(layer.split);
    if (!reason.empty()) {
      text += fmt::format("  through memory, read by '{}': {}\n", layer.name, reason);
    } else if (layer.split.movement == "own part" || layer.split.movement == "edges") {
      ++stayed;
    }
  }
  return fmt::format("{} layer{} results that stay in the state buffers\n{}", stayed,
                     stayed == 1 ? " reads" : "s read", text);
}

// "12 layers by rows, 3 by channels"; and those of one core with the reason.
std::string ways_text(const RunResult& run) {
  std::map<std::string, int> ways;
  std::string alone;
  for (const LayerUse& layer : run.layers) {
    const LayerSplit& split = layer.split;
    if (split.way == "nothing") continue;
    ++ways[split.way];
    if (!split.reason.empty()) {
      alone += fmt::format("  one core: '{}': {}\n", layer.name, split.reason);
    }
  }
  std::string text;
  for (const auto& [way, count] : ways) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", way, count);
  }
  return fmt::format("layers: {}\n{}{}", text, alone, hand_over_text(run));
}

std::string core_table(const RunResult& run, const CardUse& use) {
  TextTable table({"core", "card", "group", "array", "planar", "waits for data", "for memory",
                   "for shares", "bytes moved"});
  const double cycles = static_cast<double>(std::max<std::int64_t>(1, run.cycles));
  const auto share = [&](std::int64_t part) { return percent(static_cast<double>(part) / cycles); };
  for (std::size_t i = 0; i < use.cores.size(); ++i) {
    const CoreUse& core = use.cores[i];
    table.add({fmt::format("{}", i), fmt::format("{}", core.place.card),
               fmt::format("{}", core.place.group), share(core.array), share(core.planar),
               share(core.waits_for_data), share(core.waits_for_memory),
               with_separators(core.share_cycles), with_separators(core.bytes_moved)});
  }
  return table.text(kCoresReportWidth);
}

std::string wire_table(const RunResult& run, const CardUse& use) {
  TextTable table({"wire", "bytes", "busy cycles", "busy"});
  const double cycles = static_cast<double>(std::max<std::int64_t>(1, run.cycles));
  const auto add = [&](const std::string& name, const LinkUse& link) {
    table.add({name, with_separators(link.bytes), with_separators(link.busy),
               percent(static_cast<double>(link.busy) / cycles)});
  };
  for (const GroupUse& group : use.groups) {
    if (group.cores.empty()) continue;
    add(fmt::format("memory {}", group.group), group.memory);
    add(fmt::format("broadcast {}", group.group), group.broadcast);
  }
  for (const GroupUse& group : use.groups) {
    if (use.groups_of_card == 1) break;
    const int first = group.group / use.groups_of_card * use.groups_of_card;
    const int next = first + (group.group - first + 1) % use.groups_of_card;
    add(fmt::format("ring {} to {}", group.group, next), group.ring);
  }
  for (std::size_t card = 0; card < use.sent.size(); ++card) {
    add(fmt::format("network from card {}", card), use.sent[card]);
    add(fmt::format("network to card {}", card), use.received[card]);
  }
  return table.text(kCoresReportWidth);
}

constexpr int kWaitsShown = 6;  // of each kind

// The longest of each kind; the rest is in --json.
std::string wait_table(const RunResult& run) {
  if (run.waits.empty()) return "nobody waited for another core, or for what they have in common\n";
  TextTable table({"waits", "for", "loads of the layer", "cycles"});
  std::int64_t left = 0, left_cycles = 0;
  for (const char* const kind : {"core", "share", "link"}) {
    int shown = 0;
    for (const CoreWait& wait : run.waits) {
      if (wait.kind != kind) continue;
      if (++shown > kWaitsShown) {
        ++left;
        left_cycles += wait.cycles;
        continue;
      }
      table.add({wait.who, wait.what, wait.layer.empty() ? "-" : wait.layer,
                 with_separators(wait.cycles)});
    }
  }
  std::string text = table.text(kCoresReportWidth);
  if (left > 0) {
    text += fmt::format("and {} more, {} cycles (--json has them)\n", with_separators(left),
                        with_separators(left_cycles));
  }
  return text +
         "an engine waits for a step of another core; requests of a core, or of the cores of a "
         "group,\n"
         "for the last of those that load the same bytes, or for a channel or wire that other "
         "requests\nhave: summed over requests\n";
}

void print_text(const Network& network, const CoresArguments& cores, const RunResult& run,
                const CardUse& use, const std::vector<OtherRun>& others) {
  show_lines(layer_table(run, use, other_splits(run, others)));
  show(
      "\nsplit: what each of so many cores makes; behind: how what the layer reads was cut\n"
      "gets: results that come to a core: its own part, edges from its neighbours, all of them\n"
      "      (forward: from other memories; bcast: to every core); own part and edges: the rest "
      "stays\n"
      "      in the state buffers, or \"memory\": went through it; weights: own part, or bcast\n"
      "bytes: data, without headers; of the ring on all links\n"
      "cycles: by which the layer ends later than those before it\n"
      "other: the same where all layers are cut the other way\n\n");
  const Totals totals = totals_of(run);
  show_lines(ways_text(run));
  for (const OtherRun& other : others) {
    if (other.error.empty()) {
      show("all layers split {}: {} cycles\n", core_split_name(other.split),
           with_separators(other.run.cycles));
    } else {
      show("all layers split {}: {}\n", core_split_name(other.split), other.error);
    }
  }
  show(
      "{} bytes of DRAM, {} more if no read were for several cores\n"
      "{} bytes on the ring, {} between cards\n\n",
      with_separators(totals.dram), with_separators(totals.merged), with_separators(totals.ring),
      with_separators(totals.network));
  show_lines(
      fmt::format("{}\n{}\n{}\n", core_table(run, use), wire_table(run, use), wait_table(run)));
  show_lines(
      fmt::format("{}{} cycles on {} cores of {} card{}, split {}: {:.1f} us at {} MHz{}\n",
                  placement_text(network.placement()), with_separators(run.cycles), cores.cores,
                  cores.cards, cores.cards == 1 ? "" : "s", cores.split,
                  static_cast<double>(run.cycles) * 1e6 / static_cast<double>(run.clock_hertz),
                  run.clock_hertz / 1'000'000, images_text(run)));
}

nlohmann::json layers_json(const RunResult& run, const OtherSplits& others) {
  nlohmann::json layers = nlohmann::json::array();
  const std::vector<std::int64_t> advances = report::layer_advances(run);
  for (std::size_t i = 0; i < run.layers.size(); ++i) {
    layers.push_back(report::layer_json(run.layers[i]));
    layers.back()["cycles"] = advances[i];
    if (others[i]) {
      layers.back()["other"] = {{"split", others[i]->way}, {"cycles", others[i]->cycles}};
    }
  }
  return layers;
}

nlohmann::json report_json(const CoresReport& arguments, const Network& network,
                           const RunResult& run, const std::vector<OtherRun>& others) {
  const Totals totals = totals_of(run);
  nlohmann::json places = nlohmann::json::array();
  for (const CorePlace& place : run.cores) {
    places.push_back({{"card", place.card}, {"group", place.group}, {"number", place.number}});
  }
  nlohmann::json document = {{"model", arguments.model.model},
                             {"arch", network.state().chip.name},
                             {"cycles", run.cycles},
                             {"clock_hertz", run.clock_hertz},
                             {"nodes_on_processor", network.placement().nodes_on_processor},
                             {"nodes_on_host", network.placement().nodes_on_host},
                             {"notes", network.placement().notes},
                             {"places", std::move(places)},
                             {"dram_bytes", totals.dram},
                             {"merged_bytes", totals.merged},
                             {"ring_bytes", totals.ring},
                             {"network_bytes", totals.network},
                             {"layers", layers_json(run, other_splits(run, others))},
                             {"engines", engines_json(run)},
                             {"waits", report::waits_json(run)}};
  for (const OtherRun& other : others) {
    nlohmann::json& entry = document["others"][core_split_name(other.split)];
    if (other.error.empty()) {
      entry["cycles"] = other.run.cycles;
    } else {
      entry["error"] = other.error;
    }
  }
  arguments.cores.add_to(document);
  add_images(run, document);
  return document;
}

}  // namespace

Status cores_report(const CoresReport& arguments, FileRoles roles) {
  TESSERA_TRY(const Network network, arguments.model.load(roles));
  SessionOptions options;
  options.timing_only = true;  // cycles do not depend on values
  options.trace = !arguments.html.empty() || !arguments.trace.empty();
  arguments.cores.give_images_to(options);
  TESSERA_TRY(Session session, Session::open(network, options));
  TESSERA_TRY(const std::vector<Tensor> inputs,
              read_images({}, network.inputs(), {}, arguments.cores.images()));
  TESSERA_TRY(const RunResult run, session.run(inputs));
  if (!arguments.html.empty()) {
    TESSERA_RETURN_IF_ERROR(write_html_report(arguments.html, arguments.model.model, network, run));
  }
  if (!arguments.trace.empty()) TESSERA_RETURN_IF_ERROR(write_perfetto(arguments.trace, run));
  const std::vector<OtherRun> others = other_runs(arguments, network, inputs);
  if (arguments.model.json) {
    show_lines(json_text(report_json(arguments, network, run, others)) + "\n");
    return {};
  }
  print_text(network, arguments.cores, run, report::card_use(run, network.state().chip), others);
  for (const std::string& path : {arguments.html, arguments.trace}) {
    if (!path.empty()) show("wrote {}\n", path);
  }
  return {};
}

}  // namespace tessera::tools

// A self-contained HTML page: engine utilisation, the layers' table, the timeline on a canvas.
// The page itself is report_page.html, compiled in; the data is a JSON object put in its place.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "link/link.h"
#include "network/network.h"
#include "package/container.h"
#include "package/weight_use.h"
#include "report/card_picture.h"
#include "report/core_waits.h"
#include "report/layer_json.h"
#include "report/page_texts.h"
#include "report/report_page.h"
#include "report/roofline.h"
#include "tessera/file.h"

namespace tessera {
namespace {

using nlohmann::json;

json engines_json(const RunResult& run) {
  json engines = json::array();
  for (const EngineUse& engine : run.engines) {
    engines.push_back({{"name", engine.name},
                       {"kind", engine.kind},
                       {"index", engine.index},
                       {"busy", engine.busy},
                       {"blocked_dependency", engine.blocked_dependency},
                       {"blocked_memory", engine.blocked_memory},
                       {"blocked_ports", engine.blocked_ports},
                       {"idle", engine.idle},
                       {"tasks", engine.tasks},
                       {"steps", engine.steps},
                       {"macs", engine.macs},
                       {"dram_bytes_read", engine.dram_bytes_read},
                       {"dram_bytes_written", engine.dram_bytes_written}});
    if (engine.blocked_message > 0 || engine.message_bytes > 0) {
      engines.back()["blocked_message"] = engine.blocked_message;
      engines.back()["message_bytes"] = engine.message_bytes;
    }
  }
  return engines;
}

// With the layers' cycles by cause and their roofline where the run has a timeline.
json layers_json(const Network& network, const RunResult& run, json& roofline) {
  std::optional<report::RooflineReport> report;
  if (!run.timeline.empty() && run.cores.empty()) {
    if (const auto program = link::link(network.state().package, network.state().chip);
        program.ok()) {
      report = report::roofline_report(network, *program, run);
      roofline = {{"cycles", report->roofline_cycles}, {"share", report->share}};
    }
  }
  json layers = json::array();
  for (std::size_t i = 0; i < run.layers.size(); ++i) {
    const LayerUse& layer = run.layers[i];
    layers.push_back(report::layer_json(layer));
    if (!report) continue;
    const report::LayerTime& time = report->times[i];
    layers.back()["cycles"] = time.total();
    layers.back()["roofline"] = std::llround(report->bounds[i].cycles());
    layers.back()["causes"] = time.cycles;
    layers.back()["bytes"] = time.dram_bytes;
  }
  return layers;
}

// What does not cross the memory channel, and what the tasks do not wait for.
json savings_json(const package::Package& package) {
  const package::WeightUse weights = package::weight_use(package);
  return {{"weight_bytes_moved", weights.moved_bytes},
          {"weight_bytes_saved", weights.saved_bytes()},
          {"dependencies_dropped", package.dependencies_dropped}};
}

json transpositions_json(const package::Package& package) {
  json list = json::array();
  for (const package::TranspositionHint& hint : package.transpositions) {
    list.push_back({{"tensor", hint.tensor},
                    {"reader", hint.reader},
                    {"way", hint.way},
                    {"elements", hint.elements},
                    {"channels", hint.channels},
                    {"columns", hint.columns},
                    {"matrices", hint.matrices},
                    {"cycles", hint.cycles},
                    {"dram_bytes", hint.dram_bytes},
                    {"next_way", hint.next_way},
                    {"next_cycles", hint.next_cycles}});
  }
  return list;
}

// Rows of [engine index, layer index, begin, end], compact since there are many.
json timeline_json(const RunResult& run, json& names) {
  std::map<std::string, int> engines, layers;
  json rows = json::array();
  const auto index_of = [](std::map<std::string, int>& map, const std::string& name) {
    return map.emplace(name, static_cast<int>(map.size())).first->second;
  };
  // Rows in the order of the engines, core by core.
  std::set<std::string> seen;
  for (const TimelineEvent& event : run.timeline) seen.insert(event.engine);
  for (const EngineUse& engine : run.engines) {
    if (seen.contains(engine.name)) index_of(engines, engine.name);
  }
  for (const TimelineEvent& event : run.timeline) {
    rows.push_back(
        {index_of(engines, event.engine), index_of(layers, event.layer), event.begin, event.end});
  }
  const auto list = [](const std::map<std::string, int>& map) {
    std::vector<std::string> result(map.size());
    for (const auto& [name, index] : map) result[static_cast<std::size_t>(index)] = name;
    return result;
  };
  names = {{"engines", list(engines)}, {"layers", list(layers)}};
  return rows;
}

// A piece of a script element. There "</" would end it and "<!--" begin a comment; a "<" stands in
// strings alone.
std::string script_text(const json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string report::html_report_text(const std::string& title, const Network& network,
                                     const RunResult& run) {
  json host_steps = json::array();
  for (const HostStepNote& step : network.placement().host_steps) {
    host_steps.push_back(
        {{"node", step.node}, {"operator", step.operator_name}, {"reason", step.reason}});
  }
  json names;
  json timeline = timeline_json(run, names);
  json roofline;
  json layers = layers_json(network, run, roofline);
  json causes = json::array();
  for (int cause = 0; cause < report::kCauseCount; ++cause) {
    causes.push_back(report::cause_name(static_cast<report::Cause>(cause)));
  }
  json data = {{"title", title},
               {"arch", network.state().chip.name},
               {"cycles", run.cycles},
               {"clock_hertz", run.clock_hertz},
               {"nodes_on_processor", network.placement().nodes_on_processor},
               {"nodes_on_host", network.placement().nodes_on_host},
               {"host_steps", std::move(host_steps)},
               {"idle_engine_cycles", idle_engine_cycles(run.engines)},
               {"engines", engines_json(run)},
               {"layers", std::move(layers)},
               {"causes", std::move(causes)},
               {"roofline", std::move(roofline)},
               {"savings", savings_json(network.state().package)},
               {"transpositions", transpositions_json(network.state().package)},
               {"names", std::move(names)},
               {"timeline", std::move(timeline)}};
  std::string picture;
  if (!run.cores.empty()) {
    const CardUse use = card_use(run, network.state().chip);
    data["cores"] = use.cores.size();
    data["cards"] = use.cards;
    data["waits"] = report::waits_json(run);
    picture = "<div class=\"wide\">\n" + card_picture(use, run.cycles) + "</div>\n";
  }
  std::string page(kReportPage);
  const auto put = [&page](std::string_view mark, const std::string& text) {
    page.replace(page.find(mark), mark.size(), text);
  };
  put("/*DATA*/null", script_text(data));
  put("<!--CARD-->", picture);  // names in the data open no comment
  return page;
}

Status write_html_report(const std::string& path, const std::string& title, const Network& network,
                         const RunResult& run) {
  TESSERA_RETURN_IF_ERROR(network::check_package(network.state(), "a report"));
  const std::string page = report::html_report_text(title, network, run);
  return write_text_file(path, page);
}

}  // namespace tessera

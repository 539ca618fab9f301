#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "metrics/exports.h"
#include "metrics/json_quoted.h"

namespace tessera::metrics {
namespace {

using nlohmann::json;

std::string dump(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

json distribution_json(const Distribution& d) {
  return {{"count", d.count}, {"min", d.min}, {"mean", d.mean}, {"median", d.median},
          {"p90", d.p90},     {"p95", d.p95}, {"p99", d.p99},   {"max", d.max}};
}

json source_json(const SourceSnapshot& source) {
  return {{"id", source.id.index},
          {"kind", name_of(source.description.kind)},
          {"name", source.description.name},
          {"device", source.description.device},
          {"threads", source.description.threads},
          {"capacity", source.description.capacity},
          {"runs", source.runs},
          {"busy_ns", source.busy_ns},
          {"utilisation", source.utilisation},
          {"runs_per_second", source.runs_per_second},
          {"cycles", source.cycles},
          {"bytes_in", source.bytes_in},
          {"bytes_out", source.bytes_out},
          {"in_ns", source.in_ns},
          {"out_ns", source.out_ns},
          {"in_share", source.in_share},
          {"out_share", source.out_share},
          {"bytes_in_per_second", source.bytes_in_per_second},
          {"bytes_out_per_second", source.bytes_out_per_second},
          {"depth", source.depth},
          {"depth_max", source.depth_max},
          {"faults", source.faults},
          {"running_since_ns", source.running_since_ns},
          {"running", source.running},
          {"run", distribution_json(source.run)},
          {"waited", distribution_json(source.waited)},
          {"transfer_in", distribution_json(source.transfer_in)},
          {"transfer_out", distribution_json(source.transfer_out)}};
}

}  // namespace

std::string snapshot_json_text(const Snapshot& snapshot) {
  json sources = json::array();
  for (const SourceSnapshot& source : snapshot.sources) sources.push_back(source_json(source));
  const TaskSnapshot& tasks = snapshot.tasks;
  return dump({{"at_ns", snapshot.at_ns},
               {"window_ns", snapshot.window_ns},
               {"recording", snapshot.recording},
               {"events", snapshot.events},
               {"dropped", snapshot.dropped},
               {"tasks",
                {{"submitted", tasks.submitted},
                 {"ok", tasks.ok},
                 {"failed", tasks.failed},
                 {"cancelled", tasks.cancelled},
                 {"in_flight", tasks.in_flight()},
                 {"per_second", tasks.per_second},
                 {"latency", distribution_json(tasks.latency)},
                 {"latency_late", distribution_json(tasks.latency_late)}}},
               {"sources", std::move(sources)}});
}

std::string end_line_text(const EndOfEvents& end) {
  return fmt::format("{{\"kind\":\"{}\",\"events\":{},\"lost\":{}}}\n", kEndOfEvents, end.events,
                     end.lost);
}

std::string json_lines_text(std::span<const Event> events, const SourceStates& sources) {
  std::vector<std::string> names;
  for (const Recorder::SourceState& source : sources) {
    names.push_back(fmt::format("\"source\":{},\"device\":{}", json_quoted(source.description.name),
                                json_quoted(source.description.device)));
  }
  std::string text;
  for (const Event& event : events) {
    fmt::format_to(std::back_inserter(text),
                   "{{\"kind\":\"{}\",{},\"stream\":{},\"packet\":{},\"begin_ns\":{},"
                   "\"end_ns\":{},\"value\":{}",
                   name_of(event.kind), names[event.source.index], event.stream, event.packet,
                   event.begin_ns, event.end_ns, event.value);
    if (event.kind == EventKind::kTaskCompleted) {
      fmt::format_to(std::back_inserter(text), ",\"outcome\":\"{}\"", name_of(event.outcome));
    }
    text += "}\n";
  }
  return text;
}

}  // namespace tessera::metrics

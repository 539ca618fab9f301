// The timeline as Chrome trace events, which Perfetto opens. One process, one track an engine; a
// microsecond of the viewer is a microsecond of the modelled clock.
#include <map>
#include <nlohmann/json.hpp>

#include "package/container.h"
#include "report/page_texts.h"
#include "tessera/file.h"
#include "tessera/session.h"

namespace tessera {

std::string report::timeline_text(const RunResult& run) {
  using nlohmann::json;
  const double microseconds_per_cycle =
      run.clock_hertz > 0 ? 1e6 / static_cast<double>(run.clock_hertz) : 1.0;
  std::map<std::string, int> tracks;
  json events = json::array();
  events.push_back(
      {{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "core 0"}}}});
  for (const EngineUse& engine : run.engines) {
    const int track = static_cast<int>(tracks.size()) + 1;
    tracks[engine.name] = track;
    events.push_back({{"ph", "M"},
                      {"pid", 1},
                      {"tid", track},
                      {"name", "thread_name"},
                      {"args", {{"name", engine.name}}}});
  }
  for (const TimelineEvent& event : run.timeline) {
    events.push_back(
        {{"ph", "X"},
         {"pid", 1},
         {"tid", tracks[event.engine]},
         {"name", event.layer},
         {"ts", static_cast<double>(event.begin) * microseconds_per_cycle},
         {"dur", static_cast<double>(event.end - event.begin) * microseconds_per_cycle},
         {"args",
          {{"task", event.task},
           {"step", event.step},
           {"begin_cycle", event.begin},
           {"end_cycle", event.end},
           {"blocked_ports", event.blocked_ports}}}});
    if (event.blocked_message > 0) {
      events.back()["args"]["blocked_message"] = event.blocked_message;
    }
    if (event.bytes > 0 || event.core >= 0) {
      events.back()["args"]["bytes"] = event.bytes;
      events.back()["args"]["write"] = event.write;
      events.back()["args"]["core"] = event.core;
    }
  }
  const json document = {{"displayTimeUnit", "ns"},
                         {"otherData", {{"cycles", run.cycles}, {"clock_hertz", run.clock_hertz}}},
                         {"traceEvents", std::move(events)}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status write_perfetto(const std::string& path, const RunResult& run) {
  const std::string text = report::timeline_text(run);
  return write_text_file(path, text);
}

}  // namespace tessera

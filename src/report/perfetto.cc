// The timeline as Chrome trace events, which Perfetto opens. One process; a microsecond of the viewer
// is a microsecond of the modelled clock. An engine has as many tracks, of its name, as it has steps
// at once: the first loads what the next works on, and the viewer drops what overlaps in a track.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "package/container.h"
#include "report/core_waits.h"
#include "report/page_texts.h"
#include "tessera/file.h"
#include "tessera/session.h"

namespace tessera {

namespace {

using nlohmann::json;

// Which track of its engine each event of a timeline is on, from 0.
std::vector<std::size_t> rows_of(const std::vector<TimelineEvent>& timeline) {
  std::vector<std::size_t> order(timeline.size()), rows(timeline.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return timeline[i].begin; });
  std::map<std::string, std::vector<Cycles>> ends;  // of each track so far
  for (const std::size_t i : order) {
    std::vector<Cycles>& tracks = ends[timeline[i].engine];
    const auto free =
        std::ranges::find_if(tracks, [&](Cycles end) { return end <= timeline[i].begin; });
    rows[i] = static_cast<std::size_t>(free - tracks.begin());
    if (free == tracks.end()) tracks.push_back(0);
    tracks[rows[i]] = timeline[i].end;
  }
  return rows;
}

// The tracks of an engine; their numbers follow each other.
struct Tracks {
  int first = 0;
  std::size_t count = 1;
};
std::map<std::string, Tracks> tracks_of(const RunResult& run,
                                        const std::vector<std::size_t>& rows) {
  std::map<std::string, Tracks> tracks;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Tracks& engine = tracks[run.timeline[i].engine];
    engine.count = std::max(engine.count, rows[i] + 1);
  }
  int next = 1;
  for (const EngineUse& engine : run.engines) {
    Tracks& at = tracks[engine.name];
    at.first = next;
    next += static_cast<int>(at.count);
  }
  return tracks;
}

json described(const char* what, int track, const char* key, const json& value) {
  return {{"ph", "M"}, {"pid", 1}, {"tid", track}, {"name", what}, {"args", {{key, value}}}};
}

}  // namespace

std::string report::timeline_text(const RunResult& run) {
  const double microseconds_per_cycle =
      run.clock_hertz > 0 ? 1e6 / static_cast<double>(run.clock_hertz) : 1.0;
  const std::vector<std::size_t> rows = rows_of(run.timeline);
  std::map<std::string, Tracks> tracks = tracks_of(run, rows);
  json events = json::array();
  events.push_back(
      {{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "core 0"}}}});
  for (const EngineUse& engine : run.engines) {
    const Tracks& at = tracks[engine.name];
    for (int track = at.first; track < at.first + static_cast<int>(at.count); ++track) {
      events.push_back(described("thread_name", track, "name", engine.name));
      events.push_back(described("thread_sort_index", track, "sort_index", track));
    }
  }
  for (std::size_t i = 0; i < run.timeline.size(); ++i) {
    const TimelineEvent& event = run.timeline[i];
    events.push_back(
        {{"ph", "X"},
         {"pid", 1},
         {"tid", tracks[event.engine].first + static_cast<int>(rows[i])},
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
  json other = {{"cycles", run.cycles}, {"clock_hertz", run.clock_hertz}};
  if (!run.cores.empty()) other["waits"] = report::waits_json(run);
  const json document = {{"displayTimeUnit", "ns"},
                         {"otherData", std::move(other)},
                         {"traceEvents", std::move(events)}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Status write_perfetto(const std::string& path, const RunResult& run) {
  const std::string text = report::timeline_text(run);
  return write_text_file(path, text);
}

}  // namespace tessera

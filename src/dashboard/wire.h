// What the server sends, as JSON texts.
//
//   state     {"title", "pid", "snapshot": {...}, "limit": {"cause", "place", "text"},
//              "stages": [...], "choices": [...]}
//   events    {"next", "missed",
//              "events": [[kind, source, begin, end, packet, stream, value, outcome]...]}
//   history   {"from", "to", "until", "has_events", "events": [...], "bin_ns", "first_bin",
//              "bins": [{"busy": [...], "count": [...], "rate": [...], ...} for each source]}
//
// Times are nanoseconds since the recorder was made; kinds are numbers of metrics::EventKind.
#pragma once

#include <span>
#include <string>

#include "dashboard/controls.h"
#include "metrics/collector.h"

namespace tessera::dashboard {

// `controls` may be null.
std::string state_text(metrics::Collector& collector, Controls* controls, const std::string& title);
std::string events_text(const metrics::NewEvents& news);
std::string history_text(const metrics::HistoryAnswer& answer);
std::string error_text(const Error& error);

}  // namespace tessera::dashboard

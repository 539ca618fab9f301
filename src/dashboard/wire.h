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

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "dashboard/controls.h"
#include "metrics/collector.h"

namespace tessera::dashboard {

// `controls` may be null.
std::string state_text(metrics::Collector& collector, Controls* controls, const std::string& title);
std::string events_text(const metrics::NewEvents& news);
std::string error_text(const Error& error);

// A history's text in pieces: a few hundred kilobytes of events, then the bins of a source each.
class HistoryPieces {
 public:
  explicit HistoryPieces(metrics::HistoryAnswer answer) : answer_(std::move(answer)) {}
  std::string next();
  bool at_end() const { return at_end_; }  // next() has given the last piece
  std::size_t held_bytes() const;          // by the answer and one piece

 private:
  const metrics::HistoryAnswer answer_;
  std::size_t events_ = 0, sources_ = 0;  // written so far
  bool has_begun_ = false, at_end_ = false;
};

}  // namespace tessera::dashboard

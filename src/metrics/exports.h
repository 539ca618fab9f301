// What was measured, in the forms that other tools read.
//
//   events   ─► Chrome trace JSON (Perfetto, chrome://tracing), JSON lines
//   snapshot ─► Prometheus text (format 0.0.4), JSON
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "metrics/collector.h"
#include "metrics/event.h"
#include "metrics/recorder.h"
#include "metrics/snapshot.h"

namespace tessera::metrics {

using SourceStates = std::vector<Recorder::SourceState>;

// A track for each kernel's transfers in, runs and transfers out, for each thread's worth of a
// stage's runs, a counter for each queue, marks for faults and control changes. Events in the order
// of their begins.
std::string perfetto_text(std::span<const Event> events, const SourceStates& sources);
// The same, piece by piece; ends at the first error of `write`.
Status write_perfetto(std::span<const Event> events, const SourceStates& sources,
                      const std::function<Status(const std::string&)>& write);

// The same for a slow reader: the next piece, of about 256 KiB, on request.
class PerfettoPieces {
 public:
  PerfettoPieces(std::vector<Event> events, SourceStates sources);
  ~PerfettoPieces();
  std::string next();
  bool at_end() const;  // next() has given the last piece

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// An object per line, each ended by a newline.
std::string json_lines_text(std::span<const Event> events, const SourceStates& sources);
// The line behind the last event of a file (event_file.h).
inline constexpr const char* kEndOfEvents = "end of events";
struct EndOfEvents {
  std::int64_t events = 0;
  std::int64_t lost = 0;  // that found no room in a ring or before the disk
};
std::string end_line_text(const EndOfEvents& end);

// Each metric with HELP and TYPE; times in seconds, sizes in bytes.
std::string prometheus_text(const Snapshot& snapshot);

// One object on one line. Times are nanoseconds; utilisation is a share from 0 to 1.
std::string snapshot_json_text(const Snapshot& snapshot);

}  // namespace tessera::metrics

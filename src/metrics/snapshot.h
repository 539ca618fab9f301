// The state of a running system at one moment: what the Collector hands out and the exports write.
#pragma once

#include <cstdint>
#include <vector>

#include "metrics/histogram.h"
#include "metrics/recorder.h"

namespace tessera::metrics {

// Totals count from the first event on; shares are over the window before `Snapshot::at_ns`, rates
// over as much of the past as they need to hold still (steady_rate.h). What goes on counts up to
// now in every time; in counts, when it has ended.
struct SourceSnapshot {
  SourceId id;
  SourceDescription description;
  std::int64_t runs = 0;     // of a stage or kernel
  std::int64_t busy_ns = 0;  // added over the threads of a stage; never less than before
  // Part of the window that a kernel ran, or that a stage's threads worked, 0 to 1.
  double utilisation = 0;
  double runs_per_second = 0;
  double in_share = 0, out_share = 0;  // of the window, in transfers; 1 at most
  std::int64_t cycles = 0;             // simulated, added over the runs
  std::int64_t bytes_in = 0, bytes_out = 0;
  std::int64_t in_ns = 0, out_ns = 0;
  double bytes_in_per_second = 0, bytes_out_per_second = 0;
  std::int64_t depth = 0, depth_max = 0;  // of a queue: now, and at most within the window
  std::int64_t faults = 0;
  std::int64_t running_since_ns = Recorder::kNotRunning;  // the run that has lasted longest
  std::vector<std::int64_t> running;  // when what goes on began, of each thread or kernel
  Distribution run;                   // nanoseconds of each run
  Distribution waited;                // nanoseconds that packets waited in front of a stage
  Distribution transfer_in, transfer_out;
};

struct TaskSnapshot {
  std::int64_t submitted = 0;
  std::int64_t ok = 0, failed = 0, cancelled = 0;
  std::int64_t in_flight() const { return submitted - ok - failed - cancelled; }
  double per_second = 0;      // completed
  Distribution latency;       // of all that ended well, in nanoseconds
  Distribution latency_late;  // of those of the last 5 to 10 seconds
};

struct Snapshot {
  std::int64_t at_ns = 0;
  std::int64_t window_ns = 0;  // shorter than asked for at the beginning of a run
  bool recording = true;
  std::int64_t events = 0;
  std::int64_t dropped = 0;
  TaskSnapshot tasks;
  std::vector<SourceSnapshot> sources;  // in the order of their ids
};

}  // namespace tessera::metrics

// How many a second, from counts in bins of time, where what is counted comes in batches.
//
//   counts   8 . . . . . 8 . . . . . 8 . . . . . 8 . . . .
//            └─ from the end of one batch ──────┘ to the end of another: 24 in this time
//
// A window of fixed length holds now three batches and now four, so that what it counts jumps by a
// third although nothing changes. Time is therefore measured from the end of one batch to the end
// of another: batches are what lies between gaps at least half as long as the longest. The look
// back is one second, and longer where that holds fewer than three whole periods, or begins with a
// gap that is longer than all others: what lies behind it may be one batch of something slower.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::metrics {

struct SteadyRate {
  double per_second = 0;
  int periods = 0;       // whole ones it is measured over; 0: it is a plain quotient
  bool settled = false;  // a longer row of counts would change nothing
};

// The rate at the end of `counts`: bins of `bin_ns` one after the other, the last one over now.
// Silence that is longer than any gap before counts against it; after a second of that, and three
// such gaps, it is zero.
SteadyRate steady_rate(std::span<const std::int32_t> counts, std::int64_t bin_ns);

}  // namespace tessera::metrics

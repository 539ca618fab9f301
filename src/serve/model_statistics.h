// What became of a model's requests, since it was loaded.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "serve/failure.h"

namespace tessera::serve {

// Number of requests and time of all of them.
struct Duration {
  std::int64_t count = 0;
  std::chrono::nanoseconds time{0};

  void add(std::chrono::nanoseconds one) {
    ++count;
    time += one;
  }
};

// How many requests took how long, in buckets that add up over servers: Prometheus' histogram.
struct TimeBuckets {
  static constexpr std::array<double, 14> kBounds = {  // seconds
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};
  std::array<std::int64_t, kBounds.size() + 1> counts{};  // the last: longer than all
  std::chrono::nanoseconds sum{0};

  void add(std::chrono::nanoseconds time) {
    const double seconds = std::chrono::duration<double>(time).count();
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
    ++counts[bucket];
    sum += time;
  }
};

struct ModelStatistics {
  Duration success, failure;  // from the request's bytes to the answer's
  std::map<Problem, std::int64_t> failures;
  Duration queue, input, infer, output;  // of those that succeeded
  struct Parts {
    TimeBuckets total, queue, input, infer, output;
  };
  Parts times;  // likewise
  struct Batch {
    Duration input, infer, output;
  };
  std::map<std::int64_t, Batch> batches;  // by rows: runs, not requests
  std::int64_t runs = 0;
  std::int64_t pending = 0;
  std::int64_t cycles = 0;  // simulated; 0 on host
  // Of a processor of this machine, by core: of `cycles` those in which its array worked.
  std::vector<std::int64_t> core_busy = {};
  std::int64_t last_inference_ms = 0;  // since 1970; 0: none
  std::chrono::nanoseconds busy{0};    // of all instances
  int instances = 1;
  int shapes = 1;  // that are compiled
};

}  // namespace tessera::serve

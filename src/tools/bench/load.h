// tessera bench MODEL: a load on a model through the pipeline, and where its time goes.
#pragma once

#include <string>
#include <vector>

#include "tessera/runtime.h"

namespace tessera::tools {

struct LoadBench {
  std::vector<DeviceOptions> devices;
  double seconds = 3;      // about; 0: `tasks` of them
  std::int64_t tasks = 0;  // 0: as many as fit into `seconds`
  int streams = 1;
  double rate = 0;  // tasks per second that are offered; 0: as fast as there is room
  std::size_t in_flight = 64;
  Handover handover = Handover::kFreeFlow;
  Hint hint = Hint::kThroughput;
  bool tune = false;
  bool device_form = false;                // the host converts at the network's edges
  std::vector<std::string> stage_threads;  // "pre=2"
  std::int64_t compare_every = 0;          // compare one task in this many with the host; 0: none
  std::string trace, events;               // files to write
  bool json = false;
};

// `inputs` are submitted over and over.
Status run_load_bench(const Network& network, const std::vector<Tensor>& inputs,
                      const LoadBench& bench);

}  // namespace tessera::tools

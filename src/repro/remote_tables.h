// Remote access to a processor: here, in a cluster, and through an interface whose every call goes over the network.
//
//   networks ─► RemoteRunner (real processes over loopback) ─► rows, parts of the latency
//
// The processor takes the time of the virtual one (device/timed_backend.h): what differs between the ways is how the
// processor is reached.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "repro/experiment_result.h"

namespace tessera::repro {

// Networks for the published classification tasks, by their names in the zoo.
std::vector<std::string> remote_networks();

struct RemoteCase {
  std::string network;  // of the zoo
  int cores = 16;       // of cloud16
  int runs = 60;        // of each way, one after the other
  int rounds = 5;       // in which the ways take turns
  int in_flight = 4;    // for the throughput
};

// How a processor was reached.
struct RemoteWay {
  double latency_us =
      0;  // median of runs that follow each other, with writing inputs and reading outputs
  double per_second = 0;  // with runs in flight, median of the rounds
  double of_local =
      0;  // per_second divided by the local one of the same round, median of the rounds
  std::int64_t round_trips = 0;  // of a run
};

struct RemoteRun {
  Cycles cycles = 0;
  std::int64_t clock_hertz = 1;
  std::int64_t input_bytes = 0, output_bytes = 0, layers = 0;
  // `local`: in this process; `ours`: of a cluster; `forwarded`: each call of a driver, the network one kernel;
  // `forwarded_layers`: each layer a kernel.
  RemoteWay local, ours, forwarded, forwarded_layers;
  std::int64_t bytes_there = 0, bytes_back = 0;  // messages of ours
  // Of the latency of ours: both ends' reading and writing of messages, in processor time; a bare socket's round trip with
  // as many bytes.
  double serialise_us = 0, wire_us = 0;
};

// The results in the order of the cases. An error names the case.
using RemoteRunner = std::function<Result<std::vector<RemoteRun>>(std::span<const RemoteCase>)>;

// `runs` of each way; 0: those of RemoteCase. Tables `remote` (a row for each network and way) and `parts` (of the latency of ours, a row for each network), a plot, notes,
// and the tables of docs/cluster.md as `tables.md`.
Result<ExperimentResult> remote_tables(const std::vector<std::string>& networks, int runs,
                                       const RemoteRunner& runner);

}  // namespace tessera::repro

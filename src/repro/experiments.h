// Published experiments that the tool runs again: `tessera repro NAME`. A new one is a row of the
// table in experiments.cc.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "repro/card_case.h"
#include "repro/experiment_result.h"
#include "repro/remote_tables.h"
#include "repro/workload.h"

namespace tessera::repro {

struct ExperimentOptions {
  std::string data;     // folder with the published figures
  std::string profile;  // experiments with rows of their own: ours for it, without published ones
  WorkloadRunner runner = {};              // without it workloads are left out, and a note says so
  std::vector<std::string> networks = {};  // card, remote: of the zoo; empty: the published ones
  CardRunner card_runner = {};             // card: needed
  RemoteRunner remote_runner = {};         // remote: needed
  int runs = 0;                            // remote: of each way; 0: its own number
};

struct Experiment {
  const char* name;
  const char* help;   // one line
  const char* needs;  // the files below --data, with their columns
  Result<ExperimentResult> (*run)(const ExperimentOptions& options);
  bool has_rows = false;      // takes ExperimentOptions::profile
  bool has_networks = false;  // takes ExperimentOptions::networks, and no data
};

std::span<const Experiment> experiments();
// By name; an error names the nearest one.
Result<const Experiment*> find_experiment(const std::string& name);

}  // namespace tessera::repro

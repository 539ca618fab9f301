// Published experiments that the tool runs again: `tessera repro NAME`. A new one is a row of the
// table in experiments.cc.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "repro/experiment_result.h"

namespace tessera::repro {

struct Experiment {
  const char* name;
  const char* help;   // one line
  const char* needs;  // the files below --data, with their columns
  Result<ExperimentResult> (*run)(const std::string& data_folder);
};

std::span<const Experiment> experiments();
// By name; an error names the nearest one.
Result<const Experiment*> find_experiment(const std::string& name);

}  // namespace tessera::repro

// A program of the check, with its derived software and its inputs: `check_derived` runs it
// everywhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "concord/software.h"
#include "graph/graph.h"
#include "isa/program.h"
#include "tools/files/golden.h"

namespace tessera::derived {

// Where a program comes from and for which processor it is made.
struct Recipe {
  std::string name;
  std::string source;                    // MODEL.onnx, FIRMWARE.tasm, chains:SEED, graph:SEED
  std::string arch;                      // a profile
  std::vector<std::string> shapes = {};  // NAME=1x3x48x320
  int vectors = 3;
  int native_dimension = 0;                // in place of the profile's where not 0
  std::int64_t tile_budget_bytes = 0;      // of the compiler
  bool formats_of_tessera128 = false;      // in place of the profile's own
  std::vector<std::string> pictures = {};  // real inputs, for the first input
  std::string cases = {};                  // folder of stored cases, and
  std::string model = {};                  // the model's name there
};

struct Case {
  Recipe recipe;
  std::shared_ptr<const graph::Graph> graph;  // lifted; shared with its executors
  concord::Software software;
  std::vector<tools::GoldenVector> vectors;  // outputs from the virtual processor
  std::int64_t values = 0;                   // output values of all vectors
};

// Derives the program without running it.
Result<concord::Software> derive_recipe(const Recipe& recipe);

// Makes the program, derives it and runs it on the virtual processor.
Result<Case> make_case(const Recipe& recipe);

}  // namespace tessera::derived

// Every model of some folders on the host device and in ONNX Runtime, in one run: the distribution of
// the speedups, and the worst ten models with their slowest layers.
//
//   FOLDER/models/*.onnx, or FOLDER/*.onnx      the models
//   FOLDER/cases/CASES.tsv                      their inputs (tests/models); without it random ones
#pragma once

#include <string>
#include <vector>

#include "onnxruntime_server.h"
#include "tessera/result.h"

namespace tessera::bench {

struct StoredModels {
  std::vector<std::string> folders;
  std::string only;  // one model, by its file's name without ".onnx"
  std::string arch;
  std::string instructions;  // as --instructions says, for the lines
  int rounds = 15;           // measured ones
  int threads = 2;
  int layers = 5;     // listed of each of the worst models; 0: none
  bool json = false;  // one JSON object; else a table
};

// What either side cannot run is left out, with the reason. kInvalidArgument: a folder cannot be
// read, or there is no model in it; kUnavailable: no model was measured.
Status measure_stored(const StoredModels& what, OnnxRuntimeServer& ort);

}  // namespace tessera::bench

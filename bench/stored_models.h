// Every model of some folders on the host device and in ONNX Runtime, in one run. A line of JSON
// per model, as soon as it is measured: a run that is ended early has printed what it measured.
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
  bool json = false;  // lines; else a table at the end
};

// What either side cannot run is a line with the reason.
Status measure_stored(const StoredModels& what, OnnxRuntimeServer& ort);

}  // namespace tessera::bench

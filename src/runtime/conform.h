// ONNX backend tests: directories with model.onnx and test_data_set_*/{input,output}_*.pb.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "network/network.h"
#include "tessera/session.h"

namespace tessera::runtime {

enum class Verdict { kPassed, kRefused, kWrong };

struct ConformResult {
  std::string test;  // folder name
  Verdict verdict = Verdict::kPassed;
  std::string reason;  // why it was refused, or the first difference
  std::int64_t nodes_on_host = 0, nodes_on_processor = 0;
  std::int64_t inputs_bound = 0;  // inputs whose value a shape depends on, given at compile time
};

struct ConformTolerance {
  double relative = 1e-3;
  double absolute = 1e-5;
};

// Every folder below `folder` that holds a model.onnx, and every NAME.onnx beside a
// NAME_output_0.pb, sorted.
Result<std::vector<std::string>> find_tests(const std::string& folder);

// Runs all data sets of one test. Float outputs are compared within the tolerance, others exactly.
// What the compiler or a device refuses is kRefused with its reason; a result that differs, a
// broken output count or an error while running is kWrong.
ConformResult run_test(const std::string& folder, const ChipConfig& chip,
                       const SessionOptions& session, const ConformTolerance& tolerance);

}  // namespace tessera::runtime

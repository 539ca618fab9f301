// Derived software held against its program, output by output and bit by bit.
//
//   program ──virtual processor──► outputs ─┐
//   software ──evaluator, or a runtime──────┴─► equal, or the first layer and element that is not
//
// Where an output differs, the software is run once more with every layer's result as an output;
// the layers are those of the lifted graph, whose values the host device gives.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "concord/software.h"
#include "graph/graph.h"
#include "tools/derived/runtimes.h"
#include "tools/files/golden.h"

namespace tessera::tools {

struct DerivedPair {
  std::string name;
  std::shared_ptr<const graph::Graph> graph;  // lifted; shared with the executors that run it
  const concord::Software* software = nullptr;
};

struct Difference {
  std::string runtime, layer, tensor;
  std::int64_t element = 0;
  double program = 0, derived = 0;
};
// "layer 'conv1', tensor 'y', element 7: the program has 1, the derived software 2 (c++)"
std::string difference_text(const Difference& difference);

// One runtime over all vectors and configurations.
struct RuntimeTally {
  std::string runtime;  // "evaluator", "onnxruntime", "python", "c++"
  std::int64_t runs = 0, values_compared = 0, mismatches = 0;
};

struct Verification {
  std::vector<RuntimeTally> tallies;
  std::optional<Difference> first;

  std::int64_t values_compared() const;
  std::int64_t mismatches() const;
};

// Adds the evaluator's tally.
Status verify_by_evaluator(const DerivedPair& pair, const std::vector<GoldenVector>& vectors,
                           Verification& result);
// Adds the tally of what a runtime gave for the vectors.
Status verify_runs(const DerivedPair& pair, const std::vector<GoldenVector>& vectors,
                   DerivedRuntime runtime, const std::vector<DerivedRun>& runs,
                   const DerivedRuntimeOptions& options, Verification& result);

}  // namespace tessera::tools

// A package: frames of tasks for each layer, weights once, performance model, the typed graph,
// hints; templates of what several cores do. Made once, in seconds.
//
// Packages and programs are untrusted files: magic, version, fingerprint and digest are checked
// before use (package/container.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "graph/graph.h"
#include "isa/templates.h"
#include "isa/unlinked.h"

namespace tessera::package {

// A transposition, for reports: how it is done and what the next best way would have cost.
struct TranspositionHint {
  std::string tensor;       // that is turned
  std::string reader;       // the layer, or the model's Transpose, that wants it so
  std::uint32_t layer = 0;  // index into hints: the turning layer, or the reader
  std::string way;          // "array", "planar", "dma", "copy" (DRAM to DRAM), "view" and "swapped"
                            // (nothing left to do)
  std::int64_t elements = 0;                             // of the tensor
  std::int64_t channels = 0, columns = 0, matrices = 0;  // exchanged axes; 0: not cut into matrices
  Cycles cycles = 0;                                     // by the cost formulas
  std::int64_t dram_bytes = 0;
  std::string next_way;  // empty: there is none
  Cycles next_cycles = 0;
};

// Occupancy of a memory, for reports and for the quadratic checker.
struct PlacementRecord {
  std::string name;
  bool in_state_buffer = true;  // else DRAM workspace
  std::int64_t offset = 0;      // bytes (a partition's bytes for the state buffer)
  std::int64_t bytes = 0;
  std::int64_t first_use = 0;  // position in issue order, inclusive
  std::int64_t last_use = 0;
};

struct Package : isa::Unlinked {
  std::shared_ptr<const graph::Graph> graph;  // with constants
  std::vector<TranspositionHint> transpositions;
  std::vector<PlacementRecord> placements;
  std::int64_t state_buffer_peak_bytes = 0;               // a partition
  std::shared_ptr<const isa::PreparedPrograms> prepared;  // for several cores; null: nothing
};

}  // namespace tessera::package

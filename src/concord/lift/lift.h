// Program -> Graph: reads the layers back out of a linked program.
//
//   tasks, weights, slots ─► tags through the memories ─► layers ─► Moves between them ─► Graph
//
// The graph has the program's arithmetic and nothing else of it: no tiles, no addresses, no
// transfers. Executed (`ref`, `host`) or written as software (`derive`) it gives the
// program's bits. Only the program is read, never the model or the package it was made of, and of
// its hints only what the tasks prove is used (docs/concordance.md, "Lifting").
#pragma once

#include <cstdint>
#include <memory>

#include "arch/chip_config.h"
#include "base/result.h"
#include "graph/graph.h"
#include "isa/program.h"

namespace tessera::concord {

struct LiftOptions {
  // Off: each task becomes a layer of its own, as in a program without hints.
  bool use_hints = true;
  // Bytes of a region of memory that may be followed: each of its elements has eight bytes beside
  // it meanwhile, reserved at once and taken as they are touched. A program with more: kDoesNotFit.
  std::int64_t region_bytes_max = std::int64_t{1} << 36;
};

// Inputs and outputs of the graph have the names, formats and shapes of the program's, in their
// order. The program is verified first. An error names the task and what in it no graph can say.
Result<std::shared_ptr<const graph::Graph>> lift(const isa::Program& program,
                                                 const ChipConfig& chip,
                                                 const LiftOptions& options = {});

}  // namespace tessera::concord

// Graph -> a program for the cores of a card: each layer is cut into shares, one a core.
//
//   graph ─► layers ─► shares of each layer ─► a plan a core ─► tasks a core
//                        ─► dependencies on the core's own tasks, and on those of other cores
//
// Nothing here changes bits: any number of cores and any split give what compile() gives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/compile_options.h"
#include "compile/share_choice.h"
#include "graph/graph.h"
#include "isa/card_program.h"
#include "isa/performance_model.h"

namespace tessera::compile {

inline constexpr int kCoresMax = 64;

// What was done with a layer, for reports.
struct LayerShare {
  std::string name;
  graph::NodeIndex node = -1;  // of the graph; -1: none
  ShareWay way = ShareWay::kOneCore;
  int cores = 0;                // that have tasks of it
  std::string reason;           // why it was not cut; empty if it was
  std::int64_t bytes_read = 0;  // of DRAM, by all cores together: useful bytes
  std::int64_t bytes_written = 0;
  HandOver hand_over = HandOver::kNothing;  // of its results
};

struct SharedProgram {
  isa::CardProgram card;
  ShareChoice choice;  // what it was compiled for: perhaps fewer cores than it has
  // What the splits were chosen by; null where they were asked for.
  std::shared_ptr<const isa::ModelledCores> model;
  std::vector<LayerShare> layers;  // by layer, as the hints of the first core's program
  std::int64_t remote_dependencies = 0;
  std::int64_t load_shares = 0;  // loads that several cores have in common, each counted once
  bool filled_in = false;        // from a package's templates, and not compiled
};

// For 1 to kCoresMax cores. There are no cascades, whatever `options` says of that. An error names the layer, what was found, what is allowed and the way out.
Result<SharedProgram> compile_shares(const std::shared_ptr<const graph::Graph>& graph,
                                     const ChipConfig& chip, const CompileOptions& options,
                                     const ShareChoice& choice);

}  // namespace tessera::compile

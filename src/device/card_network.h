// A network compiled for cores of a card, and what is known of its runs before they begin.
#pragma once

#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "device/backend.h"
#include "device/host_steps.h"
#include "isa/card_program.h"
#include "network/network.h"
#include "tessera/core_split.h"
#include "tessera/run_result.h"

namespace tessera::device {

struct CardNetwork {
  isa::CardProgram program;
  OpenSteps host_steps;
  std::vector<LayerSplit> splits;  // by layer
  std::vector<CorePlace> places;   // of the cores
  bool filled_in = false;          // from the package's templates, and not compiled

  const isa::Program& first() const { return program.cores[0]; }  // has weights, inputs and outputs
  std::vector<Loaded::Tensor> inputs() const;
  std::vector<Loaded::Tensor> outputs() const;
  // Of the host's memory that the program takes, about.
  std::int64_t host_bytes() const;
  // Of a run with no cycles yet: layers, places, and the time of host and link.
  RunResult begin_result(const ChipConfig& chip) const;
};

// As network::program_for_cores().
Result<CardNetwork> compile_for_card(const NetworkState& network, const ChipConfig& chip,
                                     const CardPlacement& placement, CoreSplit split,
                                     int cores_per_image = 0);

std::vector<CorePlace> places_of(const CardPlacement& placement, const ChipConfig& chip);

}  // namespace tessera::device

// A network's program for several cores of a card, or of several cards.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/card_placement.h"
#include "base/result.h"
#include "compile/compile_shares.h"
#include "isa/templates.h"
#include "network/network.h"
#include "tessera/core_split.h"

namespace tessera::compile {
class SplitChooser;
}

namespace tessera::network {

// For cores that lie so, with the features of the architecture's card, and proved: as the package has it
// (network/prepared_cores.h), or else compiled.
// With `cores_per_image`, which divides the cores and is not 0, each team of so many has an image of its
// own (compile/image_cores.h). kUnsupported for a network that is a program, and for teams that lie in the
// groups in too many ways.
// `chooser`: of the network's graph and chip, for programs that are made in a row; null: it has one of its own.
Result<compile::SharedProgram> program_for_cores(const NetworkState& network,
                                                 const CardPlacement& placement, CoreSplit split,
                                                 int cores_per_image = 0,
                                                 compile::SplitChooser* chooser = nullptr);

// The same with each node of the graph cut as `of_nodes` says, whatever the package has: the values of
// compile::Split, in a performance model's order (isa::ModelledCores::chosen). An error if they are not as many,
// or others.
Result<compile::SharedProgram> program_for_ways(const NetworkState& network,
                                                const CardPlacement& placement,
                                                const std::vector<std::uint8_t>& of_nodes);

// What the package has the program of one image under, if it has it.
isa::PreparedFor key_of_placement(const ChipConfig& chip, const CardPlacement& placement,
                                  CoreSplit split);

}  // namespace tessera::network

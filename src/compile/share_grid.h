// The grid of a layer that the cores of a card cannot share evenly along one axis: bands of its surface
// times ranges of its channels.
//
//   35 rows, 64 channels, 16 cores with 16 x 16 arrays:   by rows      3 rows x 4 blocks of channels = 12
//                                                         in a grid    9 rows x 1 block              =  9
#pragma once

#include "arch/chip_config.h"
#include "compile/layer.h"
#include "compile/share_choice.h"
#include "graph/graph.h"

namespace tessera::compile {

// The grid whose largest share takes the fewest cycles of the array, or of the lanes, for a layer that
// has no kernel slices yet. One band and one range where a cut along one axis takes no longer, with what
// a grid costs beside its cycles: results of more cores to wait for, and half of its input to read again.
// A band of columns is at least two bursts of DRAM. A layer that does not sum over channels takes
// `before`, the grid of what it reads, where that costs no more than a few hundredths: its results stay.
ShareGrid find_grid(const graph::Graph& graph, const ChipConfig& chip, const PlannedLayer& layer,
                    const ShareChoice& choice, const ShareGrid& before);

}  // namespace tessera::compile

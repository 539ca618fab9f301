// A Move done by loading: its boxes are read from DRAM straight into the resident block of its
// output, so that upsampling, concatenation and permutation cost one load instead of a copy, a
// store and a load.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/buffer_layout.h"
#include "compile/storage.h"

namespace tessera::compile {

// One load: a view of the source in DRAM to a view of the resident storage.
struct LoadMove {
  StorageView from;
  StorageView to;
};

// The loads that do `copy` into a block laid out as `layout` over `whole`; none where a load cannot
// walk the box, or too many would be needed.
std::optional<std::vector<LoadMove>> plan_load_moves(const PlannedCopy& copy,
                                                     const StorageView& whole,
                                                     const BufferLayout& layout);

}  // namespace tessera::compile

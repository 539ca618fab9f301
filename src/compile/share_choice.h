// How a layer's results are shared out among the cores of a card: along which axis, in how many
// parts. No sum is cut, so no bit depends on it.
//
//   rows      core 0 | core 1 | core 2       bands of the output surface; columns where it has one row
//   channels  core k: its output channels    of products with kernel slices of their own
//   grid      core 0 | core 1                bands of the surface, and ranges of channels in each
//             core 2 | core 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compile/layer.h"
#include "compile/pieces.h"

namespace tessera::compile {

// What is wanted. A layer that cannot be cut so is cut another way, or runs on one core.
enum class Split : std::uint8_t {
  kRows,      // W: rows of the output surface
  kChannels,  // OC: output channels
  kGrid,      // both, where the cores could not share the layer evenly along one axis; else rows
};
inline constexpr std::size_t kSplitWays = 3;
inline constexpr int kGridCoresMin = 4;  // fewer have no grid

enum class ShareWay : std::uint8_t {
  kOneCore,
  kRows,
  kColumns,
  kChannels,
  kGrid,
  kImages,
  kCopies,  // parts of DRAM to DRAM copies
  kParts,   // of a transposition
  kHost,    // a host step: no core has a part in it
  kNone,    // nothing to do: a view of another layer's results
};
const char* share_way_name(ShareWay way);  // "one core", "rows", "rows and channels", ...

// Whether a layer's results stay in the state buffers of the cores that made them, or why not. Numbers
// are stored.
enum class HandOver : std::uint8_t {
  kNothing,      // no results, or nobody reads them
  kStays,        // for some reader at least
  kSwitchedOff,  // as plainer cards do it
  kInDram,       // a fill, a copy or a host step writes it, or makes it in DRAM
  kOtherLayout,  // what cores write or read are no boxes of one layout
  kOthersRead,   // readers take more of what other cores made than of their own
  kNoRoom,       // of the state buffer
  kKernels,      // image by image, kernels would come from DRAM again for each
};
inline constexpr std::uint8_t kHandOverCount = 8;
const char* hand_over_name(HandOver hand_over);  // "stays", "no room", ...

struct ShareChoice {
  int cores = 1;
  Split split = Split::kRows;
  std::vector<Split> of_nodes;  // of each graph node; empty: `split` for all
  // The memory beside each core (isa/card_program.h); empty: all have the same.
  std::vector<std::uint8_t> memory_of_core = {};
  std::size_t memory_of(std::size_t core) const {
    return memory_of_core.empty() ? 0 : memory_of_core[core];
  }
  bool share_loads = true;   // whether equal loads of several cores become one read
  bool hand_over = true;     // whether what a core reads of its own stays in its state buffer
  bool order_memory = true;  // whether rows may lie outermost in DRAM (compile/dram_order.h)
  // As plainer cards do it (compile/plain_order.h).
  bool meet_after_layers = false, load_before_arithmetic = false;
};

// How a neural or planar layer is cut; kOneCore if it cannot be. It is known before a product has
// kernel slices, but not before it has a grid.
ShareWay find_way(const PlannedLayer& layer, const ShareChoice& choice);
// Why nothing else than kOneCore was found for a neural or planar layer.
const char* one_core_reason(const PlannedLayer& layer);
// The parts, at most one a core; together the whole output, no two of them with a result in common.
// The sizes along the axis differ by one at most (products of several groups: by one group); in a grid
// channels are counted in blocks of the array or of the lanes. A grid's bands follow each other, each with
// all its ranges.
std::vector<LayerBox> share_boxes(const PlannedLayer& layer, const ShareChoice& choice);

// Whether a layer is to be cut into a grid if that is better, and the extent of the axis that has its bands.
bool may_have_grid(const PlannedLayer& layer, const ShareChoice& choice);
std::int64_t band_extent(const PlannedLayer& layer);

}  // namespace tessera::compile

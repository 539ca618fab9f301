// Which storages can stay in the state buffer between the layer that writes them and those that
// read them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compile/load_moves.h"
#include "compile/plan.h"

namespace tessera::compile {

// Part of a Move that is done by loading into the resident block.
struct ResidentMove {
  std::int32_t layer = 0;  // the Move
  std::int32_t after = 0;  // the layer after which it is loaded: its source is complete
  LoadMove load;
};

struct Resident {
  bool written = false;   // its writers can leave it in the buffer, laid out as `layout`
  bool possible = false;  // some reader can take it from the buffer
  bool active = false;    // it is to stay there
  BufferLayout layout;
  std::int32_t first_layer = 0, last_layer = 0;  // written first, read last
  std::int32_t segment_first = 0;                // first layer of its segment
  std::int32_t uses = 0;                         // reads it saves
  std::vector<ResidentMove> moves;               // how Moves write it
  std::int32_t late_first_layer =
      0;  // first_layer, if Moves load no sooner than somebody else writes it
};

using Residents = Table<StorageIndex, Resident>;

// All uses of one storage.
struct StorageUses {
  std::vector<LayerIndex> writers;                          // processor layers
  std::vector<std::pair<LayerIndex, std::size_t>> readers;  // processor layers and their input
  std::vector<std::pair<LayerIndex, const PlannedCopy*>> copies;  // layers that copy into it
  bool filled = false;                                            // a fill or a host step writes it
  bool read_in_dram = false;                                      // a copy or a host step reads it
  LayerIndex last_writer = -1;                                    // of all layers
};
Table<StorageIndex, StorageUses> find_uses(const PlanInputs& inputs);
// Views whose layouts a storage may take: its only writer's, then those of readers that take it all.
std::vector<StorageView> layout_views(const PlanInputs& inputs, const Storage& storage,
                                      const StorageUses& uses);

// The segment of each layer: host steps cut the program.
Table<LayerIndex, std::int32_t> layer_segments(const Layers& layers);

// A view of a layer's operand in a block: whole, or image by image.
enum class Fit : std::uint8_t { kNone, kWhole, kByImage };
enum class Start : std::uint8_t {
  kFirstPartition,  // planar operands begin in partition 0
  kWithinBlock,  // operands of products may begin elsewhere if they stay within their channel block
  kAnywhere,     // results of the array, what it transposes
};
Start start_of_inputs(const PlannedLayer& layer);
Start start_of_output(const PlannedLayer& layer);
Fit fit_view(const BufferLayout& layout, const StorageView& view, Start start);
Fit fit_input(const BufferLayout& layout, const PlannedLayer& layer, std::size_t input);
Fit fit_output(const BufferLayout& layout, const PlannedLayer& layer);

// The last layer that reads each storage, -1 if none does; graph outputs are read after all.
Table<StorageIndex, LayerIndex> find_last_reads(const PlanInputs& inputs);

// One entry a storage, none active.
Residents find_residents(const PlanInputs& inputs);

// Has Moves load as late as they can, for a shorter life. False where that changes nothing.
bool load_late(Resident& resident);

// The parts of Moves whose source is complete after a layer: by storage, then in its order.
struct MoveAfter {
  StorageIndex storage = -1;
  std::size_t move = 0;  // in Resident::moves
};
using MovesAfter = Table<LayerIndex, std::vector<MoveAfter>>;
MovesAfter find_moves_after(const Residents& residents, std::size_t layers);

// Bytes of the state buffer that the active residents take, for any range of layers.
class ResidentBytes {
 public:
  ResidentBytes(const Residents& residents, std::size_t layers);
  // Of those that live at some time within these layers.
  std::int64_t within(LayerIndex first, LayerIndex last) const {
    return begun_[last] - (first == 0 ? 0 : ended_[first - 1]);
  }

 private:
  Table<LayerIndex, std::int64_t> begun_, ended_;  // by the end of each layer
};

}  // namespace tessera::compile

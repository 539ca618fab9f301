// What stays in the state buffers of several cores between the layer that makes a storage and those
// that read it: of each core its own share, with the edges that it reads of other cores' shares. Only
// the edges go through DRAM.
//
//   core 0   [ own rows      | edge ]              own: written by the core's tasks
//   core 1             [ edge | own rows | edge ]   edge: stored by its owner, loaded here
//
// A reader that needs much of what other cores made takes all of it from DRAM, where it is stored for
// it; so do copies, host steps, and whoever takes the network's results. What several layers write
// column by column is kept also where nobody takes it there, until the last of them has written the
// rest: what goes to DRAM are whole rows, not single elements.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compile/channel_plane.h"
#include "compile/plan.h"
#include "compile/residency.h"
#include "compile/share_choice.h"
#include "compile/share_plan.h"

namespace tessera::compile {

// A core's part of a storage that stays.
struct HeldPart {
  PlaneRegion held;                 // empty: nothing
  PlaneRegion written;              // of it, by this core
  std::vector<PlaneRegion> loads;   // of it what other cores make
  std::vector<PlaneRegion> stores;  // of what this core makes: wanted by others
};

struct HeldStorage {
  bool active = false;
  bool stored = false;  // all of it goes to DRAM as well
  bool gathered =
      false;  // of writers each of which has some of every row: the last one stores for all
  HandOver why = HandOver::kNothing;  // kStays while it is active
  ChannelPlane plane;
  std::vector<HeldPart> cores;
  LayerIndex first_layer = 0;       // writes it first
  LayerIndex last_layer = 0;        // reads it last in the buffer, or stores it
  std::vector<LayerIndex> writers;  // in the buffer, in order; others store what they write
  LayerIndex load_layer = 0;        // reads it first in the buffer
  std::vector<std::pair<LayerIndex, std::size_t>> readers;  // in the buffer, and which input it is
  std::int64_t bytes = 0;                                   // a partition, of the largest part
  // Readers that would have it otherwise in the buffer than it lies there, and take it from DRAM.
  std::vector<std::pair<LayerIndex, std::size_t>> unfit_readers;
  bool unfit = false;  // given up, since it could not lie there

  bool lives_at(LayerIndex layer) const {
    return active && first_layer <= layer && layer <= last_layer;
  }
  bool taken_by(LayerIndex layer, std::size_t input) const;
  bool written_by(LayerIndex layer) const;
};
using HeldStorages = Table<StorageIndex, HeldStorage>;

// Whether the layer can take its operands from the state buffer, or leave its results there.
bool reads_buffer(const PlannedLayer& layer);
bool writes_buffer(const PlannedLayer& layer);

// All that can stay, active. `pieces` has those of each layer and core as if all went through DRAM.
HeldStorages find_held(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work);

// One of its readers takes it from DRAM; what nobody else takes in the buffer is given up. `work` as for
// find_held().
void drop_reader(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work,
                 LayerIndex reader, std::size_t input, HeldStorage& held);
// Gives up a storage.
void demote(HeldStorage& held, HandOver why);
// Gives up the storage alive within these layers that saves least for the room and time it takes.
// False if none is.
bool demote_held(HeldStorages& held, LayerIndex first, LayerIndex last);

}  // namespace tessera::compile

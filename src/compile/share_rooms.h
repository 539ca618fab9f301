// What a core's tasks wait for because their results, or what they load, lie where earlier layers still
// read or write: the state buffer is used again and again.
//
//   layer 3   reads ░░░░ of the buffer, task after task
//   layer 5   writes there: its first task begins when layer 3 has read what lies where that writes
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/table.h"
#include "compile/layer_timeline.h"
#include "compile/share_draft.h"

namespace tessera::compile {

// Of each layer, of each core. Only what a later task waits for beyond what an earlier one of its layer
// did; nothing of the layer's own tasks, and nothing that it reads: that is a need (ShareNeed).
Table<LayerIndex, std::vector<std::vector<RoomWait>>> find_rooms(const ShareDraft& draft,
                                                                 const ChipConfig& chip);

}  // namespace tessera::compile

// How layers are shared out among the cores of a card.
#pragma once

#include <string>

#include "tessera/result.h"

namespace tessera {

// Each core makes some rows of a layer's results, or some of its output channels; kAuto: of each layer
// the one that takes less time by the performance model. A layer that cannot be cut so is cut the
// other way, or runs on one core. No bit depends on it.
enum class CoreSplit { kAuto, kRows, kChannels };
const char* core_split_name(CoreSplit split);  // "auto", "w", "oc"
// Of such a name; kInvalidArgument names those there are.
Result<CoreSplit> core_split_from_name(const std::string& name);

}  // namespace tessera

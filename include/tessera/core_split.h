// How layers are shared out among the cores of a card.
#pragma once

namespace tessera {

// Each core makes some rows of a layer's results, or some of its output channels. A layer that cannot
// be cut so is cut the other way, or runs on one core. No bit depends on it.
enum class CoreSplit { kRows, kChannels };

}  // namespace tessera

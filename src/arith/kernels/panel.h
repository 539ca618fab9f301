// The pixels of a panel: strips of them, beside each other.
#pragma once

#include <cstdint>

namespace tessera::kernels {

inline constexpr std::int64_t kStripPixels = 16;
inline constexpr std::int64_t kPanelStrips = 4;
inline constexpr std::int64_t kPanelPixels = kStripPixels * kPanelStrips;

}  // namespace tessera::kernels

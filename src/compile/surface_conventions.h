// What the whole compiler takes for granted of surfaces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::compile {

// Places of the axes in the extents and strides of a view.
enum Axis : std::size_t { kImages, kChannels, kRows, kColumns };

// Every region of DRAM begins at a multiple of this, a burst of the largest channel.
constexpr std::int64_t kAlignmentBytes = 64;

}  // namespace tessera::compile

// The order of a layer's axes. Any order means the same; the one in which its input lies already
// needs no Move in front of the layer.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "concord/lift/groups.h"
#include "concord/lift/tags.h"

namespace tessera::concord {

// The elements of an operand that a step reads: `channel_count` channels, the rows and columns that
// are set.
struct SurfaceCells {
  TagSurface surface;
  std::int64_t width = 1;  // granules an element
  std::int64_t channel_first = 0, channel_count = 1;
  const std::vector<bool>& rows;
  const std::vector<bool>& columns;
};

struct AxisOrder {
  std::array<std::size_t, 4> axes = {kImages, kChannels, kRows, kColumns};
  int known = 0;                  // axes along which the value goes on
  bool channels_fastest = false;  // neighbours in the value are neighbouring channels
};
// From the distances, in the value that is read, of neighbours along each axis.
AxisOrder order_of_axes(ShadowCore& core, const SurfaceCells& cells);

// The product is one of matrices: one tap, every pixel once, one group.
bool is_matrix(const Group& group);
// And its input lies that way, or either way.
bool is_matrix_product(const Group& group, const AxisOrder& order);

}  // namespace tessera::concord

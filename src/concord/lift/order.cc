#include "concord/lift/order.h"

#include <algorithm>
#include <cstdlib>

namespace tessera::concord {
namespace {

// The distance from one element to another of the same value, or 0.
std::int64_t distance(Tag from, Tag to) {
  if (tag_value(from) != tag_value(to) || is_constant(from) || tag_value(from) == kNothing) {
    return 0;
  }
  return std::abs(tag_granule(to) - tag_granule(from));
}

// The first two places that are read, or -1.
std::array<std::int64_t, 2> first_two(const std::vector<bool>& read) {
  std::array<std::int64_t, 2> places = {-1, -1};
  for (std::size_t i = 0, found = 0; i < read.size() && found < 2; ++i) {
    if (read[i]) places[found++] = static_cast<std::int64_t>(i);
  }
  return places;
}

}  // namespace

AxisOrder order_of_axes(ShadowCore& core, const SurfaceCells& cells) {
  AxisOrder order;
  const auto [row, next_row] = first_two(cells.rows);
  const auto [column, next_column] = first_two(cells.columns);
  if (row < 0 || column < 0) return order;
  const auto tag = [&](std::int64_t channel, std::int64_t r, std::int64_t x) {
    return core.element(
        cells.surface.row(cells.channel_first + channel, r) + x * cells.surface.column_pitch,
        cells.width);
  };
  const Tag here = tag(0, row, column);
  const std::int64_t channels = cells.channel_count > 1 ? distance(here, tag(1, row, column)) : 0;
  const std::int64_t rows = next_row >= 0 ? distance(here, tag(0, next_row, column)) : 0;
  const std::int64_t columns = next_column >= 0 ? distance(here, tag(0, row, next_column)) : 0;
  for (const std::int64_t d : {channels, rows, columns}) order.known += d > 0 ? 1 : 0;
  const auto within = [&](std::int64_t other) { return other == 0 || channels < other; };
  if (channels > 0 && order.known > 1 && within(rows) && within(columns)) {
    order.channels_fastest = true;
    order.axes = {kImages, kRows, kColumns, kChannels};
  } else if (channels > 0 && rows > channels && columns > 0) {
    order.axes = {kImages, kRows, kChannels, kColumns};
  }
  return order;
}

bool is_matrix(const Group& group) {
  const ProductConfig& p = group.product;
  const Extents& in = group.inputs[0];
  return p.image.taps == 1 && p.image.groups == 1 && !p.image.channel_wise && p.stride_h == 1 &&
         p.stride_w == 1 && p.pad_top == 0 && p.pad_left == 0 && p.input_dilation_h == 1 &&
         p.input_dilation_w == 1 && in[kRows] == group.output[kRows] &&
         in[kColumns] == group.output[kColumns];
}

bool is_matrix_product(const Group& group, const AxisOrder& order) {
  if (!is_matrix(group) || group.product.local_response.enabled()) return false;
  const bool one_pixel = group.output[kRows] * group.output[kColumns] == 1;
  return group.dynamic || order.channels_fastest || one_pixel;
}

}  // namespace tessera::concord

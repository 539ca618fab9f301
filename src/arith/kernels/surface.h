// A surface: where the elements of a [channels, rows, columns] block lie in memory, in bytes.
//
// One description serves the state buffer (channels on partitions, blocks of partitions behind each
// other, rows in a ring) and dense host memory (partitions = channels, ring_rows = all rows), so
// that the processor model and the host device run the same kernels.
//
//   at(c, h, w) = base + (c % partitions) * partition_pitch + (c / partitions) * block_pitch
//                      + ((row_origin + h) % ring_rows) * row_pitch + w * column_pitch
//
// A pitch of 0 broadcasts. Several images lie behind each other as further rows: image n of a
// tensor with H rows has row_origin = n * H.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arith/format.h"

namespace tessera {

struct Surface {
  std::byte* base = nullptr;
  Format format = Format::kF16;
  std::int64_t channels = 1, rows = 1, columns = 1;  // extents
  std::int64_t partitions = 1;
  std::int64_t partition_pitch = 0, block_pitch = 0, row_pitch = 0, column_pitch = 0;
  std::int64_t row_origin = 0;
  std::int64_t ring_rows = 1;

  std::byte* row(std::int64_t channel, std::int64_t row_index) const {
    return base + (channel % partitions) * partition_pitch + (channel / partitions) * block_pitch +
           ((row_origin + row_index) % ring_rows) * row_pitch;
  }
  std::byte* at(std::int64_t channel, std::int64_t row_index, std::int64_t column) const {
    return row(channel, row_index) + column * column_pitch;
  }
};

struct RowRange {
  std::int64_t first = 0, last = 0;  // [first, last)
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

struct ChannelRange {
  std::int64_t first = 0, last = 0;  // [first, last)
};

}  // namespace tessera

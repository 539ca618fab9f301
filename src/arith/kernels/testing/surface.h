// Tensors laid out for kernel tests: dense as the host holds them, or as the state buffer does
// (channels on 128 partitions, blocks behind each other, rows in a ring), with guard bytes around.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "arith/kernels/surface.h"

namespace tessera::testing {

// A surface with its own memory.
struct OwnedSurface {
  std::vector<std::byte> memory;
  Surface surface;
};

inline OwnedSurface dense_surface(Format format, std::int64_t channels, std::int64_t rows,
                                  std::int64_t columns) {
  OwnedSurface owned;
  const std::int64_t element = format_bytes(format);
  owned.memory.resize(static_cast<std::size_t>(channels * rows * columns * element));
  owned.surface = {.base = owned.memory.data(),
                   .format = format,
                   .channels = channels,
                   .rows = rows,
                   .columns = columns,
                   .partitions = channels > 0 ? channels : 1,
                   .partition_pitch = rows * columns * element,
                   .block_pitch = 0,
                   .row_pitch = columns * element,
                   .column_pitch = element,
                   .row_origin = 0,
                   .ring_rows = rows > 0 ? rows : 1};
  return owned;
}

// As in the state buffer: padded pitches, a ring that begins anywhere.
inline OwnedSurface ring_surface(Format format, std::int64_t channels, std::int64_t rows,
                                 std::int64_t columns, std::mt19937& random) {
  OwnedSurface owned;
  const std::int64_t element = format_bytes(format);
  const std::int64_t partitions = random() % 2 == 0 ? 128 : 3;
  const auto ring = static_cast<std::int64_t>(rows + random() % 3);
  const std::int64_t row_pitch = (columns + static_cast<std::int64_t>(random() % 5)) * element;
  const std::int64_t block_pitch = ring * row_pitch + 64;
  const std::int64_t blocks = (channels + partitions - 1) / partitions;
  const std::int64_t partition_pitch = blocks * block_pitch + 32;
  owned.memory.resize(static_cast<std::size_t>(partitions * partition_pitch));
  owned.surface = {.base = owned.memory.data(),
                   .format = format,
                   .channels = channels,
                   .rows = rows,
                   .columns = columns,
                   .partitions = partitions,
                   .partition_pitch = partition_pitch,
                   .block_pitch = block_pitch,
                   .row_pitch = row_pitch,
                   .column_pitch = element,
                   .row_origin = static_cast<std::int64_t>(random() % static_cast<unsigned>(ring)),
                   .ring_rows = ring};
  return owned;
}

// Columns lie apart by whole rows: what a matrix [rows, channels] looks like (channels contiguous).
inline OwnedSurface matrix_surface(Format format, std::int64_t channels, std::int64_t rows) {
  OwnedSurface owned = dense_surface(format, channels, rows, 1);
  const std::int64_t element = format_bytes(format);
  owned.surface.partition_pitch = element;
  owned.surface.row_pitch = channels * element;
  return owned;
}

inline void copy_surface(const Surface& from, const Surface& to) {
  for (std::int64_t c = 0; c < from.channels; ++c) {
    for (std::int64_t h = 0; h < from.rows; ++h) {
      for (std::int64_t w = 0; w < from.columns; ++w) {
        std::memcpy(to.at(c, h, w), from.at(c, h, w),
                    static_cast<std::size_t>(format_bytes(from.format)));
      }
    }
  }
}

// The first element whose bits differ, or "" if there is none.
inline std::string first_difference(const Surface& a, const Surface& b) {
  const auto bytes = static_cast<std::size_t>(format_bytes(a.format));
  for (std::int64_t c = 0; c < a.channels; ++c) {
    for (std::int64_t h = 0; h < a.rows; ++h) {
      for (std::int64_t w = 0; w < a.columns; ++w) {
        if (std::memcmp(a.at(c, h, w), b.at(c, h, w), bytes) == 0) continue;
        std::uint64_t x = 0;
        std::uint64_t y = 0;
        std::memcpy(&x, a.at(c, h, w), bytes);
        std::memcpy(&y, b.at(c, h, w), bytes);
        return "channel " + std::to_string(c) + " row " + std::to_string(h) + " column " +
               std::to_string(w) + ": " + std::to_string(x) + " and " + std::to_string(y);
      }
    }
  }
  return "";
}

}  // namespace tessera::testing

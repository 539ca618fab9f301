// The kernel image: how stationary operands lie in kernel memory, one partition per array row.
//
// The sum of one output channel runs over k. With BlockCut::kChannel a kernel tap's channels are
// cut into tiles of `rows`: tile = tap * ceil(channels / rows) + channel / rows, row = channel %
// rows. With BlockCut::kIm2col the sum is flat: k = tap * channels + channel, tile = k / rows,
// row = k % rows. Taps run row-major (ky, kx); channels are those of one group.
//
//   element (group, output channel o of the group, tile, row) lies in partition `row` at byte
//   (((group * column_blocks + o / columns) * tiles + tile) * columns + o % columns) * element
//
// Channel-wise weights: element (output channel o, tap) lies in partition o % rows at byte
// ((o / rows) * taps + tap) * element. Per-output-channel vectors (bias, multipliers, zero points):
// element o lies in partition o % rows at byte (o / rows) * element. Unused places hold zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arith/format.h"

namespace tessera {

struct KernelImageShape {
  bool channel_wise = false;
  BlockCut cut = BlockCut::kChannel;
  std::int64_t groups = 1;
  std::int64_t channels = 1;         // input channels per group (K of a matrix product)
  std::int64_t output_channels = 1;  // per group
  std::int64_t taps = 1;             // kernel_h * kernel_w
  std::int64_t rows = 128;           // partitions
  std::int64_t columns = 128;        // output channels per tile
  Format format = Format::kF16;

  std::int64_t tiles() const;          // tiles a column block
  std::int64_t column_blocks() const;  // a group
  std::int64_t bytes_per_partition() const;
};

// A kernel image in memory: partition p begins at base + p * partition_pitch.
struct KernelImageView {
  const std::byte* base = nullptr;
  std::int64_t partition_pitch = 0;
};

// One stationary element by its meaning, and where it lies.
struct KernelElement {
  std::int64_t group = 0;
  std::int64_t output_channel = 0;  // of the group
  std::int64_t channel = 0;         // of the group
  std::int64_t tap = 0;             // row-major (ky, kx)
};
struct ElementPlace {
  std::int64_t partition = 0;
  std::int64_t offset = 0;  // bytes from the partition's begin
};
ElementPlace place_in_kernel_image(const KernelImageShape& shape, const KernelElement& element);

// Weights [groups * output_channels, channels, taps] row-major (OIHW) into an image of
// rows * bytes_per_partition() bytes, partition after partition.
std::vector<std::byte> make_kernel_image(const KernelImageShape& shape, const std::byte* oihw);
// A per-output-channel vector of `count` elements into rows * ceil(count / rows) * element bytes.
std::vector<std::byte> make_vector_image(std::int64_t rows, std::int64_t count,
                                         std::int64_t element_bytes, const std::byte* values);

}  // namespace tessera

// Products whose sums are cut in time: the kernel of a part of the input channels is in kernel memory
// while that part is added to what the parts before it left in PSUM (isa/psum.h).
//
//   output channels 0..15:  channels 0..8191 ─► PSUM ─► 8192..16383 ─► PSUM ─► 16384..25087 ─► results
//   output channels 16..31: ...
//
// A part lets the slices be as wide as the array where the whole sum of so many output channels does not
// fit kernel memory. It costs pixels: as many results as PSUM has entries are made at a time, and the
// kernels come again for the next ones.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "arith/kernels/product_config.h"
#include "base/quantity.h"

namespace tessera::compile {

// Channels of a group that a part of the sum has, or a multiple: whole native vectors, passes and channel
// blocks. 0 where parts would not add up to the bits of the whole sum. `moving` is the format of the
// moving operand.
std::int64_t part_channels(const ProductConfig& product, Format moving, const ChipConfig& chip);

// The results of a product and what it takes in, as far as its time goes.
struct ProductExtents {
  std::int64_t images = 1, rows = 1, columns = 1;  // of the results
  std::int64_t buffer_bytes = 0;                   // of both operands, in a state buffer partition
};

// How a product's stationary operand is cut: at most `outputs` output channels of a group in a slice,
// `columns` of them in a tile, `channels` of its input channels.
struct SliceShape {
  std::int64_t outputs = 1, columns = 1, channels = 1;
};

// Entries of PSUM that the sums of `outputs` output channels take for each pixel.
std::int64_t psum_entries_of_pixel(std::int64_t outputs, const ChipConfig& chip);

// Cycles of the product on one core when it is cut so: of each slice the array's or those of its kernel
// on the memory channel, whichever are more, and again for each piece of the results that the state
// buffer, or PSUM, holds. Kernels of more than half of kernel memory are not loaded beside arithmetic.
Cycles sliced_cycles(const ProductConfig& product, const ProductExtents& extents,
                     const SliceShape& slice, const ChipConfig& chip);

}  // namespace tessera::compile

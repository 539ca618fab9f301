// Whether a kernel is stored compressed, and how: the choice of E3.
//
//   forms: palette, zero mask, both ──► fewest DRAM bytes, tables and masks included
//                                   ──► pays only if it saves, and expands as fast as it arrives
#pragma once

#include "arch/chip_config.h"
#include "arith/kernels/weights/kernel_image.h"
#include "arith/kernels/weights/kernel_stream.h"

namespace tessera::compile {

// The form with the fewest bytes; not compressed() where none saves at least 1/64 of the bytes, or
// where it would be in kernel memory later than the image as it is. `image` holds what `shape`
// describes, in front of each partition.
KernelStream best_kernel_form(const ChipConfig& chip, const KernelRows& image,
                              const KernelImageShape& shape);

}  // namespace tessera::compile

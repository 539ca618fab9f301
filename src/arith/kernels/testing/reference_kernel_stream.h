// The kernel stream, element by element and bit by bit: what tests hold expand_kernel_stream()
// against.
#pragma once

#include <cstddef>
#include <span>

#include "arith/kernels/weights/kernel_stream.h"

namespace tessera {

// Expands into `rows`; refuses the same streams.
Status reference_expand_kernel_stream(const KernelStream& stream, std::span<const std::byte> bytes,
                                      const KernelRows& rows);

}  // namespace tessera

// The application's form of a tensor made into the device's, and back.
//
//   number format:  f32 ─► f16, bf16, or affine integers        (graph/edge_conversion.h)
//   layout:         dense rows ─► blocks, padded with zeros           (graph/edge_blocks.h)
//
// The bits are those of the element-wise step on the processor (arith/vector_ops.h), which the
// network then does without. Pure functions; `plain` has the same, an element at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/quantity.h"
#include "graph/edge_conversion.h"
#include "network/network.h"

namespace tessera::device {

// Of `size` in whole blocks, with `element` bytes per element.
Bytes blocked_bytes(const graph::MatrixSize& size, const graph::BlockLayout& layout,
                    std::int64_t element);

// Spans are exactly as long as the tensors, and do not overlap.

// Element by element, in the same order; layouts do not count.
void convert(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
             std::span<std::byte> to);
// Dense `from` to blocks of converted elements.
void to_blocks(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
               std::span<std::byte> to);
// Blocks to dense converted elements; the padding is dropped.
void from_blocks(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
                 std::span<std::byte> to);

// All that the conversion says, format and layout, of an input or of an output.
void to_device(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
               std::span<std::byte> to);
void from_device(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
                 std::span<std::byte> to);

namespace plain {
void convert(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
             std::span<std::byte> to);
void to_blocks(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
               std::span<std::byte> to);
void from_blocks(const graph::EdgeConversion& conversion, std::span<const std::byte> from,
                 std::span<std::byte> to);
}  // namespace plain

// The network compiled again without the conversions at its edges: its inputs and outputs are in
// device form, and the caller converts as `inputs` and `outputs` describe: formats, and where
// the architecture says so layouts.
struct NetworkInDeviceForm {
  Network network;
  std::vector<graph::EdgeConversion> inputs, outputs;  // in the network's order
};
Result<NetworkInDeviceForm> in_device_form(const NetworkState& network,
                                           const LoadOptions& options = {});

}  // namespace tessera::device

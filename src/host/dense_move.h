// Copy boxes over dense tensors at speed: neighbouring axes are merged, runs are copied whole.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/graph.h"
#include "host/thread_pool.h"

namespace tessera::host {

// Copies one box of elements of `element_bytes` (1, 2, 4 or 8). Bits are moved, never changed.
void copy_box(const graph::CopyBox& box, std::int64_t element_bytes, const std::byte* source,
              std::byte* destination, ThreadPool& pool);
// Fills `count` elements with the low bytes of `bits`.
void fill_elements(std::byte* destination, std::int64_t count, std::int64_t element_bytes,
                   std::uint64_t bits);

}  // namespace tessera::host

// Copy boxes over dense tensors at speed: neighbouring axes are merged, runs are copied whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "graph/graph.h"
#include "host/thread_pool.h"

namespace tessera::host {

class BoxCopier;

// One box of elements of `element_bytes` (1, 2, 4 or 8), made once and copied any number of times.
// Bits are moved, never changed.
class BoxCopy {
 public:
  BoxCopy(const graph::CopyBox& box, std::int64_t element_bytes);
  // Sides as the box's offsets count from.
  void run(const std::byte* source, std::byte* destination, ThreadPool& pool) const;

 private:
  std::shared_ptr<const BoxCopier> copier_;  // of copies of this object too; null: nothing to copy
  std::int64_t source_bytes_ = 0, destination_bytes_ = 0;  // where the box begins
  bool small_ = false;                                     // not worth another thread
};
// Fills `count` elements with the low bytes of `bits`.
void fill_elements(std::byte* destination, std::int64_t count, std::int64_t element_bytes,
                   std::uint64_t bits);

}  // namespace tessera::host

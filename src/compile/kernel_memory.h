// Kernel memory as the compiler sees it while it emits tasks: slices are placed one after the
// other, wrapping around, so that the next one is fetched while the current one is used.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arith/kernels/weights/kernel_stream.h"

namespace tessera::compile {

// What lies in kernel memory. Equal streams of different forms share their bytes in DRAM, and are
// different kernels nevertheless.
struct StoredKernel {
  std::int64_t weights_offset = 0;
  std::int64_t partitions = 0;
  std::int64_t bytes_per_partition = 0;
  KernelStream stream = {};

  friend bool operator==(const StoredKernel&, const StoredKernel&) = default;
};

class KernelMemory {
 public:
  explicit KernelMemory(std::int64_t bytes_per_partition) : capacity_(bytes_per_partition) {}

  // Where the kernel lies, if it is still there.
  std::optional<std::int64_t> find(const StoredKernel& kernel) const;
  // Gives it a place; what was there is forgotten.
  std::int64_t put(const StoredKernel& kernel);

 private:
  struct Entry {
    StoredKernel kernel;
    std::int64_t offset;
  };
  std::int64_t capacity_;
  std::int64_t next_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace tessera::compile

// Kernel memory as the compiler sees it while it emits tasks: slices are put one behind the other,
// round and round, so that the next one is fetched while the current one is used.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::compile {

class KernelMemory {
 public:
  explicit KernelMemory(std::int64_t bytes_per_partition) : capacity_(bytes_per_partition) {}

  // Where the slice with these weights lies, if it is still there.
  std::optional<std::int64_t> find(std::int64_t weights_offset, std::int64_t bytes) const;
  // Gives it a place; what was there is forgotten.
  std::int64_t put(std::int64_t weights_offset, std::int64_t bytes);

 private:
  struct Entry {
    std::int64_t weights_offset, offset, bytes;
  };
  std::int64_t capacity_;
  std::int64_t next_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace tessera::compile

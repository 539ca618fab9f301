// Which bytes of each memory hold something: what the hazard check knows of the time before a run.
//
//   package: weights      host: inputs, results of host steps      earlier segments: their writes
//
// Weights always count as written. Ranges are kept in order, those that touch as one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "isa/accesses.h"

namespace tessera::engines {

// A memory of the core: the state buffer and kernel memory are one for all networks.
using MemoryKey = std::pair<std::uint32_t, int>;
inline MemoryKey state_buffer_key(std::uint32_t core = 0) { return {core, -1}; }
inline MemoryKey kernel_memory_key(std::uint32_t core = 0) { return {core, -2}; }
inline MemoryKey dram_key(std::uint32_t network, isa::BaseIndex base) {
  return {network, static_cast<int>(base)};
}

class WrittenBytes {
 public:
  using Ranges = std::map<std::int64_t, std::int64_t>;  // first to last

  void add(const MemoryKey& memory, std::int64_t first, std::int64_t last) {
    if (first >= last) return;
    Ranges& ranges = memories_[memory];
    auto it = ranges.upper_bound(first);
    if (it != ranges.begin() && std::prev(it)->second >= first) --it;
    while (it != ranges.end() && it->first <= last) {
      first = std::min(first, it->first);
      last = std::max(last, it->second);
      it = ranges.erase(it);
    }
    ranges.emplace(first, last);
  }
  void forget(const MemoryKey& memory) { memories_.erase(memory); }
  void clear() { memories_.clear(); }
  const std::map<MemoryKey, Ranges>& memories() const { return memories_; }

 private:
  std::map<MemoryKey, Ranges> memories_;
};

}  // namespace tessera::engines

// The bytes of a DRAM by modelled address, for those who share it: what one leaves there the next one
// would find, so it is cleared in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace tessera::engines {

// Addresses [first, first + bytes).
struct DramRange {
  std::int64_t first = 0, bytes = 0;
  std::int64_t last() const { return first + bytes; }
  bool overlaps(const DramRange& other) const {
    return first < other.last() && other.first < last();
  }
};

class PhysicalMemory {
 public:
  // Zeros. Takes memory of the host where something was written only. kUnavailable: the host has no
  // address space for it.
  static Result<std::unique_ptr<PhysicalMemory>> create(std::int64_t bytes);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  std::int64_t bytes() const { return bytes_; }
  // 0 <= address <= bytes().
  std::byte* at(std::int64_t address) { return data_ + address; }
  const std::byte* at(std::int64_t address) const { return data_ + address; }
  // Zeros from now on.
  void clear(const DramRange& range);

 private:
  PhysicalMemory(std::byte* data, std::int64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* const data_;
  const std::int64_t bytes_;
};

}  // namespace tessera::engines

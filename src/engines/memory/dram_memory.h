// The card's DRAM as bytes: each network's regions behind its row of the base-address table, and
// the stream of descriptors the task manager fetches.
//
//   network n:  weights | workspace | input | output | descriptor stream
//
// Every region begins at a multiple of 4096 of the modelled address, which decides banks and rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "program/program.h"

namespace tessera::engines {

class DramMemory {
 public:
  explicit DramMemory(std::int64_t bytes) : bytes_(bytes) {}

  // Places a program behind what is there; returns its base-address index.
  Result<std::size_t> add(const program::Program& program);
  void clear();

  std::int64_t size(std::size_t network, program::BaseIndex base) const {
    return region(network, base).bytes;
  }
  std::byte* at(std::size_t network, program::DramAddress address) {
    return region(network, address.base).data.get() + address.offset;
  }
  const std::byte* at(std::size_t network, program::DramAddress address) const {
    return region(network, address.base).data.get() + address.offset;
  }
  // The modelled address of a byte.
  std::int64_t address(std::size_t network, program::DramAddress address) const {
    return region(network, address.base).address + static_cast<std::int64_t>(address.offset);
  }
  // Whether [offset, offset + bytes) lies inside the region.
  bool holds(std::size_t network, program::DramAddress address, std::int64_t bytes) const;

  std::span<std::byte> stream(std::size_t network);
  std::span<const std::byte> weights(std::size_t network) const {
    const Region& weights = region(network, program::BaseIndex::kWeights);
    return {weights.data.get(), static_cast<std::size_t>(weights.bytes)};
  }
  std::int64_t stream_address(std::size_t network) const {
    return networks_[network].back().address;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Region {
    std::unique_ptr<std::byte, Free> data;
    std::int64_t bytes = 0;
    std::int64_t address = 0;
  };
  static constexpr std::size_t kRegions = program::kBaseIndexCount + 1;
  const Region& region(std::size_t network, program::BaseIndex base) const {
    return networks_[network][static_cast<std::size_t>(base)];
  }
  Status allocate(std::int64_t bytes, Region& region);

  std::int64_t bytes_;
  std::int64_t next_address_ = 0;
  std::vector<std::array<Region, kRegions>> networks_;
};

}  // namespace tessera::engines

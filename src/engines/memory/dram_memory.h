// The card's DRAM as bytes: each network's regions behind its row of the base-address table, and
// the stream of descriptors the task manager fetches.
//
//   network n:  weights | workspace | input | output | descriptor stream
//
// Every region begins at a multiple of 4096 of the modelled address, which decides banks and rows.
//
// A region's bytes are its own, or lie in blocks of the device's memory: weights that several cores
// share, inputs and outputs where the host has put them. Where they lie changes no modelled
// address, so a run takes the same cycles wherever its tensors are. On a card that tenants share they
// are those of a physical memory at the modelled addresses; what a program gives up is zero there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engines/memory/physical_memory.h"
#include "isa/dma_work.h"
#include "isa/program.h"

namespace tessera::engines {

// Modelled addresses that a program's regions lie in. Those of two physical memories may be the same.
struct DramPart {
  DramRange range;
  PhysicalMemory* physical = nullptr;  // whose bytes they are; null: they have memory of their own
};

class DramMemory {
 public:
  explicit DramMemory(std::int64_t bytes) : bytes_(bytes) {}

  // Places a program in the first gap between those that are there in which it fits, within the
  // range where one is given; returns its base-address index, the lowest that is free. With
  // `weights` its weights lie there, are only read, and outlive the memory's use of them.
  Result<std::size_t> add(const isa::Program& program, std::span<const std::byte> weights = {},
                          std::optional<DramPart> within = {});
  // Places the stream of another core that works on network `of`, with which it shares all other
  // regions, also those bound later; returns its base-address index. Goes with that network.
  Result<std::size_t> add_core(std::size_t of, const isa::Program& program,
                               std::optional<DramPart> within = {});
  // Gives up a program's regions and its index.
  void remove(std::size_t network);
  void clear();

  // From now on bytes [offset, offset + bytes.size()) of the region are those of `bytes`. Parts of
  // one region do not overlap; binding an offset again replaces its part.
  void bind(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes);

  std::int64_t size(std::size_t network, isa::BaseIndex base) const {
    return region(network, base).bytes;
  }
  std::byte* at(std::size_t network, isa::DramAddress address) {
    return find(region(network, address.base), address.offset);
  }
  const std::byte* at(std::size_t network, isa::DramAddress address) const {
    return find(region(network, address.base), address.offset);
  }
  // The modelled address of a byte.
  std::int64_t address(std::size_t network, isa::DramAddress address) const {
    return region(network, address.base).address + static_cast<std::int64_t>(address.offset);
  }
  // The bytes at modelled addresses [address, address + bytes) of workspace, inputs or outputs; null: they do not lie
  // in one of these.
  std::byte* at_modelled(std::size_t network, std::int64_t address, std::int64_t bytes);
  // The modelled addresses that it takes.
  const DramRange& taken(std::size_t network) const { return taken_[network].range; }
  // Where its regions lie.
  isa::DramPlaces places(std::size_t network) const {
    isa::DramPlaces places;
    for (std::size_t i = 0; i < isa::kBaseIndexCount; ++i) {
      places.regions[i] = networks_[network][i].address;
    }
    return places;
  }
  // Whether [offset, offset + bytes) lies inside the region.
  bool holds(std::size_t network, isa::DramAddress address, std::int64_t bytes) const;

  std::span<std::byte> stream(std::size_t network);
  std::span<const std::byte> weights(std::size_t network) const {
    const Region& weights = region(network, isa::BaseIndex::kWeights);
    return {weights.data, static_cast<std::size_t>(weights.bytes)};
  }
  std::int64_t stream_address(std::size_t network) const {
    return networks_[network].back().address;
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Part {
    std::uint64_t offset = 0;
    std::span<std::byte> bytes;
  };
  struct Region {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::int64_t address = 0;
    std::unique_ptr<std::byte, Free> owned;  // none where `data` belongs to the device
    std::vector<Part> parts;                 // by offset; few
  };
  static std::byte* find(const Region& region, std::uint64_t offset) {
    if (region.parts.empty()) return region.data + offset;
    return find_part(region, offset);
  }
  static std::byte* find_part(const Region& region, std::uint64_t offset);
  static constexpr std::size_t kRegions = isa::kBaseIndexCount + 1;  // the last: the stream's
  using Regions = FixedTable<isa::BaseIndex, Region, kRegions>;
  const Region& region(std::size_t network, isa::BaseIndex base) const {
    return networks_[network][base];
  }
  Status reserve(std::int64_t bytes, Region& region);
  Status allocate(std::int64_t bytes, Region& region);

  // The next regions go into the first gap of the range with room for all of them, or else into
  // its last one, which is too small.
  void choose_gap(std::int64_t wanted, const DramPart& within);

  std::int64_t bytes_;
  PhysicalMemory* physical_ = nullptr;         // of the program that is being placed; null: none
  std::int64_t next_address_ = 0, limit_ = 0;  // of the gap
  std::vector<Regions> networks_;
  std::vector<DramPart> taken_;           // by each of them; no bytes: its index is free
  std::vector<std::size_t> shares_with_;  // the network whose regions it has; its own index: none
};

}  // namespace tessera::engines

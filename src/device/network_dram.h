// The DRAM of one network as the host sees it, whether a core has it for itself or a card's cores
// share it.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "card/card.h"
#include "card/core.h"

namespace tessera::device {

// bind, write and read as card::Core's.
class NetworkDram {
 public:
  virtual ~NetworkDram() = default;
  virtual Status bind(isa::DramAddress address, std::span<std::byte> bytes) = 0;
  virtual Status write(isa::DramAddress address, std::span<const std::byte> bytes) = 0;
  virtual Status read(isa::DramAddress address, std::span<std::byte> bytes) const = 0;
};

// Of a network on a core, which outlives it.
class CoreDram : public NetworkDram {
 public:
  explicit CoreDram(card::Core& core, std::size_t network = 0) : core_(core), network_(network) {}
  Status bind(isa::DramAddress address, std::span<std::byte> bytes) override {
    return core_.bind(network_, address, bytes);
  }
  Status write(isa::DramAddress address, std::span<const std::byte> bytes) override {
    return core_.write(network_, address, bytes);
  }
  Status read(isa::DramAddress address, std::span<std::byte> bytes) const override {
    return core_.read(network_, address, bytes);
  }

 private:
  card::Core& core_;
  const std::size_t network_;
};

// Of the network on a card, which outlives it.
class CardDram : public NetworkDram {
 public:
  explicit CardDram(card::Card& card) : card_(card) {}
  Status bind(isa::DramAddress address, std::span<std::byte> bytes) override {
    return card_.bind(address, bytes);
  }
  Status write(isa::DramAddress address, std::span<const std::byte> bytes) override {
    return card_.write(address, bytes);
  }
  Status read(isa::DramAddress address, std::span<std::byte> bytes) const override {
    return card_.read(address, bytes);
  }

 private:
  card::Card& card_;
};

}  // namespace tessera::device

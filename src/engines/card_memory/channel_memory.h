// The DRAM channel of a core (engines/memory) as the memory of a group.
//
//   load/save unit ─► reads  ─┐
//                  ─► writes ─┴─► DramChannel
//
// Few requests wait at the channel, so that it is the bandwidth controller who decides what goes next: two, or as
// many short ones as take the channel no longer than one of dma.request_bytes. (Two short ones would be done before
// news of it brings the next.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "arch/dram_config.h"
#include "engines/card_memory/memory_port.h"
#include "engines/fifo.h"
#include "engines/memory/dram_channel.h"
#include "engines/memory/dram_port.h"
#include "engines/wake_table.h"

namespace tessera::engines {

class ChannelMemory final : public MemoryPort {
 public:
  // chip.dram is one group's. At most `outstanding` reads, and as many writes, are on their way, of which
  // few of each wait at the channel.
  ChannelMemory(const ChipConfig& chip, std::size_t outstanding);

  void reset() override;
  bool room(bool write, Cycles now) const override;
  Cycles push(Cycles now, const DramRequest& request, std::uint32_t ticket) override;
  Cycles cost(const DramRequest& request) const override;
  Cycles latency() const override { return costs_.latency; }
  const Completion* completion() const override;
  void take_completion() override;
  Cycles step(Cycles now) override;

  DramChannel& channel() { return channel_; }
  // Whole bursts.
  std::int64_t bytes_read() const { return reads_.port.bytes_read; }
  std::int64_t bytes_written() const { return writes_.port.bytes_written; }

 private:
  struct Side {
    Side(Box box, std::size_t outstanding)
        : port(box, outstanding), tickets(outstanding), cost_until(outstanding + 1, 0) {}
    Cycles cost_before(std::size_t number) const { return cost_until[number % cost_until.size()]; }
    void push(std::uint32_t ticket, Cycles cost);
    void clear();

    DramPort port;
    Ring<std::uint32_t> tickets;     // pushed and not taken
    std::size_t pushed = 0;          // requests so far
    std::vector<Cycles> cost_until;  // of all requests before one, by its number modulo the size
  };
  const Side* earliest() const;

  const DramCosts costs_;
  const Cycles waiting_cost_max_;
  Side reads_, writes_;
  WakeTable wakes_;  // of owners that are stepped for their completions by the card
  DramChannel channel_;
  mutable Completion front_;
};

}  // namespace tessera::engines

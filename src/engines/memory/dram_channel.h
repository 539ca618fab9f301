// The DRAM channel: takes requests of its ports in turn and moves bursts.
//
//   load ───┐
//   store ──┤ round ┌──────────────┐
//   kernel ─┤ robin │ 2 accepted   │
//   tasks ──┘ ────► │ requests     │─► bus: bursts in order ─► + latency ─► completion at the port
//                   └──────────────┘
//
// Two requests are accepted at a time: one moves data, the next waits behind it. What a request takes
// is in arch/dram_pipe.h. With a device for a memory (dram.device) all that is left of this is whose
// request is next: the channels of the device take as many as they have room for (dram_channels.h).
//
// Where the DMA engines have queues (dma.queues), a load or store is spread over all of them: each
// descriptor takes its share of a queue's time, and the channel moves no faster than the queues.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "arch/dram_pipe.h"
#include "engines/fifo.h"
#include "engines/memory/dram_channels.h"
#include "engines/memory/dram_port.h"
#include "engines/time_account.h"
#include "engines/wake_table.h"

namespace tessera::engines {

class DramChannel {
 public:
  // Ports outlive the channel. Those of several cores: each has its core's wake table.
  DramChannel(const ChipConfig& chip, std::vector<DramPort*> ports);
  // Of one core, whose wake table outlives the channel.
  DramChannel(const ChipConfig& chip, const std::vector<DramPort*>& ports, WakeTable& wakes);

  void reset();
  Cycles step(Cycles now);

  TimeAccount& account() { return account_; }
  std::int64_t row_misses() const { return channels_ ? channels_->row_misses() : 0; }
  std::string describe() const;

 private:
  // The position of the port whose request is next.
  std::optional<std::size_t> choose_port(Cycles now);
  // Whether it has a request that has come here, and there is room for it.
  bool ready(const DramPort& port, Cycles now) const;
  void accept(DramPort& port, Cycles now);
  Cycles step_channels(Cycles now);
  struct Arrivals {
    DramChannels::Waiting waiting;
    Cycles next = kNever;
  };
  Arrivals arrivals_after(Cycles reached) const;
  void account_idle();
  void accept_all(Cycles now);
  // In cycle `at`, which the channels have reached in a step at `now`.
  void accept_in_channels(std::size_t index, Cycles at, Cycles now);
  static void count_accepted(DramPort& port, Cycles now);
  // From when on the queues of the data DMA have moved the request.
  Cycles queues_done(const DramPort& port, const DramRequest& request, Cycles now);

  const Arbitration arbitration_;
  const QueuePace queues_;
  std::vector<DramPort*> ports_;
  DramPipe pipe_;
  bool full_ = false;      // accepted_ is, since the last step
  Ring<Cycles> accepted_;  // ends of the transfers of accepted requests
  std::size_t next_port_ = 0;
  std::int64_t queue_time_ = 0;           // the queues are free from here on, in cycles x queues
  std::optional<DramChannels> channels_;  // of a device
  Cycles reached_ = 0;                    // until when they did all
  TimeAccount account_;
};

}  // namespace tessera::engines

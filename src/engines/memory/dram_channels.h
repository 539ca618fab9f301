// The channels of a DRAM made of devices: addresses interleaved over them, two clocks, completions
// in the order of each port.
//
//   request ─► runs ─► bursts by channel ─► DramChannelModel ─┐ last burst of a request
//                                     ...  ─► DramChannelModel ─┴─► its port, in order
//
// How addresses are spread over channels is in arch/dram_stripes.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "arch/clock_ratio.h"
#include "arch/dram_channel_model.h"
#include "arch/dram_stripes.h"
#include "engines/fifo.h"
#include "engines/memory/dram_port.h"
#include "engines/wake_table.h"

namespace tessera::engines {

class DramChannels {
 public:
  // chip.dram.device is a device. Ports outlive the channels.
  DramChannels(const ChipConfig& chip, const std::vector<DramPort*>& ports);

  void reset();
  // Issues what is due until `at` and gives the ports their completions, in a step at `now`. Where
  // somebody waits to read or to write, only until there is room for that. The cycle until which all
  // is done.
  struct Waiting {
    bool read = false, write = false;
  };
  Cycles advance(Cycles at, Waiting waiting, Cycles now);
  // When the last command issued.
  Cycles last_issue() const { return clocks_.core(last_issue_); }
  // Whether every channel has room.
  bool room(bool write) const;
  // Takes a request, which is complete no earlier than `not_before`. Returns its bytes in bursts.
  std::int64_t accept(std::size_t port, const DramRequest& request, Cycles now, Cycles not_before);
  // When advance() next has something to do; kNever while nothing waits.
  Cycles next() const;
  std::size_t in_service() const { return in_service_; }
  // Bursts that found another row open, or none.
  std::int64_t row_misses() const;

  // On the way from a port to the channels.
  Cycles request_cycles() const { return request_cycles_; }
  // As many cycles late it is early enough to do something: nobody sees it before.
  Cycles lag_cycles() const { return std::max<Cycles>(0, response_cycles_ - 1); }

 private:
  struct Service {
    std::size_t port = 0;
    std::int64_t bursts_left = 0;
    DramCycles done_at = 0;
    Cycles not_before = 0;
  };
  struct Side {  // of a port
    Side(DramPort* its_port, std::size_t capacity) : port(its_port), order(capacity) {}
    DramPort* port;
    Ring<std::uint32_t> order;  // its requests in service
    Cycles last = 0;            // its latest completion
  };

  // Issues what is due until `until`, in one channel and in all.
  void run(DramChannelModel& channel, DramCycles until, Cycles now);
  void run_all(DramCycles until, Cycles now);
  void complete(Side& side, Cycles now);

  const DramDevice device_;
  const DramChannelSettings settings_;
  const ClockRatio clocks_;
  const Cycles request_cycles_, response_cycles_;
  const DramStripes stripes_;
  std::vector<DramChannelModel> channels_;
  std::vector<Side> sides_;
  std::vector<Service> services_;
  std::vector<std::uint32_t> free_;
  std::size_t in_service_ = 0;
  DramCycles next_ = kDramNever;  // of all channels
  DramCycles last_issue_ = 0;     // of data
};

}  // namespace tessera::engines

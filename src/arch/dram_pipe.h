// A memory that is no device: one pipe without banks.
//
//   request ─► bus: bursts in order ─► + latency ─► completion
//
// A request is a number of contiguous runs; its cost is a closed form per run, never per byte. The
// engines' channel charges it, and what estimates are made of asks it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "arch/chip_config.h"
#include "arch/dram_config.h"
#include "arch/dram_request.h"
#include "base/quantity.h"

namespace tessera {

class DramPipe {
 public:
  // Requests that may be accepted at a time: one moves data, the next waits behind it.
  static constexpr std::size_t kAccepted = 2;

  // Of any kind of memory; used where it is no device.
  explicit DramPipe(const ChipConfig& chip);

  void reset() { bus_free_ = 0; }
  // Moves the bursts of a request accepted at `now`, behind those before. Returns their bytes.
  std::int64_t serve(const DramRequest& request, Cycles now);
  // When the transfer so far ends, no earlier than `queues_done`.
  Cycles hold(Cycles queues_done) { return bus_free_ = std::max(bus_free_, queues_done); }
  // From the end of a transfer to its completion.
  Cycles latency() const { return costs_.latency; }

 private:
  const DramCosts costs_;
  const Ratio cycles_of_byte_;
  const Divider burst_;
  Cycles bus_free_ = 0;
};

}  // namespace tessera

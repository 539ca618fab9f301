// A memory that is no device: one pipe, in core cycles.
//
//   request ─► bank b: row open? else activate (row_miss), which may hide behind another bank's
//              transfer ─► bus: bursts in order ─► + latency ─► completion
//
// A flat memory is one row that is always open. A request is a number of contiguous runs; its cost is
// a closed form per run and row, never per byte. The engines' channel charges it, and what estimates
// are made of asks it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "arch/dram_config.h"
#include "arch/dram_request.h"
#include "base/quantity.h"

namespace tessera {

class DramPipe {
 public:
  // Requests that may be accepted at a time: one moves data, the next opens its rows.
  static constexpr std::size_t kAccepted = 2;

  // Of any kind of memory; used where it is no device.
  explicit DramPipe(const ChipConfig& chip);

  void reset();
  // Moves the bursts of a request accepted at `now`, behind those before. Returns their bytes.
  std::int64_t serve(const DramRequest& request, Cycles now);
  // When the transfer so far ends, no earlier than `queues_done`.
  Cycles hold(Cycles queues_done) { return bus_free_ = std::max(bus_free_, queues_done); }
  // From the end of a transfer to its completion.
  Cycles latency() const { return costs_.latency; }
  std::int64_t row_misses() const { return row_misses_; }

 private:
  struct Bank {
    std::int64_t open_row = -1;
    Cycles busy_until = 0;
  };
  // Moves the bursts that hold bytes [first, last); returns how many.
  std::int64_t move(std::int64_t first, std::int64_t last, Cycles now);
  // How many of `runs` runs, `pitch` bytes apart, lie alike in their bursts, share none, and end in
  // the first one's row; at least 1.
  std::int64_t runs_of_row(std::int64_t address, std::int64_t bytes, std::int64_t pitch,
                           std::int64_t runs) const;
  // move() for `runs` of them at once.
  std::int64_t move_alike(std::int64_t address, std::int64_t bytes, std::int64_t runs, Cycles now);

  const DramCosts costs_;
  const Ratio cycles_of_byte_;
  const Divider burst_, row_, banks_of_;
  const bool flat_;
  std::vector<Bank> banks_;
  Cycles bus_free_ = 0;
  std::int64_t last_burst_ = -1;
  std::int64_t row_misses_ = 0;
};

}  // namespace tessera

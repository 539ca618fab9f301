// Two clocks: the core's and that of the DRAM.
#pragma once

#include <cstdint>

#include "arch/dram_device.h"
#include "base/quantity.h"
#include "base/ratio.h"

namespace tessera {

// Cycles of a DRAM device for a core cycle, as a reduced fraction, so that nothing drifts.
class ClockRatio {
 public:
  // Clocks of up to 10 GHz and down to 1 MHz.
  ClockRatio(std::int64_t core_hertz, std::int64_t dram_clock_ps)
      : dram_(1'000'000'000'000, core_hertz * dram_clock_ps), core_(dram_.inverse()) {}

  // The DRAM cycle that a core cycle begins in.
  DramCycles dram(Cycles core) const { return dram_.floor_of(core); }
  // The first core cycle that begins no earlier than the DRAM cycle.
  Cycles core(DramCycles dram) const { return core_.ceil_of(dram); }

 private:
  Ratio dram_, core_;  // cycles of one for a cycle of the other
};

}  // namespace tessera

// A memory for tests whose cycles are worked out by hand: so many bytes of a core cycle.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"

namespace tessera::testing {

// The chip's clock is a multiple of 1 MHz, which makes both exact, and does not change any more.
inline void set_flat_memory(ChipConfig& chip, std::int32_t bytes_per_cycle,
                            std::int32_t nanoseconds = 100) {
  constexpr std::int64_t kMillion = 1'000'000;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second =
      static_cast<std::int32_t>(bytes_per_cycle * chip.clock_hertz / kMillion);
  chip.dram.flat_nanoseconds = nanoseconds;
  chip.dma.port_bytes = bytes_per_cycle;
}

}  // namespace tessera::testing

// Two clocks: the core's and that of the DRAM.
#pragma once

#include <cstdint>
#include <numeric>

#include "arch/dram_device.h"
#include "base/quantity.h"

namespace tessera {

// Cycles of a DRAM device for a core cycle, as a reduced fraction, so that nothing drifts. Cycles
// are not negative; they may be as many as 64 bits hold after conversion.
class ClockRatio {
 public:
  ClockRatio(std::int64_t core_hertz, std::int64_t dram_clock_ps) {
    constexpr std::int64_t kPicosecondsOfASecond = 1'000'000'000'000;
    // Clocks of up to 10 GHz and down to 1 MHz: the product stays below 2^63.
    const std::int64_t core = core_hertz * dram_clock_ps;
    const std::int64_t common = std::gcd(kPicosecondsOfASecond, core);
    dram_ = kPicosecondsOfASecond / common;
    core_ = core / common;
  }

  // The DRAM cycle that a core cycle begins in.
  DramCycles dram(Cycles core) const { return scaled(core, dram_, core_, 0); }
  // The first core cycle that begins no earlier than the DRAM cycle.
  Cycles core(DramCycles dram) const { return scaled(dram, core_, dram_, dram_ - 1); }

 private:
  static std::int64_t scaled(std::int64_t value, std::int64_t by, std::int64_t over,
                             std::int64_t add) {
    std::int64_t product = 0;
    if (!__builtin_mul_overflow(value, by, &product) &&
        !__builtin_add_overflow(product, add, &product)) {
      return product / over;
    }
    __extension__ using Wide = __int128;
    return static_cast<std::int64_t>((static_cast<Wide>(value) * by + add) / over);
  }

  std::int64_t dram_ = 1, core_ = 1;  // of equal length
};

}  // namespace tessera

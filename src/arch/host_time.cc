#include "arch/host_time.h"

#include "base/check.h"

namespace tessera {
namespace {

__extension__ using Wide = unsigned __int128;

// nanoseconds + bytes / rate in cycles, rounded up, exactly. A megabyte a second is a byte in 1,000
// nanoseconds; with r of them the sum is (nanoseconds r + 1,000 bytes) / r nanoseconds.
Cycles cycles_of(const ChipConfig& chip, std::int64_t nanoseconds, std::int64_t bytes,
                 std::int64_t megabytes_per_second) {
  constexpr std::int64_t kMost = std::int64_t{1} << 42;
  constexpr std::int64_t kNanosecondsInSecond = 1'000'000'000;
  TESSERA_CHECK(bytes >= 0 && bytes <= kMost, "{} bytes between host and processor", bytes);
  const Wide scaled = static_cast<Wide>(nanoseconds) * static_cast<Wide>(megabytes_per_second) +
                      static_cast<Wide>(bytes) * 1000;
  const Wide divisor = static_cast<Wide>(megabytes_per_second) * kNanosecondsInSecond;
  return static_cast<Cycles>((scaled * static_cast<Wide>(chip.clock_hertz) + divisor - 1) /
                             divisor);
}

}  // namespace

Cycles transfer_cycles(const ChipConfig& chip, std::int64_t bytes) {
  if (bytes == 0) return 0;
  return cycles_of(chip, chip.host.link_nanoseconds, bytes, chip.host.link_megabytes_per_second);
}

Cycles host_step_cycles(const ChipConfig& chip, std::int64_t bytes) {
  return cycles_of(chip, chip.host.step_nanoseconds, bytes, chip.host.megabytes_per_second);
}

}  // namespace tessera

#include "device/device_options.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace tessera::device {

std::chrono::nanoseconds paced_time(const Pace& pace, Cycles cycles, std::int64_t clock_hertz) {
  // A pace may make times out of all proportion.
  constexpr double kLongest = 1e17;  // nanoseconds, three years
  const double time =
      pace.factor * static_cast<double>(cycles) * 1e9 / static_cast<double>(clock_hertz);
  return std::chrono::nanoseconds(std::llround(std::min(time, kLongest)));
}

int threads_a_kernel(const DeviceConfig& options) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, (options.threads > 0 ? options.threads : cores) / options.kernels);
}

Bytes machine_memory() {
  return Bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::int64_t>(sysconf(_SC_PAGESIZE))};
}

}  // namespace tessera::device

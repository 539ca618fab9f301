#include "device/device_options.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace tessera::device {

int threads_a_kernel(const DeviceConfig& options) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, (options.threads > 0 ? options.threads : cores) / options.kernels);
}

Bytes machine_memory() {
  return Bytes{static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) *
               static_cast<std::int64_t>(sysconf(_SC_PAGESIZE))};
}

}  // namespace tessera::device

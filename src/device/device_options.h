// What a device is made with.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "tessera/core_split.h"
#include "tessera/device_kind.h"
#include "tessera/network.h"

namespace tessera::device {

class VirtualProcessor;

// How fast a device with a modelled clock is in wall time.
struct Pace {
  bool enabled = false;
  double factor = 1;  // a run takes factor x cycles / clock
  // The link to the host, for each direction: a transfer takes factor x bytes / rate, one after the
  // other, and the caller waits for it. 0: as fast as memory is copied.
  std::int64_t link_bytes_per_second = 0;
};

// Where the values of a device `sim` come from. The bits are the same (docs/numbers.md).
enum class Values {
  kSimulated,  // the virtual processor computes them
  kHost,       // the host executor does, as fast as it can, and the timing is simulated once
  kNone,       // nobody: outputs are left as they are (timing only)
};

// How long `cycles` of a clock last at this pace.
std::chrono::nanoseconds paced_time(const Pace& pace, Cycles cycles, std::int64_t clock_hertz);

struct DeviceConfig {
  DeviceKind kind = DeviceKind::kSim;
  std::string name = {};                // "": that of the kind
  std::optional<ChipConfig> chip = {};  // sim: the networks must be compiled for it
  int kernels = 1;
  int threads = 0;                     // host: for all kernels together; 0 = all cores
  int queue_depth = 4;                 // submissions that may wait for each kernel
  Bytes memory = {};                   // 0: the DRAM of `chip`; host and ref: that of this machine
  Values values = Values::kSimulated;  // sim
  bool reuse_timing =
      false;  // sim, when values are not simulated: simulate a program's cycles once
  bool check_hazards = false, serial = false, trace = false;  // sim
  std::uint8_t traps = 0;                                     // sim (tessera/traps.h)
  int cores = 1;                                              // sim: that run a network together
  int cards = 1;                       // sim: on which they are, as evenly as can be
  CoreSplit split = CoreSplit::kAuto;  // and what each does of a layer
  int images = 1;                      // sim: at once, each on a team of the cores; divides them
  // sim: not null, it runs on this and has its cores (device/virtual_card.h); shared with the application.
  std::shared_ptr<VirtualProcessor> processor = {};
  Pace pace = {};
  // A run that takes longer is a failure of the device; 0: no limit but the deadlines of wait().
  std::chrono::nanoseconds run_limit{0};
  ProgressCallback progress = {};  // on the kernel's thread
};

// Host threads of each kernel: those of the device, divided.
int threads_a_kernel(const DeviceConfig& options);
// The memory of this machine.
Bytes machine_memory();

}  // namespace tessera::device

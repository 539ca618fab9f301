// What keeps a running pipeline from being faster, in one line: said by the page, by `tessera top`
// and at the end of `tessera bench`, from the same figures.
//
//   a device failed or hangs ─► nothing in flight ─► the kernels are full ─► runs wait for memory
//     ─► a link is full ─► a stage's threads are full ─► no room for more tasks ─► the source
//
// The first that holds is the answer. Kernels that are full come before threads: that is what the
// pipeline is for, and threads that wait for them look busy too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "metrics/snapshot.h"

namespace tessera::metrics {

enum class LimitCause : std::uint8_t {
  kDevice,     // one failed, or a run on it lasts far longer than any before
  kIdle,       // nothing is in flight
  kKernels,    // they never rest
  kMemory,     // runs wait for room in a device's memory
  kTransfers,  // the link, or the threads that bring tensors over
  kStage,      // its threads never rest
  kRoom,       // as many tasks are in flight as may be, and nothing is full
  kSource,     // too few tasks come
};
inline constexpr int kLimitCauses = 8;
// "device", "idle", "kernels", "memory", "transfers", "stage", "room", "source".
const char* name_of(LimitCause cause);

// Shares are of a stretch of time, 0 to 1.
struct DeviceUse {
  std::string name;
  double kernels_busy = 0;  // of all its kernels together
  double link_busy = 0;     // of the direction that moves more
  bool runs_wait_for_memory = false;
  bool healthy = true;
  std::string fault{};  // why not
  // A run that goes on and lasts longer than any before, such that it may never end; 0: none.
  double stuck_seconds = 0, longest_seconds = 0;
};
struct StageUse {
  std::string name;
  bool executes = false;  // its threads bring tensors to devices and back
  int threads = 1;
  double busy = 0;  // of its threads' time
};
struct Use {
  std::vector<DeviceUse> devices{};
  std::vector<StageUse> stages{};
  std::int64_t in_flight = 0, in_flight_max = 0;  // max 0: not known
};

struct Limit {
  LimitCause cause = LimitCause::kIdle;
  std::string place{};  // the device or stage; may be empty
  std::string text{};   // one line: what, how full, and what helps
};
Limit limit_of(const Use& use);

// What a snapshot does not know of a runtime.
struct DeviceCondition {
  std::string name;
  bool healthy = true;
  std::string fault{};
  bool runs_wait_for_memory = false;
};
struct Conditions {
  std::vector<DeviceCondition> devices{};
  std::vector<std::string> execute_stages{};  // by name
  std::int64_t in_flight_max = 0;             // of all pipelines; 0: not known
};
Use use_of(const Snapshot& snapshot, const Conditions& conditions);

}  // namespace tessera::metrics

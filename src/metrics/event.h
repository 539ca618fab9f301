// What the runtime notes while it works: one event for each run of a stage or kernel, each
// transfer, each change. Forty plain bytes, copied into a ring and never pointing anywhere.
#pragma once

#include <cstdint>

namespace tessera::metrics {

enum class EventKind : std::uint8_t {
  kStageRun,    // a stage worked on a packet (of a batch: its part of the time); value: nanoseconds
                // the packet waited before it
  kTransferIn,  // host to device (a write of device memory); value: bytes
  kTransferOut,    // device to host (a read of device memory); value: bytes
  kKernelRun,      // a kernel worked on a task; value: simulated cycles, 0 where there are none
  kQueueDepth,     // a queue after a push or a pop; begin = end; value: packets in it
  kTaskSubmitted,  // begin = end
  kTaskCompleted,  // begin: when it was submitted, end: when its result was there
  kControlChange,  // an operator or the tuner changed a source; value: its threads now
  kFault,          // a device failed; value: what the device reported
};
inline constexpr int kEventKinds = 9;

// "kernel run", as it stands in exports.
const char* name_of(EventKind kind);

// How a task ended.
enum class Outcome : std::uint8_t { kOk, kFailed, kCancelled };
inline constexpr int kOutcomes = 3;
const char* name_of(Outcome outcome);

// What a Recorder returns for each source that is added.
struct SourceId {
  std::uint16_t index = 0;
  friend bool operator==(const SourceId&, const SourceId&) = default;
};

// Times are nanoseconds of Recorder::now().
struct Event {
  EventKind kind = EventKind::kStageRun;
  Outcome outcome = Outcome::kOk;  // of a completed task
  SourceId source = {};
  std::uint32_t stream = 0;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint64_t packet = 0;
  std::int64_t value = 0;
};
static_assert(sizeof(Event) == 40);

}  // namespace tessera::metrics

#include "metrics/event.h"

#include <array>

namespace tessera::metrics {

const char* name_of(EventKind kind) {
  static constexpr std::array<const char*, kEventKinds> kNames = {
      "stage run",      "transfer in",    "transfer out",   "kernel run", "queue depth",
      "task submitted", "task completed", "control change", "fault"};
  return kNames.at(static_cast<std::size_t>(kind));
}

const char* name_of(Outcome outcome) {
  static constexpr std::array<const char*, kOutcomes> kNames = {"ok", "failed", "cancelled"};
  return kNames.at(static_cast<std::size_t>(outcome));
}

}  // namespace tessera::metrics

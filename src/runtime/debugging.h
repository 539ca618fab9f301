// Which tasks go to the processor, to the host, or to both (R13); changed while running.
#pragma once

#include <atomic>
#include <cstdint>

#include "tessera/runtime.h"

namespace tessera::runtime {

class Debugging {
 public:
  explicit Debugging(const DebugOptions& options) { set(options); }

  void set(const DebugOptions& options) {
    every_.store(options.every < 1 ? 1 : options.every, std::memory_order_relaxed);
    mode_.store(options.mode, std::memory_order_relaxed);
  }
  DebugMode mode() const { return mode_.load(std::memory_order_relaxed); }
  DebugMode mode_of(std::uint64_t sequence) const {
    const DebugMode mode = mode_.load(std::memory_order_relaxed);
    const auto every = static_cast<std::uint64_t>(every_.load(std::memory_order_relaxed));
    return sequence % every == 0 ? mode : DebugMode::kDevice;
  }

  std::atomic<std::int64_t> compared{0}, mismatches{0};

 private:
  std::atomic<DebugMode> mode_{DebugMode::kDevice};
  std::atomic<std::int64_t> every_{1};
};

}  // namespace tessera::runtime

// Where a box's time goes. Busy, blocked and idle add up to the elapsed cycles by construction:
// each cycle belongs to the state that was entered last.
#pragma once

#include <cstdint>
#include <vector>

#include "base/quantity.h"
#include "engines/wake_table.h"
#include "tessera/value_note.h"

namespace tessera::engines {

enum class Activity : std::uint8_t {
  kIdle,               // no task
  kBusy,               // working, or its own latency
  kBlockedDependency,  // a task is there, its next step may not start
  kBlockedMemory,      // the same, and what it waits for comes from DRAM
  kBlockedMessage,     // the same, and it comes from the network edge; counted with the memory
  kBlockedPorts,       // a step has begun that the state buffer's ports hold up
};

// What a box does. Blocked by a dependency: on a step of which other core, of those that run the program together.
struct Doing {
  static constexpr std::int32_t kOwnCore = -1;
  Activity activity = Activity::kIdle;
  std::int32_t core = kOwnCore;
  Doing(Activity what, std::int32_t on_core = kOwnCore)
      : activity(what), core(on_core) {}  // NOLINT
};

struct EngineTaskTimes {
  Cycles dispatched = 0, first_step_begin = 0, end = 0;
  Cycles busy = 0, blocked_dependency = 0, blocked_memory = 0, blocked_ports = 0;
  ValueExtent extent = ValueExtent::kUnknown;  // how far the results of its steps reach
  bool accumulator_range = false;
};

struct TraceRecord {
  std::uint32_t task = 0;  // position in the run
  Box engine = Box::kFirstEngine;
  std::int64_t step = 0;
  Cycles begin = 0, end = 0;
  Cycles blocked_ports = 0;    // of these
  Cycles blocked_message = 0;  // of a message processor: behind the port, at the end
};

struct EngineCounters {
  Cycles busy = 0, blocked_dependency = 0, blocked_memory = 0, blocked_ports = 0, idle = 0;
  Cycles blocked_message = 0;  // of blocked_memory
  std::int64_t tasks = 0, steps = 0, macs = 0;
  std::int64_t bytes_read = 0, bytes_written = 0;
  std::vector<Cycles>
      blocked_on_core;  // of blocked_dependency, by core; it ends with the last that is not 0
};

class TimeAccount {
 public:
  // From `now` on the box does that, on behalf of `task` (may be null).
  void enter(Cycles now, Doing doing, EngineTaskTimes* task) {
    settle(now);
    activity_ = doing.activity;
    core_ = doing.core;
    task_ = task;
  }
  void settle(Cycles now) {
    const Cycles elapsed = now - since_;
    since_ = now;
    switch (activity_) {
      case Activity::kIdle:
        counters.idle += elapsed;
        return;
      case Activity::kBusy:
        counters.busy += elapsed;
        if (task_ != nullptr) task_->busy += elapsed;
        return;
      case Activity::kBlockedDependency:
        counters.blocked_dependency += elapsed;
        if (task_ != nullptr) task_->blocked_dependency += elapsed;
        if (core_ != Doing::kOwnCore) count_core(elapsed);
        return;
      case Activity::kBlockedMessage:
        counters.blocked_message += elapsed;
        [[fallthrough]];
      case Activity::kBlockedMemory:
        counters.blocked_memory += elapsed;
        if (task_ != nullptr) task_->blocked_memory += elapsed;
        return;
      case Activity::kBlockedPorts:
        counters.blocked_ports += elapsed;
        if (task_ != nullptr) task_->blocked_ports += elapsed;
        return;
    }
  }
  void reset() {
    counters = {};
    activity_ = Activity::kIdle;
    core_ = Doing::kOwnCore;
    since_ = 0;
    task_ = nullptr;
  }
  Activity activity() const { return activity_; }

  EngineCounters counters;

 private:
  void count_core(Cycles elapsed) {
    if (elapsed == 0) return;
    const auto core = static_cast<std::size_t>(core_);
    if (core >= counters.blocked_on_core.size()) counters.blocked_on_core.resize(core + 1);
    counters.blocked_on_core[core] += elapsed;
  }

  Activity activity_ = Activity::kIdle;
  std::int32_t core_ = Doing::kOwnCore;
  Cycles since_ = 0;
  EngineTaskTimes* task_ = nullptr;
};

}  // namespace tessera::engines

// One core of the virtual processor that several virtual functions share: each is a device of its
// own (queued_device.h), and none sees the others.
//
//   function 0 ─ turn ─┐                     state buffer    [ region 0 | region 1 | region 2 ]
//   function 1 ─ turn ─┼─► waiting ─► core   kernel memory   [ region 0 | region 1 | region 2 ]
//   function 2 ─ turn ─┘                     DRAM            [ range 0  | range 1  | range 2  ]
//
// When the core is free its thread takes the turns that wait, at most one of a function, and
// simulates them together, each in a task queue with the priority of its submission. Each is over as
// soon as its own last task is: while the others go on. What stops one stops it alone.
//
// A function's region is cleared when it runs another program than the last time; its DRAM is that of
// its programs, and new ones begin with zeros.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "arch/chip_config.h"
#include "card/core.h"
#include "device/backend.h"
#include "device/device_options.h"
#include "device/host_steps.h"
#include "isa/program.h"

namespace tessera::device {

struct FunctionCoreOptions {
  bool timing_only = false;    // skip the values, same cycles
  bool check_hazards = false;  // report two tasks that race
  std::uint8_t traps = 0;      // exceptions of values that stop a run alone (tessera/traps.h)
  Pace pace = {};
};

// Bytes of the DRAM that each of several functions has.
Bytes function_memory(const ChipConfig& chip, int functions);

// For several threads at once. It outlives what was added.
class FunctionCore {
 public:
  // The caller has checked that the chip takes so many. The error is kUnavailable: the system has no
  // thread for it.
  static Result<std::shared_ptr<FunctionCore>> create(const ChipConfig& chip, int functions,
                                                      const FunctionCoreOptions& options);
  ~FunctionCore();
  FunctionCore(const FunctionCore&) = delete;
  FunctionCore& operator=(const FunctionCore&) = delete;

  // What programs of the function are linked for.
  isa::CoreRegion region(int function) const;

  // A program on the core, until it is removed.
  struct Placed {
    std::size_t network = 0;   // on the core
    std::uint64_t tenant = 0;  // a number of its own; 0: none
  };
  // Places a program that was verified within the function's region. Program and weights outlive
  // their use.
  Result<Placed> add(int function, const isa::Program& program, std::span<const std::byte> weights);
  // Never waits for the core.
  void remove(const Placed& placed);

  // A run of a program that was added.
  struct Run {
    int function = 0;
    Placed placed;
    const isa::Program* program = nullptr;
    const OpenSteps* host_steps = nullptr;
    const RunViews* views = nullptr;  // null: cycles only
    bool inputs_in_place = false, outputs_in_place = false;
    // What it gives when it runs by itself, if that is known: then it is not simulated again.
    std::shared_ptr<const RunResult> alone = {};
  };
  // Waits for the core, and for the end of the run.
  RunOutcome run(const Run& run, RunTurn& turn);
  // Cycles of the run by itself, without values; `views` and `alone` are not looked at.
  Result<RunResult> time_alone(const Run& run);

  int waiting() const;  // turns that are in front of the core

 private:
  struct Entry;
  class Exclusive;
  FunctionCore(const ChipConfig& chip, int functions, const FunctionCoreOptions& options);

  void serve();
  Status run_together(std::vector<Entry*>& entries);
  Status simulate(std::vector<Entry*>& entries);
  void finish(Entry& entry, RunOutcome outcome);
  Status prepare(const Run& run);
  RunOutcome outcome_of(const Run& run, const card::NetworkResult& network) const;
  Result<Cycles> take_host_steps(const Run& run, std::size_t segment, bool timing_only);
  card::NetworkRun network_run(const Run& run, int priority, bool timing_only);
  void drop_removed();

  const ChipConfig chip_;
  const int functions_;
  const FunctionCoreOptions options_;

  std::mutex core_mutex_;  // of the core; before mutex_
  std::unique_ptr<card::Core> core_;
  std::vector<std::uint64_t> tenants_;  // that ran last, of each function

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<Entry*> waiting_;
  std::vector<std::size_t> removed_;  // networks that are to go
  std::uint64_t next_tenant_ = 1;
  int loading_ = 0;      // threads that want the core for themselves, which go first
  TimePoint free_at_{};  // paced: when the last run ended by the schedule
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tessera::device

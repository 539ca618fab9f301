// A device that does what a script says: how long each run takes, what becomes of the bytes, what
// goes wrong. Queues, completions, memory, pacing and failure are those of every other device, so
// its user meets a processor with real time behaviour and needs no model.
//
//   run_time(run) ─► wall time        compute(inputs, outputs) ─► bytes        faults ─►
//   fault_plan.h
#pragma once

#include <functional>

#include "device/device.h"
#include "device/fault_plan.h"

namespace tessera::device {

struct ScriptedOptions {
  std::string name = "scripted";
  int kernels = 1;
  int queue_depth = 4;
  Bytes memory{std::int64_t{1} << 30};
  bool shared_memory = false;
  bool ends_runs = false;                  // as in Properties
  std::int64_t link_bytes_per_second = 0;  // as in Pace
  // How long a run takes, against an absolute schedule (queued_device.h). Empty: no time at all.
  std::function<std::chrono::nanoseconds(const ActivityObserver::Run&)> run_time = {};
  // What a run computes. Empty: output i gets the bytes of input i, as many as fit.
  std::function<Status(const ActivityObserver::Run&, std::span<const std::span<std::byte>> inputs,
                       std::span<const std::span<std::byte>> outputs)>
      compute = {};
  std::chrono::nanoseconds run_limit{0};
  FaultPlan faults = {};
  std::chrono::nanoseconds modelled_time{0};  // what the device says that a run takes; 0: nothing
  bool paced = true;  // false: a run takes what `compute` does, whatever run_time says
};

// The functions are called on the kernels' threads, side by side.
Result<std::unique_ptr<Device>> make_scripted_device(const ScriptedOptions& options);

// A network for it: tensors of this many bytes, and nothing else.
std::shared_ptr<const NetworkState> scripted_network(const std::string& name,
                                                     std::span<const std::int64_t> input_bytes,
                                                     std::span<const std::int64_t> output_bytes);

}  // namespace tessera::device

// Several networks on one core of the virtual processor, each in its region of state buffer and
// kernel memory, with a queue and a priority of its own.
//
//   networks ─► linked ─► regions, one behind the other ─► proved together ─► one core
//   run(inputs):  queues by priority and arrival; between a network's segments its host steps,
//                 whose time passes for that network alone
#pragma once

#include <memory>
#include <vector>

#include "arch/chip_config.h"
#include "card/core.h"
#include "device/host_steps.h"
#include "isa/program.h"
#include "network/network.h"
#include "tessera/run_result.h"

namespace tessera::device {

struct SharedRunNetwork {
  std::shared_ptr<const NetworkState> network;
  std::int32_t priority = 0;  // higher first
  Cycles arrival = 0;
  // Of state buffer and kernel memory, above 0 and at most 1; 0: as many bytes as its tasks need.
  double share = 0;
};

struct SharedRunOptions {
  bool timing_only = false;        // skip the values, same cycles; outputs are empty
  bool check_hazards = false;      // report two tasks that race
  bool trace = false;              // keep the timeline
  bool host_time = true;           // false: host steps and transfers take no time
  std::uint8_t traps = 0;          // exceptions of values that stop a network (tessera/traps.h)
  std::uint64_t shuffle_seed = 0;  // tests (card::CoreOptions)
};

class SharedRun {
 public:
  // All networks are for one architecture. Links, places and proves them.
  static Result<std::unique_ptr<SharedRun>> create(const std::vector<SharedRunNetwork>& networks,
                                                   const SharedRunOptions& options);

  // Of each network its inputs, in the application's form, checked by the caller. An error only if
  // all networks stopped.
  Result<SharedRunResult> run(const std::vector<std::vector<Tensor>>& inputs);

  const isa::Program& program(std::size_t network) const { return *slots_[network].program; }

 private:
  struct Slot {
    SharedRunNetwork of;
    std::unique_ptr<isa::Program> program;
    OpenSteps host_steps;
  };
  SharedRun(const ChipConfig& chip, const SharedRunOptions& options);
  Status place_regions();
  Status write_inputs(std::size_t network, const std::vector<Tensor>& inputs);
  Result<Cycles> take_host_steps(std::size_t network, std::size_t segment);
  void add_times(std::size_t network, SharedNetworkResult& of) const;
  Result<std::vector<Tensor>> read_outputs(std::size_t network) const;

  const ChipConfig chip_;
  const SharedRunOptions options_;
  std::vector<Slot> slots_;
  std::unique_ptr<card::Core> core_;
};

}  // namespace tessera::device

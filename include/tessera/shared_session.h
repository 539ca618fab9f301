// Run several networks on one core of the virtual processor, by priority.
//
//   Network::load("a.onnx", {.region_share = 0.75}) ─┐
//   Network::load("b.onnx", {.region_share = 0.25}) ─┴► SharedSession::open({{.network = a},
//        {.network = b, .priority = 5, .arrival_us = 200}})  ─►  run({{inputs of a}, {of b}})
//
// Each network has a region of state buffer and kernel memory, DRAM and a task queue of its own. The
// task manager takes tasks of the highest priority first, and switches at task boundaries: tasks
// that are in the task buffer already run first. Every network gives the bits that it gives alone. A
// network that is stopped (a bad descriptor, say) ends alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/network.h"
#include "tessera/result.h"
#include "tessera/run_result.h"
#include "tessera/tensor.h"

namespace tessera {

// One of the networks. All are for one architecture, and there are at most as many as the task
// manager has queues.
struct SharedNetwork {
  Network network;
  std::int32_t priority = 0;  // higher first
  double arrival_us = 0;      // when the host enqueues it, in microseconds of the core's clock
  // Of state buffer and kernel memory, above 0 and at most 1; 0: as many bytes as its tasks need.
  double share = 0;
};

// What SharedSession::open() may be asked for; the defaults are a plain run.
struct SharedSessionOptions {
  bool timing_only = false;    // skip the values, same cycles; outputs are empty
  bool check_hazards = false;  // report two tasks that race
  bool trace = false;          // keep the timeline
  bool host_time = true;       // false: the host's steps and transfers take no time
  std::uint8_t traps = 0;      // exceptions of values that stop a network alone (traps.h)
};

// Internal; see src/runtime/shared_session.cc.
class SharedSessionState;

// Several networks on one core. For one thread at a time, and for the process that opened it.
class SharedSession {
 public:
  // Proves that the networks keep apart, and that none can hold another up for ever. The error says
  // which network is wrong, or which memory is too small for all of them.
  static Result<SharedSession> open(const std::vector<SharedNetwork>& networks,
                                    const SharedSessionOptions& options = {});
  SharedSession(SharedSession&&) noexcept;
  SharedSession& operator=(SharedSession&&) noexcept;
  ~SharedSession();

  // Of each network its inputs, in the order of Network::inputs(). An error only where no network
  // could run; how each fared is in its result.
  Result<SharedRunResult> run(const std::vector<std::vector<Tensor>>& inputs);

 private:
  explicit SharedSession(std::unique_ptr<SharedSessionState> state);
  std::unique_ptr<SharedSessionState> state_;
};

}  // namespace tessera

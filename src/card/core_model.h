// One core, wired up: the only place that knows all boxes.
//
//   DRAM ◄─ channel ◄─┬─ task manager ─► data control ─► grants
//                     ├─ load DMA ─► state buffer ◄─┬─► planar engine
//                     ├─ store DMA ◄─┘              └─► neural engine ◄─ kernel memory
//                     └─ kernel DMA ────────────────────────────────────────┘
//
// The core owns the clock: it jumps to the earliest wake-up and steps the boxes that are due. Boxes
// exchange nothing within a cycle, so the order of stepping is free; CoreOptions::shuffle_seed
// shuffles it, and a test holds the cycles equal.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "card/core.h"

namespace tessera::card {

// A segment of a network that waits in a queue of its own.
struct NetworkRun {
  std::size_t network = 0;  // from add()
  std::size_t segment = 0;
  std::int32_t priority = 0;  // higher first
  Cycles arrival = 0;         // when the host enqueues it
};

// How one network fared. A fault stops its own network only.
struct NetworkResult {
  Status status;
  Cycles end = 0;  // of its last task
  std::vector<TaskTiming> tasks;
};

struct NetworksResult {
  RunStatistics statistics;  // tasks: of all networks, one behind the other
  std::vector<NetworkResult> networks;
};

class CoreModel : public Core {
 public:
  static Result<std::unique_ptr<CoreModel>> make(const ChipConfig& chip);

  // Further networks beside each other, at most task_manager.queues. They share the state buffer
  // and the kernel memory by agreement of their compilers; DRAM regions are their own. Returns the
  // network's number. The program must outlive its use.
  virtual Result<std::size_t> add(const isa::Program& program) = 0;
  virtual Status write(std::size_t network, isa::DramAddress address,
                       std::span<const std::byte> bytes) = 0;
  virtual Status read(std::size_t network, isa::DramAddress address,
                      std::span<std::byte> bytes) const = 0;
  using Core::read;
  using Core::write;

  // Runs segments of several networks from a quiet core, one queue each. The result is an error
  // only if all stop (deadlock, hazard, bad arguments).
  virtual Result<NetworksResult> run_networks(std::span<const NetworkRun> runs,
                                              const CoreOptions& options) = 0;
};

}  // namespace tessera::card

// The virtual processor: one core wired up, its memories holding real bytes, its clock.
//
//   DRAM ◄─ channel ◄─┬─ task manager ─► data control ─► grants
//                     ├─ load DMA ─► state buffer ◄─┬─► planar engines
//                     ├─ store DMA ◄─┘              └─► neural engines ◄─ kernel memory
//                     └─ kernel DMA ────────────────────────────────────────┘
//   network edge ─► message processors ─► state buffer, kernel memory; ◄─ state buffer
//
// The core owns the clock: it jumps to the earliest wake-up and steps the boxes that are due. Boxes
// exchange nothing within a cycle, so the order of stepping is free; CoreOptions::shuffle_seed
// shuffles it, and a test holds the cycles equal. Steps that several engines share begin in a second
// phase of the cycle, when all that are due have been stepped.
//
// Discrete events at exact cycles. Values and time are separate: with `timing_only` the same
// cycles come out and no value is computed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "arch/chip_config.h"
#include "base/result.h"
#include "card/run_statistics.h"
#include "isa/program.h"

namespace tessera::card {

struct CoreState;  // card/core_state.h

// The virtual processor: its memories hold real bytes, its engines compute with them, and its clock
// says when. One thread at a time.
class Core {
 public:
  static Result<std::unique_ptr<Core>> create(const ChipConfig& chip);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Places the program's weights and stream in DRAM and fills the base-address table. The program
  // must outlive the core's use of it. Checks fingerprint; the caller has verified the program.
  Status load(const isa::Program& program);
  // The same with the weights where the device holds them for all its cores; they are only read,
  // and outlive the core's use of them.
  Status load(const isa::Program& program, std::span<const std::byte> weights);
  // Further networks beside each other, at most task_manager.queues. Each has its region of state
  // buffer and kernel memory (isa/core_region.h) and DRAM of its own; that the regions are apart
  // the caller has verified (isa/verify_networks.h). Returns the network's number; that of load()
  // is 0. The program must outlive its use.
  Result<std::size_t> add(const isa::Program& program);
  // The same with weights as in load(), and DRAM within modelled addresses [first, first + bytes).
  struct DramPlace {
    std::int64_t first = 0, bytes = 0;
  };
  Result<std::size_t> add(const isa::Program& program, std::span<const std::byte> weights,
                          const DramPlace& place);
  // Gives up a network of add(), and its number.
  void remove(std::size_t network);
  // Zeros in the region of state buffer and kernel memory, as at power-up.
  void clear_region(const isa::CoreRegion& region);

  // From now on bytes [offset, offset + bytes.size()) of the region lie in the device's memory. The
  // parts of one region do not overlap, and no task's access leaves its part.
  Status bind(isa::DramAddress address, std::span<std::byte> bytes);
  Status bind(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes);

  // DRAM access through the base-address table, as the host's DMA does it; of network 0 where none
  // is named.
  Status write(isa::DramAddress address, std::span<const std::byte> bytes);
  Status read(isa::DramAddress address, std::span<std::byte> bytes) const;
  Status write(std::size_t network, isa::DramAddress address, std::span<const std::byte> bytes);
  Status read(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes) const;

  // Runs one segment from a quiet core. A deadlock is an error with each box's state; a bad
  // descriptor an error with task id and reason; a hazard an error naming the two tasks.
  Result<RunStatistics> run_segment(std::size_t segment, const CoreOptions& options);
  // Runs segments of several networks from a quiet core, one queue each. The result is an error
  // only if all stop (deadlock, hazard, bad arguments); a deadlock that one of several networks
  // causes by waiting for a task that never comes stops that one.
  Result<NetworksResult> run_networks(std::span<const NetworkRun> runs, const CoreOptions& options);

 private:
  explicit Core(std::unique_ptr<CoreState> state);
  const std::unique_ptr<CoreState> state_;
};

}  // namespace tessera::card

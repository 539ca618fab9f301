// The task manager: queues of tasks by priority, an arbiter, a DMA of its own that fetches
// descriptors, a fetch queue of one entry, and the way into the task buffer.
//
//   queue 0 ─┐          ┌────────┐ stream  ┌─────────────┐ fetch  ┌──────────┐ neural, planar (each),
//   queue 1 ─┼ arbiter ►│ DMA    ├────────►│ decode+check├───────►│ dispatch │► load, store,
//   queue n ─┘          └────────┘ buffer  └─────────────┘ queue  └──────────┘ kernel, data control
//
// Descriptors of a queue lie behind each other in DRAM; they are fetched in requests of
// dma.request_bytes, 4 KiB at most, two ahead. Decoding takes a cycle per configuration_words_per_cycle words,
// dispatch dispatch_cycles; a task goes to the sub-queues of all engines that share it. While the entry of the fetch queue waits, a queue of higher priority
// replaces it, if the task dispatched last allows a switch behind it. A bad descriptor stops its
// own network: the rest of its queue is dropped.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "engines/data_control/data_control.h"
#include "engines/fifo.h"
#include "engines/memory/dram_channel.h"
#include "engines/memory/dram_memory.h"
#include "engines/time_account.h"
#include "isa/program.h"

namespace tessera::engines {

// One task queue. `head` is the next task to fetch, `tail` one past the last.
struct TaskQueue {
  isa::TaskId head = 0, tail = 0;
  std::uint32_t network = 0;         // index into the run's networks
  std::uint32_t base_addresses = 0;  // base-address index
  std::int32_t priority = 0;         // higher first
  Cycles arrival = 0;                // when the host rings its bell
  const isa::Program* program = nullptr;

  std::uint32_t count() const { return tail - head; }
};

// A network that was stopped, and why.
struct NetworkFault {
  isa::TaskId task = 0;
  Error error;
};

// Descriptors decoded before, with the bytes they came from: the same bytes decode alike.
class DescriptorCache {
 public:
  struct Entry {
    std::vector<std::byte> bytes;
    std::unique_ptr<isa::TaskDescriptor> descriptor;
  };
  Entry& entry(std::uint32_t base_addresses, isa::TaskId task);
  void clear() { entries_.clear(); }

 private:
  std::vector<std::vector<Entry>> entries_;
};

class TaskManager {
 public:
  // Requests it may have on their way, those of a queue left behind included.
  static constexpr std::size_t kRequestsMax = 4;
  struct Wiring {
    DataControl* control = nullptr;
    DramMemory* memory = nullptr;
    DramPort* port = nullptr;
    WakeTable* wakes = nullptr;
    Table<Box, Fifo<RunTaskId>*> engines{};  // the sub-queues; null where a box has none
  };
  TaskManager(const ChipConfig& chip, const Wiring& wiring, DescriptorCache& cache);

  // Queues of the run, at most task_manager.queues; `networks` are those of the data control.
  void reset(std::vector<TaskQueue> queues, const std::vector<RunNetwork>& networks,
             bool timing_only);
  Cycles step(Cycles now);

  // Whether nothing is left to fetch or dispatch.
  bool done() const;
  std::size_t dispatched() const { return dispatched_; }
  const std::vector<std::optional<NetworkFault>>& faults() const { return faults_; }
  // The queue's next segment: its tasks end before `tail`, and the host rings its bell at `arrival`.
  void extend(std::size_t queue, isa::TaskId tail, Cycles arrival);
  // Drops what the queue still holds.
  void drop(std::size_t queue);
  TimeAccount& account() { return account_; }
  std::string describe() const;

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Fetched {
    std::size_t queue = kNone;
    isa::TaskId task = 0;
    const isa::TaskDescriptor* descriptor = nullptr;
    Cycles ready_at = 0;
  };
  struct Dispatch {
    RunTaskId task = 0;
    const isa::TaskDescriptor* descriptor = nullptr;
    Cycles done_at = 0;
  };
  void finish_dispatch(Cycles now);
  void begin_dispatch(Cycles now);
  // Whether the task dispatched last allows no switch behind it; then its own queue goes on.
  bool held() const;
  std::size_t arbitrate(Cycles now) const;
  void choose_queue(std::size_t best);
  void decode_head(Cycles now);
  Result<const isa::TaskDescriptor*> decode(const TaskQueue& queue);
  // The task, if the compressed kernel that it may load can be expanded. A timing-only run expands
  // none and does not look.
  Result<const isa::TaskDescriptor*> checked_kernel(const isa::TaskDescriptor& task,
                                                    const TaskQueue& queue) const;
  void issue(Cycles now);
  Cycles settle(Cycles now);
  std::int64_t stream_offset(const TaskQueue& queue, isa::TaskId task) const;

  const ChipConfig chip_;
  const Wiring wiring_;
  bool timing_only_ = false;
  DescriptorCache& cache_;
  std::vector<TaskQueue> queues_;
  std::vector<RunNetwork> networks_;
  std::vector<std::optional<NetworkFault>> faults_;
  std::size_t active_ = kNone;       // the queue the stream buffer holds
  bool switch_allowed_ = true;       // behind the task dispatched last
  std::int64_t requested_ = 0;       // stream bytes asked for
  std::int64_t arrived_ = 0;         // stream bytes in the buffer
  std::size_t stale_ = 0;            // requests on their way for a queue left behind
  Ring<std::int64_t> request_ends_;  // of requests on their way
  Ring<StridedRuns> grids_;
  std::optional<Fetched> fetched_;
  std::optional<Dispatch> dispatch_;
  std::size_t dispatched_ = 0;
  TimeAccount account_;
};

}  // namespace tessera::engines

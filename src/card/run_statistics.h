// What a run on the virtual processor is asked, and what it says of itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "isa/program.h"
#include "tessera/value_note.h"

namespace tessera::card {

struct CoreOptions {
  bool timing_only = false;
  bool check_hazards = false;
  // Record every step for the timeline; without it those of tasks whose header asks for it.
  bool trace = false;
  // isa::Traps: exceptions of values that stop a network, of every neural and planar task; those of
  // a descriptor's header hold beside them. Not with timing_only, which has no values.
  std::uint8_t traps = 0;
  // Messages go on coming in as if there were no break behind the run before; without it the first
  // begins to come at cycle 0.
  bool messages_go_on = false;
  std::uint64_t shuffle_seed = 0;  // != 0: step the boxes in a shuffled order (tests)
  // != 0: every step begins some cycles later than it might, some tasks much later (tests): engines
  // of any speed, in the same order each.
  std::uint64_t delay_seed = 0;
};

// Busy, blocked and idle add up to elapsed cycles.
struct EngineStatistics {
  // "neural", "planar", "message_in", "message_out", "load", "store", "kernel", "task_manager", "dram";
  // on a card "broadcast" (of a group), "ring" (from a group to the next), "network_out" and
  // "network_in" (of a card); of several of a kind "neural 0", "neural 1", ...
  std::string name;
  std::string kind;        // the name without the number
  std::int32_t index = 0;  // among those of its kind
  Cycles busy = 0;
  Cycles blocked_dependency = 0;  // a task is there, its next step may not start
  Cycles blocked_memory = 0;      // waiting for the DRAM channel, or for messages
  Cycles blocked_message = 0;     // of blocked_memory: for messages of the network edge
  Cycles blocked_ports = 0;       // held up by the state buffer's ports, which others use too
  Cycles idle = 0;                // no task, no share of it, or its share of the step is done
  std::int64_t tasks = 0;
  std::int64_t steps = 0;
  std::int64_t macs = 0;                           // useful multiply-accumulates
  std::int64_t bytes_read = 0, bytes_written = 0;  // of DRAM; of a message processor at its port
  // On a card: cycles, summed over the requests of a core's DMA engine, that they have waited for
  // other cores of their share; and the bytes on a wire, headers included.
  Cycles share_cycles = 0;
  std::int64_t wire_bytes = 0;
  // Of blocked_dependency: for a step of a task of another core of the program, by that core; it ends with the last
  // that is not 0.
  std::vector<Cycles> blocked_on_core = {};
};

struct TraceEvent {
  isa::TaskId task = 0;
  isa::EngineKind engine = isa::EngineKind::kNeural;
  std::int32_t index = 0;  // among the engines of its kind; each that shares a step has its event
  std::int64_t step = 0;
  Cycles begin = 0, end = 0;
  std::uint32_t network = 0;   // place in the run's networks
  Cycles blocked_ports = 0;    // of these cycles: held up by the state buffer's ports
  Cycles blocked_message = 0;  // of messages: of its last cycles, on the way behind the port
};

// Of a task that several engines share, busy and blocked are those of the first of them, which has the
// largest share.
struct TaskTiming {
  Cycles dispatched = 0, first_step_begin = 0, end = 0;
  Cycles busy = 0, blocked_dependency = 0, blocked_memory = 0, blocked_ports = 0;
  ValueExtent extent = ValueExtent::kUnknown;  // how far its results reach
  bool accumulator_range = false;              // a sum of 2^33 or more units
};

struct RunStatistics {
  Cycles cycles = 0;  // of the segment
  std::vector<EngineStatistics> engines;
  std::vector<TaskTiming> tasks;   // of the segment's tasks, by position
  std::vector<TraceEvent> trace;   // if asked
  std::int64_t row_misses = 0;     // of the DRAM channel
  Cycles idle_engine_cycles = 0;   // of all neural and planar engines
  std::uint32_t status_flags = 0;  // sticky: bit 0 NaN, 1 infinity, 2 accumulator range (arith)
};

// What a task's request takes of a channel or wire that the cores have in common.
struct WireEvent {
  std::uint32_t row = 0;  // in CardStatistics::shared
  Cycles begin = 0, end = 0;
  std::int64_t bytes = 0;  // of data
  bool write = false;
  // Whose request it was, the first of those that had it in common: a core of the program, and one of the tasks
  // of its segment. kNobody: a whole result that goes from card to card.
  static constexpr std::int32_t kNobody = -1;
  std::int32_t core = kNobody;
  isa::TaskId task = 0;
};

// How long requests of a core have waited for others (engines/card_memory/card_waits.h).
struct RequestWait {
  enum class For : std::uint8_t {
    kShareOfCores,   // `who` and `other` are cores of the program: the last of those of a group
    kShareOfGroups,  // they are groups of the cards: the last of those of a share
    kWire,           // `who` is a core, `other` the group of the wire, or of the network the card
  };
  For what = For::kWire;
  std::uint8_t wire = 0;  // which: see wire_kind_name()
  std::int32_t who = 0, other = 0;
  std::uint32_t share = 0;  // its number in the program
  Cycles cycles = 0;        // summed over requests
  auto operator<=>(const RequestWait&) const = default;
};
// "dram", "broadcast", "ring", "network_out", "network_in", as kinds of rows.
inline constexpr int kWireKinds = 5;
const char* wire_kind_name(std::uint8_t wire);
// Adds those of another part of the same run; both are ascending.
void add_waits(const std::vector<RequestWait>& more, std::vector<RequestWait>& waits);

struct CardStatistics {
  Cycles cycles = 0;                 // of the segment, until its last core has ended
  std::vector<RunStatistics> cores;  // `cycles` of each: until it had ended; no row of the memory
  // What they have in common: channels, units, ring links, network ports.
  std::vector<EngineStatistics> shared;
  std::vector<WireEvent> wires;    // in no order; if a trace was asked for
  std::vector<RequestWait> waits;  // ascending
  std::int64_t row_misses = 0;
};

// Takes the host's steps behind a segment, and says how many cycles of the core they last. It may
// read and write the network's DRAM; an error stops the network.
using HostSteps = std::function<Result<Cycles>(std::size_t segment)>;

struct NetworkResult;

// Segments of a network, one after the other, that wait in a queue of their own.
struct NetworkRun {
  std::size_t network = 0;    // from add()
  std::size_t segment = 0;    // the first
  std::int32_t priority = 0;  // higher first
  Cycles arrival = 0;         // when the host enqueues it
  std::size_t segments = 1;
  HostSteps host_steps = {};  // behind each segment; none: nothing is to be done there
  // Called once when it is over, while others go on: no task of it touches memory any more. Not of
  // one that was stopped.
  std::function<void(const NetworkResult&)> ended = {};
};

// How one network fared. A fault stops its own network only: its other tasks in the task buffer run
// out and compute nothing, and the rest of its queue is dropped.
struct NetworkResult {
  Status status;
  Cycles end = 0;                 // of its last task, or of the host steps behind it
  std::vector<TaskTiming> tasks;  // of all its segments
};

struct NetworksResult {
  RunStatistics statistics;  // tasks: of all networks, one behind the other
  std::vector<NetworkResult> networks;
};

}  // namespace tessera::card

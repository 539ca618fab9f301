// What a run gave: outputs, and on the virtual processor what each engine and layer did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/result.h"
#include "tessera/tensor.h"
#include "tessera/value_note.h"

namespace tessera {

// What one engine did, in cycles of the core clock. busy + blocked_* + idle = the run's cycles.
struct EngineUse {
  std::string name;  // "neural"; "neural 0", "neural 1", ... where the core has several
  std::int64_t busy = 0, blocked_dependency = 0, blocked_memory = 0, idle = 0;
  std::int64_t tasks = 0, steps = 0, macs = 0;
  std::int64_t dram_bytes_read = 0, dram_bytes_written = 0;
  // "neural", "planar", "message_in", "message_out", "load", "store", "kernel", "task_manager", "dram";
  // and the place among those.
  std::string kind = {};
  std::int32_t index = 0;
  std::int64_t blocked_ports = 0;    // held up by the state buffer's ports, which others use too
  std::int64_t blocked_message = 0;  // of blocked_memory: for messages of the network edge
  std::int64_t message_bytes = 0;    // of a message processor: through its port
  std::int32_t core = 0;             // of several; -1: what they share
  // On a card: cycles, summed over the requests of a DMA engine, that they have waited for other cores
  // that load the same bytes; bytes on a wire ("broadcast", "ring", "network_out", "network_in"),
  // headers included.
  std::int64_t share_cycles = 0;
  std::int64_t wire_bytes = 0;
};
// Cycles in which neural and planar engines had nothing to do, of all of them together: what could
// have been switched off.
inline std::int64_t idle_engine_cycles(const std::vector<EngineUse>& engines) {
  std::int64_t cycles = 0;
  for (const EngineUse& engine : engines) {
    if (engine.kind == "neural" || engine.kind == "planar") cycles += engine.idle;
  }
  return cycles;
}

// One bar of the timeline.
struct TimelineEvent {
  std::string engine, layer;  // the engine's name; a step has a bar on each engine that shares it
  std::int64_t task = 0, step = 0;
  std::int64_t begin = 0, end = 0;  // cycles
  // Of these cycles: held up by the state buffer's ports; of a neural or planar step the first ones.
  std::int64_t blocked_ports = 0;
  // Of messages: the last of these cycles, in which their bytes are on the way behind the port.
  std::int64_t blocked_message = 0;
  // Of a channel or wire of a card: the bytes of data, to the memory or from it, for a task of this core, the
  // first of those that wanted them. -1: of an engine, or a whole result between cards.
  std::int64_t bytes = 0;
  bool write = false;
  int core = -1;
};

// How a layer was shared out among several cores, and what moved for it (docs/card.md). Bytes are data,
// without the headers of frames.
struct LayerSplit {
  // "rows", "columns", "channels", "images"; "copies" and "parts" of a copy or transposition; "one core",
  // "host", "nothing" (a view of another layer's results); empty: the run was on one core.
  std::string way;
  int cores = 0;       // that had a part in it
  std::string reason;  // why one core had all of it; else empty
  std::vector<std::string>
      before;  // ways of the layers that it reads, each once; "input": the run's
  // What came of the results before: "own part" or "edges", perhaps "... through memory (why)"; "from one
  // core", "gather" (to one), "full forward", "full forward, full broadcast"; empty: nothing but inputs.
  std::string movement;
  std::string weights;  // "full broadcast", "own part", or empty: none
  std::int64_t dram_bytes_read = 0, dram_bytes_written = 0;  // of all memories
  std::int64_t merged_bytes = 0;  // that were not read because another core's read was for them
  std::int64_t ring_bytes = 0;    // of all links: what goes over two counts twice
  std::int64_t network_bytes = 0;
};

// What one layer (a node of the typed graph) cost on the processor.
struct LayerUse {
  std::string name, kind;
  Shape output_dims;
  std::int64_t macs = 0;
  std::int64_t begin = 0, end = 0;               // first step begins, last step ends (cycles)
  std::int64_t neural = 0, planar = 0, dma = 0;  // busy cycles
  std::int64_t blocked_dependency = 0, blocked_memory = 0, blocked_ports = 0;
  LayerSplit split = {};                       // of several cores
  ValueExtent extent = ValueExtent::kUnknown;  // how far its results reach
  bool accumulator_range = false;              // a sum of 2^33 or more units in an accumulator
};

// Where a core is, of several: its card, and its group and number among those of all cards.
struct CorePlace {
  int card = 0, group = 0, number = 0;
};

// What a part of one of several cores waited for because another core was late, or because what the cores have in
// common was taken (docs/card.md). Whoever met nobody is in no row.
struct CoreWait {
  // "core": an engine, for a step of another core's task; of its blocked_dependency.
  // "share": requests, for the last of those that load the same bytes; summed over requests.
  // "link": requests, for a channel or wire that other requests had, of its own core or another; summed over requests.
  std::string kind = {};
  // A row of RunResult::engines ("core 3 load"); "core 3"; or "group 1", whose cores have one request in common.
  std::string who = {};
  // "core 5"; "group 2"; a row of RunResult::engines ("dram 1", "ring 0", "network_out 1").
  // There a wire of which a tenant has no row of its own is named the same way.
  std::string what = {};
  std::string layer = {};   // of a share: that loads
  int core = -1;            // of `who`; -1: a group
  int other = -1;           // the core that was waited for; -1: a group, or a channel or wire
  std::uint32_t share = 0;  // its number in the program
  std::int64_t cycles = 0;  // at least 1
};

// What one run gave. By the model of processor and host it lasts cycles + host_cycles +
// transfer_cycles, one after the other: section [host] of the architecture file, docs/timing.md.
struct RunResult {
  std::vector<Tensor> outputs;  // in the order of Network::outputs()
  std::int64_t cycles = 0;      // of the processor; 0 on host and ref
  // In cycles of the processor's clock: of the host's steps, and of what goes over the link for them
  // and for the run's inputs and outputs. 0 on host and ref.
  std::int64_t host_cycles = 0, transfer_cycles = 0;
  std::int64_t clock_hertz = 0;
  std::vector<EngineUse> engines;       // sim only
  std::vector<LayerUse> layers;         // sim only
  std::vector<TimelineEvent> timeline;  // sim with trace
  std::vector<CorePlace> cores;         // of a run on several cores: of each
  std::vector<CoreWait> waits;  // likewise: the longest first; on a cluster of a run with trace
  int images = 1;               // that it made at once (SessionOptions::cores_per_image)
  // Of a run on a virtual processor: from when to when by the card's clock, the host's steps included.
  std::int64_t card_begin = 0, card_end = 0;
  std::uint32_t status_flags = 0;  // sticky: 1 NaN, 2 infinity, 4 accumulator range
  // Layers whose results left their format's range, or lost all bits, though what they read was sound.
  std::vector<ValueNote> value_notes;
};

// How one of several networks that shared a core fared.
struct SharedNetworkResult {
  // Why it was stopped: the task and the reason. The other networks' results are not touched.
  Status status;
  std::int64_t arrival = 0, end = 0;  // cycles of the run; its end is 0 where it was stopped
  // Outputs, layers and timeline, in cycles of the run. From arrival to end it is `cycles`,
  // `host_cycles` and the transfers of the host's steps; inputs arrive, and outputs leave, outside of
  // it. Engines and flags are those of the core, in SharedRunResult. Of a stopped network there are
  // no outputs.
  RunResult result;
};

// What a run of several networks on one core gave.
struct SharedRunResult {
  std::vector<SharedNetworkResult> networks;  // in the order of opening
  std::int64_t cycles = 0;                    // until the last one ended
  std::int64_t clock_hertz = 0;
  std::vector<EngineUse> engines;  // of the core, for all networks
  std::uint32_t status_flags = 0;  // as in RunResult, of all networks
};

}  // namespace tessera

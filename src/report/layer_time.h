// Where a run's cycles go: every cycle belongs to one layer and has one cause.
//
//   array     [ conv1 ][ conv2 ].............[ conv3 ]   a cycle in which a neural step runs is
//   planar              [ add ]                          the array's; a gap before a step is
//   kernel DMA    [ weights of conv3     ]               walked back along what the step waited
//                               |----| |-|               for: here weights, then start-up
//
// Going back from the step that ends the gap, the dependency (or the task before it in its queue)
// that came last is what the step waited for; its time is charged to its engine and its layer, and
// the walk goes on from there. What is left between an end and the begin it allowed is start-up.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/table.h"
#include "isa/program.h"
#include "network/network.h"
#include "tessera/run_result.h"

namespace tessera::report {

enum class Cause : std::uint8_t {
  kArray,       // the array runs
  kPlanar,      // it waits for the planar engine
  kWeights,     // for the kernel DMA
  kTransfers,   // for loads, stores, copies or messages
  kDependency,  // for its own results, that leave its pipeline
  kStartUp,     // for dispatch, configuration, latencies
  kPorts,       // its step is held up by the state buffer's ports
};
inline constexpr int kCauseCount = 7;
template <typename T>
using ByCause = FixedTable<Cause, T, kCauseCount>;
const char* cause_name(Cause cause);  // "array", "planar", "weights", "transfers", ...

struct LayerTime {
  ByCause<std::int64_t> cycles{};
  std::int64_t dram_bytes = 0;  // that its tasks move

  std::int64_t operator[](Cause cause) const { return cycles[cause]; }
  std::int64_t total() const;
  // The cause of most cycles.
  Cause bound() const;
  // Cycles without a neural step, and the cause of most of them.
  std::int64_t idle() const { return total() - (*this)[Cause::kArray]; }
  Cause idle_cause() const;
};

// One for each layer of the run. `run` has a timeline and ran `program`.
std::vector<LayerTime> layer_times(const isa::Program& program, const RunResult& run);
// DRAM bytes the task moves, without what bursts add.
std::int64_t task_dram_bytes(const isa::TaskDescriptor& task);

}  // namespace tessera::report

// When the layers of a network that is cut for several cores run: coarser than the timeline of one core's
// tasks (compile/timeline.h), from a few numbers of each layer.
//
//   some made  ─► stored ─► loaded ─┐            channels: data as they come,
//                                   ├─► steps    kernels in the gaps where they come last
//   room ─► kernels ────────────────┘
//
// A layer begins when its engines are free, and the first rows of what it reads and its first kernels are
// there. Loads and kernels go ahead of the layers before, as far as the task buffer and the kernel memory
// of a core reach.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/table.h"
#include "compile/channel_time.h"
#include "compile/plan.h"

namespace tessera::compile {

// What a layer reads, or what is stored of it. In cycles.
struct OperandDemand {
  std::vector<LayerIndex> makers = {};
  double stored = 0, loaded = 0;  // of all memories together
  double links = 0;               // of the busiest bus, ring or network port
  double passage = 0;             // of the core that loads most: its own DMA engine
  double loads = 1;               // of a core, each of another part
  double late = 0;                // from a step that makes some of it until it can be read
};

enum class LayerEngines : std::uint8_t { kArray, kLanes, kNone };

struct LayerDemand {
  LayerEngines engines = LayerEngines::kNone;
  double compute = 0;  // cycles of the slowest core's engines
  double copies = 0;   // cycles of the busiest memory, where it is copied in DRAM
  double copied = 0;   // of all memories together, for that
  double first = 1;    // part of the time after which the first rows of its results are there
  double steps = 1;    // of a task
  double pieces = 1;   // of its results, that are stored one after the other
  double kernels = 0;  // cycles of all memories
  double kernel_tasks = 1;
  std::int64_t kernel_bytes = 0;  // of a core's kernel memory, a partition
  std::int64_t tasks = 0;         // of a core
  std::vector<OperandDemand> operands = {};
  double output = 0;  // stored for the host: cycles of all memories
};

// From the cycle in which a layer's engines begin until its first rows, and all of them, are there.
struct LayerSpan {
  double begin = 0, first = 0, end = 0;
};

class LayerTimeline {
 public:
  // The chip outlives it.
  LayerTimeline(const ChipConfig& chip, bool load_before_arithmetic)
      : chip_(chip), load_before_arithmetic_(load_before_arithmetic) {}

  // Behind those that were added before.
  void add(const LayerDemand& layer);

  const Table<LayerIndex, LayerSpan>& spans() const { return spans_; }
  double end() const { return end_; }  // of all so far, with what is stored for the host

 private:
  struct Arrival {
    double first = 0, last = 0;  // some of all, and all, that a layer waits for
  };

  // From when on there is `size` of `room`, of which each layer takes as much as `of` says until it ends.
  double room_for(std::int64_t size, std::int64_t room, std::int64_t LayerDemand::* of) const;
  Arrival load(const LayerDemand& layer);
  Arrival load_kernels(const LayerDemand& layer);
  double take(double from, double cycles);
  double take_data(double from, double cycles);

  const ChipConfig& chip_;
  const bool load_before_arithmetic_;
  ChannelTime channel_;
  ChannelTime data_;              // of it, without kernels that wait for data
  std::array<double, 3> free_{};  // by LayerEngines
  std::vector<LayerDemand> before_;
  std::vector<double> ended_;  // of each layer: when all before it have
  double last_end_ = 0;
  std::vector<double> some_;  // of each layer: from when on it has results
  Table<LayerIndex, LayerSpan> spans_;
  double end_ = 0;
};

}  // namespace tessera::compile

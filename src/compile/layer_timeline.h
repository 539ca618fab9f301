// When the cores of a network that is cut for several have its layers: coarser than the timeline of one
// core's tasks (compile/timeline.h), from a few numbers of each layer and core.
//
//   core 0   layer 1 ██████████      rows of a core come one after the other; what another core needs
//   core 1   layer 1 ██████████      of them is stored and loaded as soon as they are there
//   core 0   layer 2   ████████──█   waits at its end for the first rows of core 1
//   core 1   layer 2            ██████████   waits at once for the last rows of core 0
//
// A core begins a layer when its engines are free, and the first rows of what it reads and its first
// kernels are there. Loads and kernels go ahead of the layers before, as far as the task buffer and the
// kernel memory of a core reach. Loads of a core wait for each other, and so do its stores and copies.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "arch/dram_config.h"
#include "base/table.h"
#include "compile/channel_time.h"
#include "compile/plan.h"

namespace tessera::compile {

// Of what a core makes of a layer, and what a core needs of that for another layer: parts of their rows,
// from 0 to 1, in the order in which they are made.
struct ShareNeed {
  LayerIndex maker = 0;
  std::int32_t writer = kEveryCore;          // a core, or the last of all of them
  double made_first = 0, made_last = 1;      // of the writer's rows
  double wanted_first = 0, wanted_last = 1;  // of the reader's, that need them
  bool kept = false;                         // it is in the reader's state buffer
  double ahead = 0;  // of the writer's rows: what a window reads of the next ones

  static constexpr std::int32_t kEveryCore = -1;
};

// What lies in one of the memories as a whole; -1: nothing.
struct OneMemory {
  std::int32_t memory = -1;
  double cycles = 0;  // of that memory, for all cores
};

// What a layer reads. In cycles, of one memory where they are a memory's.
struct OperandDemand {
  std::vector<std::vector<ShareNeed>> needs =
      {};  // of each core; none: it is there from the beginning
  double loaded =
      0;  // of all cores, each from the memory beside it, or from the one that has all of it
  double links = 0;  // of the busiest bus, ring or network port
  std::int32_t one_memory = -1;
  std::vector<double> passage = {};  // of each core's own DMA engine; 0: it loads nothing
  double loads = 1;                  // of a core, each of another part
  double late = 0;                   // from a step that makes some of it until it can be read
};

enum class LayerEngines : std::uint8_t { kArray, kLanes, kNone };

// A core's tasks wait for room in its state buffer: until `done` of an earlier layer's part, from 0 to 1, is
// done, or is stored, they do not go on after `before` of theirs, or of their loads.
struct RoomWait {
  LayerIndex layer = 0;
  bool stored = false;
  double done = 1;
  bool loads = false;
  double before = 0;
};

// A core's part of a layer. Its tasks, of `steps` rows each, make `slices` of the channels of each of
// `bands` of the rows, all of a band first.
struct CoreDemand {
  double compute =
      0;             // cycles of its engines, or of the memory where it is copied in DRAM; 0: none
  double drain = 0;  // of these: when its engines are free for what does not read its results
  double steps = 1, slices = 1, bands = 1;
  std::int64_t tasks = 0;  // of all engines
  double stores = 0;       // cycles of its own DMA engine
  double writes = 0;       // of the state buffer's ports, which loads have as well, for its results
  double fetched = 0;      // cycles of its memory, for the descriptors of its tasks
  // What it waits for its kernels, against what a core waits that has as many as the others of its memory.
  double kernel_part = 1;
  std::vector<RoomWait> rooms = {};
};

struct LayerDemand {
  LayerEngines engines = LayerEngines::kNone;
  std::vector<CoreDemand> cores = {};  // of each
  bool copies = false;                 // in DRAM, by the engines that store
  double copied = 0;                   // cycles of the memories beside the cores, for that
  double stored = 0;                   // of these for the results of all cores, but for
  OneMemory stored_in_one = {};
  bool stores_wait = false;  // less than the memory begins to write for while there are reads
  double kernels = 0;        // cycles of each memory
  double kernel_tasks = 1;
  std::int64_t kernel_bytes = 0;  // of a core's kernel memory, a partition
  std::vector<OperandDemand> operands = {};
};

// From the cycle in which a layer's engines begin until all results are there: of the core that begins
// first, and of the last one.
struct LayerSpan {
  double begin = 0, end = 0;
};

// Of a core's program: after how long its first task is there, and what of it is asked for ahead of that,
// in cycles of its memory.
struct ProgramFetch {
  double first = 0, ahead = 0;
};

class LayerTimeline {
 public:
  // The chip outlives it. `memory_of_core`: which memory is beside each; empty: all have one.
  LayerTimeline(const ChipConfig& chip, std::size_t cores, bool load_before_arithmetic,
                const std::vector<std::uint8_t>& memory_of_core = {})
      : chip_(chip),
        cores_(cores),
        memory_of_core_(memory_of_core.empty() ? std::vector<std::uint8_t>(cores, 0)
                                               : memory_of_core),
        memories_(1 + *std::ranges::max_element(memory_of_core_)),
        load_before_arithmetic_(load_before_arithmetic),
        kernels_accepted_(kKernelRequests * chip.dma.request_bytes /
                          dram_sustained_bytes_per_cycle(chip)),
        queues_(cores),
        dispatched_(cores, 0),
        last_end_(cores, 0) {}

  // From when to when the kernels of each layer are on their way, as a run before has found: what was
  // accepted of those of later layers is in the way of data.
  void expect(Table<LayerIndex, LayerSpan> kernels) { expected_ = std::move(kernels); }
  // A program begins, for the layers that are added behind: when all before is done, since the host does
  // something between two of them. Every core fetches the first two requests of it, and the cores of a
  // memory take turns.
  void begin(const std::vector<ProgramFetch>& cores);
  // Behind those that were added before. `layer` has as many cores as the timeline.
  void add(const LayerDemand& layer);

  const Table<LayerIndex, LayerSpan>& spans() const { return spans_; }
  // From when to when a layer's kernels were on their way; 0 where it has none.
  const Table<LayerIndex, LayerSpan>& kernels() const { return kernels_; }
  double end() const { return end_; }  // of all so far, with what is stored

  // About what a task takes of a program, and how many requests of kernels data find before them.
  static constexpr std::int64_t kTaskBytes = 160;
  static constexpr double kKernelRequests = 4;

 private:
  // When a core is done with what came before.
  struct Queues {
    std::array<double, 3> engines{};  // by LayerEngines
    double loads = 0, stores = 0;
    double dispatched = 0;  // of the layer's tasks, those before the first
    double fetched = 0;     // parts of the program that are asked for ahead: cycles of its memory
  };
  // A core's part of a layer.
  struct CoreSpan {
    double begin = 0, end = 0;
    double store_begin = 0, store_end = 0;  // of what is stored
  };
  // What holds up a core's part of a layer: it neither begins before `first` nor ends before `last`.
  struct Wait {
    double first = 0, last = 0;
    double all = 0;    // when everything is there
    double asked = 0;  // of kernels
  };

  // A part of its time after which a core has made the first `rows` of its rows, from 0 to 1, or after
  // which it begins with what is behind them.
  static double made_after(const CoreDemand& core, double rows);
  static double begun_after(const CoreDemand& core, double rows);

  bool before(const ShareNeed& need) const;  // else it makes what later layers read
  double made(const ShareNeed& need, double rows) const;
  // From when on there is room for one more of a core's layers that `taken` says the room of.
  template <typename Taken>
  double room_for(std::size_t core, std::int64_t size, std::int64_t room, const Taken& taken) const;
  double ahead(std::size_t core) const;  // of the task buffer
  void dispatch(const LayerDemand& layer);
  Wait wait(const LayerDemand& layer, std::size_t core);
  double room_at(const RoomWait& room, std::size_t core) const;
  void load(const LayerDemand& layer, const OperandDemand& operand, std::size_t core, Wait& wait);
  void add_wait(const CoreDemand& own, double arrival, double rows, Wait& wait) const;
  Wait load_kernels(const LayerDemand& layer) const;
  void compute(const LayerDemand& layer, std::size_t core, const Wait& data, const Wait& kernels,
               CoreSpan& span);
  void copy(const LayerDemand& layer, std::size_t core, const Wait& data, CoreSpan& span);
  void store(const LayerDemand& layer, std::size_t core, CoreSpan& span);
  struct Memory {
    ChannelTime channel;
    ChannelTime data;  // of it, without kernels that wait for data
    double owed = 0;   // parts of cycles
  };
  static double take(Memory& memory, ChannelTime& channel, double from, double cycles);
  // When data have passed the channel, and when they are there: behind kernels that it has accepted.
  struct DataEnd {
    double moved = 0, there = 0;
  };
  DataEnd take_data(Memory& memory, double from, double cycles);
  // The memory beside a core, or the one of that number, if it has one.
  Memory& memory_of(std::size_t core, std::int32_t one = -1);
  double store_data(const LayerDemand& layer, std::size_t core, double from);
  bool meets_kernels(double from, double to) const;  // of later layers
  double take_kernels(double from, double cycles);   // of every memory

  const ChipConfig& chip_;
  const std::size_t cores_;
  const std::vector<std::uint8_t> memory_of_core_;
  std::vector<Memory> memories_;
  const bool load_before_arithmetic_;
  const double kernels_accepted_;  // cycles of kernels that data wait for
  std::vector<Queues> queues_;
  std::vector<double> dispatched_;  // of the layer that is added: its first task, of each core
  std::vector<LayerDemand> before_;
  std::vector<std::vector<CoreSpan>> core_spans_;  // of each layer
  std::vector<std::vector<double>> ended_;  // of each layer: when a core has ended those before
  std::vector<double> last_end_;
  Table<LayerIndex, LayerSpan> spans_, kernels_, expected_;
  double end_ = 0;
};

}  // namespace tessera::compile

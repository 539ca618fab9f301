#include "compile/share_sides.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <variant>

#include "arch/dram_config.h"
#include "compile/dram_order.h"
#include "compile/estimate.h"
#include "compile/share_memories.h"
#include "compile/share_rooms.h"
#include "isa/dma_time.h"
#include "isa/dma_work.h"
#include "isa/task_hazard.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

constexpr double kPortBound = 1.15;  // within so much of it

// What the state buffer's port takes for all bytes of a transfer.
double port_cycles(const isa::TaskDescriptor& task, const ChipConfig& chip) {
  isa::DmaStep plan;
  isa::plan_dma_step(task, 0, {}, chip, plan);
  const auto bytes = static_cast<double>(plan.runs * plan.run_bytes * plan.expansion);
  const auto width = static_cast<double>(isa::dma_port_width(plan, chip.dma.port_bytes));
  return static_cast<double>(task.steps()) * bytes / width;
}

}  // namespace

void ShareTransfers::add(const isa::TaskDescriptor& task, const isa::TransferTask& transfer,
                         const ChipConfig& chip) {
  useful += static_cast<double>(std::int64_t{task.bands.images} * task.bands.rows *
                                transfer.channel_count * transfer.buffer.columns *
                                format_bytes(transfer.buffer.format));
  const isa::DmaTime time = isa::dma_time(task, chip);
  // Neighbours that come one after the other share bursts: no more than the memory moves meanwhile.
  const double rate = dram_sustained_bytes_per_cycle(chip);
  const double in_bursts =
      std::min(static_cast<double>(time.dram_bytes) / rate, static_cast<double>(time.transfer()));
  bursts += in_bursts * rate;
  // Where the buffer's port is not what a transfer waits for, the memory is.
  const auto behind_first = static_cast<double>(time.cycles - time.first);
  const auto many = static_cast<double>(std::max<std::int64_t>(2, time.requests));
  const double paced = behind_first * many / (many - 1);
  const bool by_port = static_cast<double>(time.transfer()) < kPortBound * port_cycles(task, chip);
  memory += by_port ? in_bursts : std::max(in_bursts, paced);
  requests += static_cast<double>(time.requests);
  // A task is configured beside the one before it.
  const Cycles moving = estimate_task(task, chip) - time.start - time.completion;
  passage += static_cast<double>(std::max(moving, time.start));
}

std::int64_t ShareTransfers::request_bytes() const {
  if (requests == 0) return 0;
  return static_cast<std::int64_t>(
      std::bit_floor(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bursts / requests))));
}

void ShareTransfers::add(const StorageView& view, std::int64_t element_bytes,
                         const ChipConfig& chip) {
  const std::int64_t in_bursts = burst_bytes(view, element_bytes, dram_burst_bytes(chip));
  const double cycles = static_cast<double>(in_bursts) / dram_sustained_bytes_per_cycle(chip);
  useful += static_cast<double>(std::accumulate(view.extents.begin(), view.extents.end(),
                                                element_bytes, std::multiplies<>()));
  bursts += static_cast<double>(in_bursts);
  passage += cycles;
  memory += cycles;
}

namespace {

// What copies in DRAM take of each memory, and of a core.
struct CopyWork {
  std::vector<double> of_cores;  // one copy waits for the one before
  std::vector<double> moving_of_cores;
  double moving = 0;                  // of all cores: what memories take of it
  std::int64_t tasks = 0, steps = 1;  // of all cores; of a task
};

// What a core does of a layer.
struct CoreWork {
  Cycles neural = 0, planar = 0;
  Cycles behind = 0;  // of the planar ones: until their last results are there
  Cycles drain = 0;   // of the last planar one
  std::int64_t neural_tasks = 0, planar_tasks = 0, steps = 1;
  // Where nothing is computed: results pass the buffer on their way from memory to memory.
  Cycles loaded = 0, stored = 0;
  std::int64_t stores = 0, store_steps = 1;
  std::int64_t tasks = 0, kernel_tasks = 0, kernel_room = 0;

  void add(const isa::TaskDescriptor& task, const ChipConfig& chip) {
    ++tasks;
    if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
      ++kernel_tasks;
      kernel_room += kernel->bytes_per_partition;
    }
    if (std::holds_alternative<isa::TransferTask>(task.config)) return add_transfer(task, chip);
    const bool on_array = task.engine == isa::EngineKind::kNeural;
    if (!on_array && task.engine != isa::EngineKind::kPlanar) return;
    (on_array ? neural : planar) += estimate_occupancy(task, chip);
    // Behind its last step a lane is free.
    if (!on_array && task.steps() > 1) behind += chip.planar.latency_cycles;
    drain = chip.planar.latency_cycles;
    ++(on_array ? neural_tasks : planar_tasks);
    steps = std::max(steps, task.steps());
  }
  void add_transfer(const isa::TaskDescriptor& task, const ChipConfig& chip) {
    const Cycles passage = isa::dma_time(task, chip).transfer();
    if (task.engine == isa::EngineKind::kLoad) {
      loaded += passage;
      return;
    }
    stored += passage;
    ++stores;
    store_steps = std::max(store_steps, task.steps());
  }
  CoreDemand demand(std::int64_t bands) const {
    const bool passes = neural == 0 && planar == 0 && loaded > 0 && stored > 0;
    const std::int64_t engine_tasks = passes             ? stores
                                      : neural >= planar ? neural_tasks
                                                         : planar_tasks;
    CoreDemand result;
    result.compute =
        static_cast<double>(passes ? std::max(loaded, stored) : std::max(neural, planar));
    if (!passes && planar > neural) result.drain = static_cast<double>(drain);
    result.steps = static_cast<double>(passes ? store_steps : steps);
    result.bands = static_cast<double>(std::max<std::int64_t>(1, bands));
    result.slices = std::max(1.0, static_cast<double>(engine_tasks) / result.bands);
    result.tasks = tasks;
    return result;
  }
  double share() const { return static_cast<double>(std::max(neural, planar - behind)); }
  void slowest(LayerSide& side) const {
    side.kernel_tasks = std::max(side.kernel_tasks, kernel_tasks);
    side.kernel_room = std::max(side.kernel_room, kernel_room);
    const Cycles compute = std::max(neural, planar);
    if (compute <= side.compute) return;
    side.compute = compute;
    side.neural = neural >= planar;
    // Tasks come one behind the other, and each of them makes all rows of some results.
    const auto tasks_of_engine = static_cast<double>(side.neural ? neural_tasks : planar_tasks);
    side.first = 1 - (1 - 1 / static_cast<double>(steps)) / tasks_of_engine;
  }
};

// Parts of the rows, or images, that a core's pieces make one behind the other.
std::int64_t bands_of(const std::vector<Piece>& pieces) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> begins;
  for (const Piece& piece : pieces) {
    begins.insert({piece.output.image_first, piece.output.row_first, piece.output.column_first});
  }
  return std::ssize(begins);
}

class SideFinder {
 public:
  SideFinder(const ShareDraft& draft, const ShareSetting& setting, std::size_t memories)
      : draft_(draft),
        setting_(setting),
        chip_(setting.chip),
        cores_(static_cast<std::size_t>(setting.choice.cores)),
        memories_(memories),
        layers_(draft.prepared.layers.size()),
        sides_(layers_),
        kernels_(layers_, std::vector<KernelLoads>(memories)),
        bytes_(layers_, std::vector<double>(memories, 0)),
        kernels_of_cores_(layers_, std::vector<double>(cores_, 0)),
        copies_(layers_),
        rooms_(find_rooms(draft, chip_)) {}

  Table<LayerIndex, LayerSide> run() {
    for (std::size_t core = 0; core < cores_; ++core) add_core(core);
    for (std::size_t i = 0; i < layers_; ++i) {
      LayerSide& side = sides_[i];
      if (side.compute == 0) take_copies(static_cast<LayerIndex>(i), copies_[i], side);
      side.kernel_bytes = *std::ranges::max_element(bytes_[i]);
      find_kernel_parts(i);
      if (side.stores.useful == 0) add_kept(static_cast<LayerIndex>(i), side.stores);
    }
    return std::move(sides_);
  }

 private:
  // Kernels that a layer loads from one memory: how many of its cores load each.
  using KernelLoads = std::map<std::uint64_t, int>;

  std::size_t memory_of(std::size_t core) const {
    const std::vector<std::uint8_t>& memory = setting_.choice.memory_of_core;
    return memory.empty() ? 0 : memory[core];
  }

  void add_core(std::size_t core) {
    std::vector<CoreWork> works(layers_);
    const isa::TaskDescriptor* array_before = nullptr;
    for (const isa::TaskDescriptor& task : draft_.emitted[core].tasks) {
      CoreWork& work = works[task.layer];
      work.add(task, chip_);
      if (task.engine == isa::EngineKind::kNeural) {
        if (array_before != nullptr) work.neural += drain_before(task, *array_before);
        array_before = &task;
      }
      add_moved(task, core);
    }
    for (std::size_t i = 0; i < layers_; ++i) {
      LayerSide& side = sides_[i];
      works[i].slowest(side);
      side.cores.push_back(works[i].demand(bands_of(draft_.work[i].pieces[core])));
      side.cores.back().rooms = std::move(rooms_[i][core]);
      side.shares.push_back(works[i].share());
    }
  }

  // Cores of a memory have equal parts of it for kernels of their own, since those that have theirs go on with
  // the next layers': one with more than others waits longer.
  void find_kernel_parts(std::size_t layer) {
    for (std::size_t memory = 0; memory < memories_; ++memory) {
      const bool shared = std::ranges::any_of(kernels_[layer][memory],
                                              [](const auto& load) { return load.second > 1; });
      std::vector<std::size_t> cores;
      for (std::size_t core = 0; core < cores_; ++core) {
        if (memory_of(core) == memory && kernels_of_cores_[layer][core] > 0) cores.push_back(core);
      }
      for (const std::size_t core : cores) {
        if (shared || bytes_[layer][memory] == 0) continue;
        sides_[static_cast<LayerIndex>(layer)].cores[core].kernel_part =
            static_cast<double>(cores.size()) * kernels_of_cores_[layer][core] /
            bytes_[layer][memory];
      }
    }
  }

  // Results that stay where all layers are cut the same way, and have to be stored where they are not.
  void add_kept(LayerIndex layer, ShareTransfers& stores) const {
    for (const std::vector<Piece>& pieces : draft_.work[layer].pieces) {
      for (const Piece& piece : pieces) {
        const StorageView& view = piece.output.view;
        if (view.storage < 0) continue;
        const Storage& storage = draft_.prepared.storages.storages[view.storage];
        stores.add(view, format_bytes(storage.format), chip_);
      }
    }
  }

  void add_moved(const isa::TaskDescriptor& task, std::size_t core) {
    const std::size_t memory = memory_of(core);
    if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
      kernels_of_cores_[task.layer][core] += static_cast<double>(kernel->stored_bytes());
      const bool anew = ++kernels_[task.layer][memory][kernel->source.offset] == 1;
      if (!anew && setting_.choice.share_loads) return;
      bytes_[task.layer][memory] += static_cast<double>(kernel->stored_bytes());
    } else if (const auto* move = std::get_if<isa::TransferTask>(&task.config)) {
      LayerSide& side = sides_[task.layer];
      const bool load = task.engine == isa::EngineKind::kLoad;
      (load ? side.loads : side.stores).add(task, *move, chip_);
      if (load && !may_cut_rows(*move)) side.cuts_rows = false;
    } else if (std::holds_alternative<isa::CopyTask>(task.config)) {
      CopyWork& work = copies_[task.layer];
      work.of_cores.resize(cores_);
      work.moving_of_cores.resize(cores_);
      const isa::DmaTime time = isa::dma_time(task, chip_);
      work.of_cores[core] += static_cast<double>(time.cycles);
      work.moving_of_cores[core] += static_cast<double>(time.transfer() - time.lead);
      work.moving += static_cast<double>(time.transfer());
      ++work.tasks;
      work.steps = std::max(work.steps, task.steps());
    }
  }

  // What the array waits for the results of the task before, where it reads them.
  Cycles drain_before(const isa::TaskDescriptor& task, const isa::TaskDescriptor& before) const {
    if (!isa::reads_results_of(task, before, chip_.state_buffer.partitions)) return 0;
    return neural_drain_cycles(chip_.neural,
                               isa::product_work(std::get<isa::NeuralTask>(before.config), chip_));
  }

  // What a core takes that comes to a memory in turns with others until it is done: it waits for half of their
  // turns.
  static double in_turns(const std::vector<double>& of_cores, std::size_t core, double part) {
    double others = -of_cores[core];
    for (const double of_core : of_cores) others += std::min(of_cores[core], of_core);
    return of_cores[core] + part * others / 2;
  }

  // What is copied lies in one memory, and so does where it goes. Cores that copy at once share them:
  // each takes as long as all.
  void take_copies(LayerIndex layer, const CopyWork& copies, LayerSide& side) const {
    if (copies.tasks == 0) return;
    side.copies = true;
    const double in_memory = copies.moving * busiest_memory(layer);
    const double longest = std::max(in_memory, std::ranges::max(copies.of_cores));
    side.compute = std::llround(longest);
    side.copied = copies.moving;
    const double tasks =
        std::max(1.0, static_cast<double>(copies.tasks) / static_cast<double>(cores_));
    side.first = 1 - (1 - 1 / static_cast<double>(copies.steps)) / tasks;
    for (std::size_t core = 0; core < cores_; ++core) {
      if (copies.of_cores[core] == 0) continue;
      side.cores[core].compute = static_cast<double>(side.compute);
      // They come to the memory in turns. Of small ones, of a step, nothing but moving is work.
      side.shares[core] = copies.steps > 1
                              ? std::max(copies.of_cores[core], in_memory / 2)
                              : in_turns(copies.moving_of_cores, core, busiest_memory(layer));
    }
  }
  // The part of a layer's copies that the busiest memory reads and writes, where storages lie in memories in
  // turn.
  double busiest_memory(LayerIndex layer) const {
    std::map<StorageIndex, double> moved;
    double all = 0;
    const auto add = [&](StorageIndex storage, double elements) {
      moved[storage] += elements;
      all += elements;
    };
    for (const PlannedCopy& copy : draft_.prepared.layers[layer].copies) {
      double elements = 1;
      for (const std::int64_t extent : copy.to.extents) elements *= static_cast<double>(extent);
      if (copy.destination >= 0) add(copy.destination, elements);
      if (!copy.fill && copy.source >= 0) add(copy.source, elements);
    }
    std::vector<double> of_memories(memories_, 0);
    std::size_t turn = 0;
    for (const auto& [storage, elements] : moved) of_memories[turn++ % memories_] += elements;
    return all == 0 ? 1 : *std::ranges::max_element(of_memories) / all;
  }

  const ShareDraft& draft_;
  const ShareSetting& setting_;
  const ChipConfig& chip_;
  const std::size_t cores_, memories_, layers_;
  Table<LayerIndex, LayerSide> sides_;
  std::vector<std::vector<KernelLoads>> kernels_;  // by layer and memory, as the next
  std::vector<std::vector<double>> bytes_, kernels_of_cores_;
  std::vector<CopyWork> copies_;                                 // by layer
  Table<LayerIndex, std::vector<std::vector<RoomWait>>> rooms_;  // by layer and core
};

}  // namespace

Table<LayerIndex, LayerSide> find_sides(const ShareDraft& draft, const ShareSetting& setting,
                                        std::size_t memories) {
  return SideFinder(draft, setting, memories).run();
}

}  // namespace tessera::compile

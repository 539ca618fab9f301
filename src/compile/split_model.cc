#include "compile/split_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "arch/dram_config.h"
#include "arch/dram_sharing.h"
#include "base/check.h"
#include "compile/estimate.h"
#include "compile/surface_conventions.h"
#include "isa/dma_time.h"
#include "isa/task_hazard.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using Regions = std::vector<PlaneRegion>;     // of each core
using WayCounts = std::vector<std::uint8_t>;  // of each node: its ways
// What a layer reads or writes of a storage when it is cut one way; none where these are no regions.
using Share = std::optional<Regions>;
constexpr std::size_t kCostsMax = 512;  // of a factor; more are taken in pairs

double elements(const Regions& regions) {
  double sum = 0;
  for (const PlaneRegion& region : regions) sum += static_cast<double>(region.elements());
  return sum;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

const char* movement_name(Movement movement) {
  switch (movement) {
    case Movement::kEdges:
      return "edges";
    case Movement::kForward:
      return "forward";
    case Movement::kToEveryone:
      return "to everyone";
    case Movement::kNothing:
      break;
  }
  return "nothing";
}

class SplitModel::Implementation {
 public:
  Implementation(const graph::Graph& graph, const ShareSetting& setting, int cards,
                 std::vector<ShareDraft> drafts)
      : graph_(graph),
        setting_(setting),
        cards_(cards),
        drafts_(std::move(drafts)),
        cores_(static_cast<std::size_t>(setting.choice.cores)) {
    const std::vector<std::uint8_t>& memory = setting_.choice.memory_of_core;
    memories_ = memory.empty() ? 1 : 1 + *std::ranges::max_element(memory);
    const std::size_t of_memory = (cores_ + memories_ - 1) / memories_;
    memory_rate_shared_ = dram_shared_bytes_per_cycle(setting_.chip, static_cast<int>(of_memory));
    for (const ShareDraft& draft : drafts_) {
      TESSERA_CHECK(layers().size() == draft.prepared.layers.size(),
                    "other layers one way than another");
    }
    find_ways();
    for (std::size_t way = 0; way < drafts_.size(); ++way) find_sides(way);
    find_operands();
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      tables_.push_back(tables_of(layer, counts_));
    }
  }

  std::vector<CostFactor> factors(bool grids) const {
    std::vector<CostFactor> factors;
    const auto add = [&](const Tabulated& table) {
      CostFactor& factor = factors.emplace_back(CostFactor{table.nodes, {}, table.counts});
      for (const LayerCost& cost : table.costs) factor.costs.push_back(cost.cycles);
    };
    for_each_table(grids, add);
    return factors;
  }

  std::vector<isa::ModelledLayer> modelled() const {
    std::vector<isa::ModelledLayer> result;
    for_each_table(/*grids=*/true, [&](const Tabulated& table) {
      isa::ModelledLayer& layer =
          result.emplace_back(isa::ModelledLayer{table.nodes, table.counts, {}});
      for (const LayerCost& cost : table.costs) {
        layer.costs.push_back({static_cast<float>(cost.compute), static_cast<float>(cost.memory),
                               static_cast<float>(cost.links()),
                               static_cast<float>(cost.exchange)});
      }
    });
    return result;
  }

  std::vector<LayerCost> costs(const std::vector<Split>& of_nodes) const {
    std::vector<LayerCost> costs;
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      costs.push_back(cost(layer, [&](graph::NodeIndex node) { return way_in(of_nodes, node); }));
    }
    return costs;
  }

  ModelRun run(const std::vector<Split>& of_nodes) const {
    ModelRun result;
    const auto way_of = [&](graph::NodeIndex node) { return way_in(of_nodes, node); };
    LayerTimeline timeline(setting_.chip, setting_.choice.load_before_arithmetic);
    std::vector<bool> stored(storage_bytes_.size(), false);
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      const graph::NodeIndex node = layers()[layer].node;
      const Side& side = sides_[node < 0 ? 0 : way_of(node)][layer];
      timeline.add(demand_of(layer, side, way_of, stored));
      std::vector<double>& shares = result.shares.emplace_back();
      const double moved = cost(layer, way_of).moved();
      for (std::size_t core = 0; core < cores_; ++core) {
        const auto compute = static_cast<double>(side.of_cores[core]);
        const double kernels = side.own_kernels[core] ? side.kernel_bytes / memory_rate() : 0;
        shares.push_back(compute == 0 ? moved : std::max(compute, kernels));
      }
    }
    result.layers = timeline.spans();
    result.cycles = timeline.end();
    return result;
  }

 private:
  // All cores' transfers of a layer: what short runs cost.
  struct Transfers {
    double useful = 0, bursts = 0;  // bytes
    double passage = 0;             // cycles that each takes alone

    void add(const isa::TaskDescriptor& task, const isa::TransferTask& transfer,
             const ChipConfig& chip) {
      useful += static_cast<double>(std::int64_t{task.bands.images} * task.bands.rows *
                                    transfer.channel_count * transfer.buffer.columns *
                                    format_bytes(transfer.buffer.format));
      const isa::DmaTime time = isa::dma_time(task, chip);
      bursts += static_cast<double>(time.dram_bytes);
      passage += static_cast<double>(estimate_task(task, chip) - time.start - time.completion);
    }
    double padding() const { return useful == 0 ? 1 : bursts / useful; }
    double cycles_per_byte() const { return useful == 0 ? 0 : passage / useful; }
  };

  // What a layer does when it is cut one way.
  struct Side {
    Cycles compute = 0;            // of the slowest core
    std::vector<Cycles> of_cores;  // each one's
    bool neural = false;           // which engines take that long
    bool copies = false;           // none: it is copied in DRAM, at the speed of the busiest memory
    double copied = 0;             // of all memories together
    double first = 1;  // part of the time after which the first rows of the results are there
    double steps = 1, pieces = 1;                               // of a task, and of all of a core
    std::int64_t tasks = 0, kernel_tasks = 0, kernel_room = 0;  // of a core; bytes of a partition
    double kernel_bytes = 0;                                    // that the busiest memory reads
    Transfers loads, stores;        // where what it reads is cut the same way
    std::vector<bool> own_kernels;  // of each core: it loads some that others do not
  };

  // Where an operand comes from and goes to.
  struct Ends {
    const Transfers* load = nullptr;
    const Transfers* store = nullptr;
  };

  // What copies in DRAM take of each memory, and of a core.
  struct CopyWork {
    std::vector<double> of_memories, of_cores;
    std::int64_t tasks = 0, steps = 1;  // of all cores; of a task
  };

  static std::size_t way_in(const std::vector<Split>& of_nodes, graph::NodeIndex node) {
    return node < 0 ? 0 : static_cast<std::size_t>(of_nodes[static_cast<std::size_t>(node)]);
  }

  // What a core does of a layer.
  struct CoreWork {
    Cycles neural = 0, planar = 0;
    std::int64_t neural_tasks = 0, planar_tasks = 0, steps = 1;
    std::int64_t tasks = 0, kernel_tasks = 0, kernel_room = 0;

    void add(const isa::TaskDescriptor& task, const ChipConfig& chip) {
      ++tasks;
      if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
        ++kernel_tasks;
        kernel_room += kernel->bytes_per_partition;
      }
      const bool on_array = task.engine == isa::EngineKind::kNeural;
      if (!on_array && task.engine != isa::EngineKind::kPlanar) return;
      (on_array ? neural : planar) += estimate_occupancy(task, chip);
      ++(on_array ? neural_tasks : planar_tasks);
      steps = std::max(steps, task.steps());
    }
    // Tasks come one behind the other, and each of them makes all rows of some results.
    void slowest(Side& side) const {
      side.tasks = std::max(side.tasks, tasks);
      side.kernel_tasks = std::max(side.kernel_tasks, kernel_tasks);
      side.kernel_room = std::max(side.kernel_room, kernel_room);
      const Cycles compute = std::max(neural, planar);
      if (compute <= side.compute) return;
      side.compute = compute;
      side.neural = neural >= planar;
      const auto tasks = static_cast<double>(side.neural ? neural_tasks : planar_tasks);
      side.steps = static_cast<double>(steps);
      side.pieces = side.steps * tasks;
      side.first = 1 - (1 - 1 / side.steps) / tasks;
    }
  };

  struct Writer {
    LayerIndex layer = 0;
    graph::NodeIndex node = -1;
    std::array<Share, kSplitWays> written;
  };

  // An operand that layers of the graph make.
  struct Operand {
    StorageIndex storage = -1;
    double bytes = 0;  // of the storage
    std::int64_t element = 2, row_bytes = 0;
    std::vector<Writer> writers;  // of what is read
    std::size_t writers_of_storage = 0;
    std::array<Share, kSplitWays> read;
    std::array<std::vector<double>, kSplitWays> taken{};  // bytes, by each core
    std::array<double, kSplitWays> loads{};               // of the core that has most
    bool may_stay = false;
    std::array<bool, kSplitWays> room{};  // where all layers are cut one way
  };

  // Traffic in bytes: of all channels in whole bursts, of the busiest link, bus and network port.
  struct Traffic {
    double stored = 0, loaded = 0, ring = 0, bus = 0, network = 0;
    double largest = 0;  // of `loaded`, useful, what the core takes that takes most
    bool crosses = false;
    Movement movement = Movement::kNothing;

    void add(const Traffic& other) {
      stored += other.stored;
      loaded += other.loaded;
      ring += other.ring;
      bus += other.bus;
      network += other.network;
      crosses = crosses || other.crosses;
      movement = std::max(movement, other.movement);
    }
  };

  const Layers& layers() const { return drafts_[0].prepared.layers; }
  PlanInputs inputs_of(std::size_t way) const {
    const Prepared& prepared = drafts_[way].prepared;
    return {graph_, setting_.chip, setting_.options, prepared.storages, prepared.layers};
  }

  // A node without a layer that has a grid is by rows there.
  void find_ways() {
    constexpr auto kGrid = static_cast<std::uint8_t>(Split::kGrid);
    counts_.assign(graph_.nodes.size(), kGrid);
    for (std::size_t i = 0; drafts_.size() > kGrid && i < layers().size(); ++i) {
      const graph::NodeIndex node = layers()[i].node;
      if (drafts_[kGrid].work[i].way != ShareWay::kGrid || node < 0) continue;
      counts_[static_cast<std::size_t>(node)] = kGrid + 1;
    }
  }
  static std::size_t choices_of(const std::vector<graph::NodeIndex>& scope,
                                const WayCounts& counts) {
    std::size_t choices = 1;
    for (const graph::NodeIndex node : scope) {
      choices *= counts[static_cast<std::size_t>(node)];
      if (choices > kCostsMax) break;
    }
    return choices;
  }

  // Kernels that a layer loads from one memory: how many of its cores load each.
  using KernelLoads = std::map<std::uint64_t, int>;

  void find_sides(std::size_t way) {
    Table<LayerIndex, Side> sides(layers().size());
    std::vector<std::vector<KernelLoads>> kernels(layers().size(),
                                                  std::vector<KernelLoads>(memories_));
    std::vector<std::vector<double>> bytes(layers().size(), std::vector<double>(memories_, 0));
    const std::vector<CopyWork> copies = find_copies(way);
    for (std::size_t core = 0; core < cores_; ++core) {
      const std::size_t memory = memory_of(core);
      std::vector<CoreWork> works(layers().size());
      const isa::TaskDescriptor* array_before = nullptr;
      for (const isa::TaskDescriptor& task : drafts_[way].emitted[core].tasks) {
        works[task.layer].add(task, setting_.chip);
        if (task.engine == isa::EngineKind::kNeural) {
          if (array_before != nullptr)
            works[task.layer].neural += drain_before(task, *array_before);
          array_before = &task;
        }
        if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
          const bool anew = ++kernels[task.layer][memory][kernel->source.offset] == 1;
          if (!anew && setting_.choice.share_loads) continue;
          bytes[task.layer][memory] += static_cast<double>(kernel->stored_bytes());
        } else if (const auto* move = std::get_if<isa::TransferTask>(&task.config)) {
          Side& side = sides[static_cast<LayerIndex>(task.layer)];
          const bool load = task.engine == isa::EngineKind::kLoad;
          (load ? side.loads : side.stores).add(task, *move, setting_.chip);
        }
      }
      for (std::size_t i = 0; i < sides.size(); ++i) {
        works[i].slowest(sides[i]);
        sides[i].of_cores.push_back(std::max(works[i].neural, works[i].planar));
      }
    }
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].compute == 0) take_copies(copies[i], sides[i]);
      sides[i].kernel_bytes = *std::ranges::max_element(bytes[i]);
      for (std::size_t core = 0; core < cores_; ++core) sides[i].own_kernels.push_back(false);
    }
    find_own_kernels(way, kernels, sides);
    sides_[way] = std::move(sides);
  }
  // What the array waits for the results of the task before, where it reads them.
  Cycles drain_before(const isa::TaskDescriptor& task, const isa::TaskDescriptor& before) const {
    const ChipConfig& chip = setting_.chip;
    if (!isa::reads_results_of(task, before, chip.state_buffer.partitions)) return 0;
    return neural_drain_cycles(chip.neural,
                               isa::product_work(std::get<isa::NeuralTask>(before.config), chip));
  }
  std::vector<CopyWork> find_copies(std::size_t way) const {
    std::vector<CopyWork> copies(layers().size());
    for (std::size_t core = 0; core < cores_; ++core) {
      for (const isa::TaskDescriptor& task : drafts_[way].emitted[core].tasks) {
        if (!std::holds_alternative<isa::CopyTask>(task.config)) continue;
        CopyWork& work = copies[task.layer];
        work.of_memories.resize(memories_);
        work.of_cores.resize(cores_);
        const auto cycles = static_cast<double>(isa::dma_time(task, setting_.chip).transfer());
        work.of_memories[memory_of(core)] += cycles;
        work.of_cores[core] += cycles;
        ++work.tasks;
        work.steps = std::max(work.steps, task.steps());
      }
    }
    return copies;
  }
  // Cores that copy at once share memories: each takes as long as all of them.
  void take_copies(const CopyWork& copies, Side& side) const {
    if (copies.tasks == 0) return;
    side.copies = true;
    const double longest =
        std::max(std::ranges::max(copies.of_memories), std::ranges::max(copies.of_cores));
    side.compute = std::llround(longest);
    side.copied = sum(copies.of_memories) / static_cast<double>(memories_);
    const double tasks =
        std::max(1.0, static_cast<double>(copies.tasks) / static_cast<double>(cores_));
    side.steps = static_cast<double>(copies.steps);
    side.pieces = side.steps * tasks;
    side.first = 1 - (1 - 1 / side.steps) / tasks;
    for (std::size_t core = 0; core < cores_; ++core) {
      if (copies.of_cores[core] > 0) side.of_cores[core] = side.compute;
    }
  }
  // Where a core loads a kernel that no other core of its memory does.
  void find_own_kernels(std::size_t way, const std::vector<std::vector<KernelLoads>>& kernels,
                        Table<LayerIndex, Side>& sides) const {
    for (std::size_t core = 0; core < cores_; ++core) {
      for (const isa::TaskDescriptor& task : drafts_[way].emitted[core].tasks) {
        const auto* kernel = std::get_if<isa::KernelTask>(&task.config);
        if (kernel == nullptr) continue;
        const KernelLoads& loads = kernels[task.layer][memory_of(core)];
        const bool shared = setting_.choice.share_loads && loads.at(kernel->source.offset) > 1;
        if (!shared) sides[static_cast<LayerIndex>(task.layer)].own_kernels[core] = true;
      }
    }
  }
  std::size_t memory_of(std::size_t core) const {
    const std::vector<std::uint8_t>& memory = setting_.choice.memory_of_core;
    return memory.empty() ? 0 : memory[core];
  }

  void find_operands() {
    const Table<StorageIndex, StorageUses> uses = find_uses(inputs_of(0));
    operands_.resize(layers().size());
    copiers_.resize(layers().size());
    copied_.resize(layers().size());
    outputs_.resize(layers().size());
    const auto add_makers = [&](StorageIndex storage, LayerIndex reader) {
      std::vector<LayerIndex>& makers = copiers_[reader];
      for (const auto& [copier, copy] : uses[storage].copies) {
        if (copier < reader && (makers.empty() || makers.back() != copier)) {
          makers.push_back(copier);
        }
      }
    };
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      for (const PlannedCopy& copy : layers()[layer].copies) {
        if (copy.fill) continue;
        add_makers(copy.source, layer);
        const std::vector<LayerIndex>& writers = uses[copy.source].writers;
        if (!writers.empty()) copied_[layer].push_back({copy.source, writers});
      }
    }
    for (std::size_t s = 0; s < uses.size(); ++s) {
      const auto index = static_cast<StorageIndex>(s);
      find_stored(index, uses[index]);
      for (const auto& [reader, input] : uses[s].readers) {
        operands_[reader].push_back(find_operand(index, uses[s], reader, input));
        add_makers(index, reader);
      }
    }
  }

  void find_stored(StorageIndex index, const StorageUses& uses) {
    const Storage& storage = drafts_[0].prepared.storages.storages[index];
    storage_bytes_.push_back(static_cast<double>(storage.bytes()));
    if (uses.writers.empty()) return;
    const LayerIndex last = *std::ranges::max_element(uses.writers);
    if (storage.base == isa::BaseIndex::kOutput) outputs_[last].push_back(index);
  }

  Operand find_operand(StorageIndex index, const StorageUses& uses, LayerIndex reader,
                       std::size_t input) const {
    const Storage& storage = drafts_[0].prepared.storages.storages[index];
    const StorageView& seen = layers()[reader].inputs[input];
    Operand operand;
    operand.storage = index;
    operand.element = format_bytes(storage.format);
    operand.bytes = static_cast<double>(storage.bytes());
    operand.row_bytes = seen.columns() * operand.element;
    operand.may_stay = setting_.choice.hand_over && !uses.filled && uses.copies.empty() &&
                       !uses.writers.empty() && reads_buffer(layers()[reader]);
    std::optional<ChannelPlane> plane;
    for (const StorageView& view : layout_views(inputs_of(0), storage, uses)) {
      if (!plane) plane = ChannelPlane::of(view, storage.elements);
    }
    for (const LayerIndex writer : uses.writers) {
      operand.writers.push_back({writer, layers()[writer].node, {}});
      operand.may_stay = operand.may_stay && writes_buffer(layers()[writer]);
      for (std::size_t way = 0; plane && way < drafts_.size(); ++way) {
        operand.writers.back().written[way] = regions(*plane, way, writer, -1);
      }
    }
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      const HandOver why = drafts_[way].held[index].why;
      std::tie(operand.taken[way], operand.loads[way]) =
          taken_by_cores(operand, way, reader, input);
      operand.room[way] = why != HandOver::kNoRoom && why != HandOver::kKernels;
    }
    for (std::size_t way = 0; plane && way < drafts_.size(); ++way) {
      operand.read[way] = regions(*plane, way, reader, static_cast<int>(input));
    }
    operand.writers_of_storage = operand.writers.size();
    if (const Share read = whole(operand.read)) {
      std::erase_if(operand.writers, [&](const Writer& writer) {
        const Share written = whole(writer.written);
        return written && intersection(read->front(), written->front()).empty();
      });
    }
    return operand;
  }

  // What all cores have together, whichever way; none where one of the ways is not known.
  Share whole(const std::array<Share, kSplitWays>& ways) const {
    PlaneRegion all;
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      if (!ways[way]) return std::nullopt;
      for (const PlaneRegion& region : *ways[way]) all = hull(all, region);
    }
    return Regions{all};
  }

  // Bytes of an input that each core reads, also where these are no region, and in how many loads at most.
  std::pair<std::vector<double>, double> taken_by_cores(const Operand& operand, std::size_t way,
                                                        LayerIndex layer, std::size_t input) const {
    std::vector<double> all;
    double loads_max = 1;
    for (const std::vector<Piece>& pieces : drafts_[way].work[layer].pieces) {
      double bytes = 0, loads = 0;
      const StorageView* before = nullptr;
      for (const Piece& piece : pieces) {
        const StorageView& view = piece.inputs[input].view;
        if (before != nullptr && view == *before) continue;
        bytes += static_cast<double>(std::accumulate(view.extents.begin(), view.extents.end(),
                                                     operand.element, std::multiplies<>()));
        ++loads;
        before = &view;
      }
      all.push_back(std::min(bytes, operand.bytes));
      loads_max = std::max(loads_max, loads);
    }
    return {all, loads_max};
  }

  // Of the layer's input, or of its output for -1.
  Share regions(const ChannelPlane& plane, std::size_t way, LayerIndex layer, int input) const {
    Regions all;
    for (const std::vector<Piece>& pieces : drafts_[way].work[layer].pieces) {
      PlaneRegion of_core;
      for (const Piece& piece : pieces) {
        const auto i = static_cast<std::size_t>(input);
        const auto region = plane.region(input < 0 ? piece.output.view : piece.inputs[i].view);
        if (!region) return std::nullopt;
        of_core = hull(of_core, *region);
      }
      all.push_back(of_core);
    }
    return all;
  }

  // Nodes whose ways a layer's cost depends on.
  std::vector<graph::NodeIndex> scope_of(LayerIndex layer) const {
    std::set<graph::NodeIndex> scope;
    if (layers()[layer].node >= 0) scope.insert(layers()[layer].node);
    for (const Operand& operand : operands_[layer]) {
      for (const Writer& writer : operand.writers) {
        if (writer.node >= 0) scope.insert(writer.node);
      }
    }
    return {scope.begin(), scope.end()};
  }

  // What a layer, or what it takes of an operand, costs by the ways of some nodes, as CostFactor has it.
  struct Tabulated {
    std::vector<std::int32_t> nodes;
    std::vector<std::uint8_t> counts;
    std::vector<LayerCost> costs;
  };

  // A layer's costs: one table, or several that add up.
  std::vector<Tabulated> tables_of(LayerIndex layer, const WayCounts& counts) const {
    std::vector<Tabulated> tables;
    const std::vector<graph::NodeIndex> scope = scope_of(layer);
    if (scope.empty()) return tables;
    if (choices_of(scope, counts) <= kCostsMax) {
      tables.push_back(
          tabulate(scope, counts, [&](const auto& way_of) { return cost(layer, way_of); }));
    } else {
      add_pairs(layer, counts, tables);
    }
    return tables;
  }

  template <typename Visit>
  void for_each_table(bool grids, Visit&& visit) const {
    WayCounts counts = counts_;
    for (std::uint8_t& count : counts) {
      if (!grids) count = std::min(count, static_cast<std::uint8_t>(Split::kGrid));
    }
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      const std::vector<graph::NodeIndex> scope = scope_of(layer);
      // What has too many ways for one table with grids may have few enough without.
      if ((choices_of(scope, counts) > kCostsMax) == (choices_of(scope, counts_) > kCostsMax)) {
        for (const Tabulated& table : tables_[layer]) visit(restricted(table, counts));
      } else {
        for (const Tabulated& table : tables_of(layer, counts)) visit(table);
      }
    }
  }

  // The costs of the first ways of each node, as many as `counts` has.
  static Tabulated restricted(const Tabulated& table, const WayCounts& counts) {
    Tabulated result{table.nodes, {}, {}};
    for (const std::int32_t node : table.nodes) {
      result.counts.push_back(counts[static_cast<std::size_t>(node)]);
    }
    if (result.counts == table.counts) return table;
    for (std::size_t index = 0; index < table.costs.size(); ++index) {
      std::size_t left = index;
      bool kept = true;
      for (std::size_t i = 0; i < table.counts.size(); ++i) {
        kept = kept && left % table.counts[i] < result.counts[i];
        left /= table.counts[i];
      }
      if (kept) result.costs.push_back(table.costs[index]);
    }
    return result;
  }

  template <typename Cost>
  static Tabulated tabulate(const std::vector<graph::NodeIndex>& scope, const WayCounts& counts,
                            Cost&& cost) {
    Tabulated table{{scope.begin(), scope.end()}, {}, {}};
    for (const graph::NodeIndex node : scope) {
      table.counts.push_back(counts[static_cast<std::size_t>(node)]);
    }
    for (std::size_t index = 0; index < choices_of(scope, counts); ++index) {
      std::vector<std::size_t> ways;
      std::size_t left = index;
      for (const std::uint8_t count : table.counts) {
        ways.push_back(left % count);
        left /= count;
      }
      const auto way_of = [&](graph::NodeIndex node) -> std::size_t {
        const auto at = std::ranges::find(scope, node);
        return at == scope.end() ? 0 : ways[static_cast<std::size_t>(at - scope.begin())];
      };
      table.costs.push_back(cost(way_of));
    }
    return table;
  }

  // A layer that reads what very many made: its own time, and what each of them moves by itself.
  void add_pairs(LayerIndex layer, const WayCounts& counts, std::vector<Tabulated>& tables) const {
    const graph::NodeIndex own = layers()[layer].node;
    std::vector<graph::NodeIndex> scope;
    if (own >= 0) scope.push_back(own);
    tables.push_back(tabulate(scope, counts, [&](const auto& way_of) {
      return alone(layer, own < 0 ? 0 : way_of(own));
    }));
    for (const Operand& operand : operands_[layer]) {
      for (const Writer& writer : operand.writers) {
        std::vector<graph::NodeIndex> pair = scope;
        if (writer.node >= 0 && writer.node != own) pair.push_back(writer.node);
        tables.push_back(tabulate(pair, counts, [&](const auto& way_of) {
          Operand part = operand;
          part.writers = {writer};
          part.bytes /= static_cast<double>(operand.writers_of_storage);
          LayerCost moved;
          add_traffic(traffic(layer, part, own < 0 ? 0 : way_of(own), way_of), moved);
          moved.cycles = moved.moved();
          return moved;
        }));
      }
    }
  }

  LayerCost alone(LayerIndex layer, std::size_t way) const {
    LayerCost cost;
    const Side& side = sides_[way][layer];
    cost.compute = static_cast<double>(side.compute);
    cost.memory = side.kernel_bytes / memory_rate();
    cost.cycles = std::max(cost.compute, cost.memory);
    return cost;
  }

  template <typename WayOf>
  LayerCost cost(LayerIndex layer, const WayOf& way_of) const {
    const graph::NodeIndex node = layers()[layer].node;
    const std::size_t own = node < 0 ? 0 : way_of(node);
    LayerCost cost = alone(layer, own);
    Traffic all;
    for (const Operand& operand : operands_[layer]) {
      all.add(traffic(layer, operand, own, way_of));
    }
    add_traffic(all, cost);
    const double moved = cost.moved();
    cost.cycles = setting_.choice.load_before_arithmetic ? cost.compute + moved
                                                         : std::max(cost.compute, moved);
    if (cost.crosses) {
      // What comes last of the layer before, and what is to be done when it is there.
      const double behind = latency() + cost.compute * sides_[own][layer].first;
      cost.exchange = std::max(latency() / 2, behind - cost.cycles);
    }
    cost.cycles += cost.exchange;
    return cost;
  }

  void add_traffic(const Traffic& traffic, LayerCost& cost) const {
    const ChipConfig& chip = setting_.chip;
    cost.memory += (traffic.stored + traffic.loaded) / memories_rate();
    cost.ring += traffic.ring / chip.card.ring.bytes_per_cycle;
    cost.bus += traffic.bus / chip.card.load_save.broadcast_bytes;
    cost.network += traffic.network / network_rate();
    cost.movement = std::max(cost.movement, traffic.movement);
    cost.crosses = cost.crosses || (traffic.crosses && cores_ > 1);
  }
  // From a result in a core to where another core can take it: store and load begin, and the memory
  // answers both.
  double latency() const {
    const ChipConfig& chip = setting_.chip;
    double cycles = 2.0 * (chip.dma.task_start_cycles + kMemoryCycles) + chip.card.sync_cycles;
    if (cards_ > 1) {
      cycles +=
          chip.card.network.latency_nanoseconds * 1e-9 * static_cast<double>(chip.clock_hertz);
    }
    return cycles;
  }
  // Of a memory that nobody else uses, to the last byte of a few short runs.
  static constexpr double kMemoryCycles = 100;

  // Of one memory, in bytes a cycle.
  double memory_rate() const { return dram_sustained_bytes_per_cycle(setting_.chip); }
  double memories_rate() const { return memory_rate() * static_cast<double>(memories_); }
  // While cores take turns at a memory.
  double shared_rate() const { return memory_rate_shared_ * static_cast<double>(memories_); }
  double network_rate() const {
    return setting_.chip.card.network.gigabits_per_second * 1e9 / 8 /
           static_cast<double>(setting_.chip.clock_hertz);
  }

  template <typename WayOf>
  Traffic traffic(LayerIndex layer, const Operand& operand, std::size_t own,
                  const WayOf& way_of) const {
    Ends ends;
    ends.load = &sides_[own][layer].loads;
    if (operand.writers.empty()) return from_outside(operand, own, ends);
    const Share& read = operand.read[own];
    std::optional<Regions> written;
    bool together = operand.may_stay && operand.room[own];
    for (const Writer& writer : operand.writers) {
      const std::size_t way = writer.node < 0 ? 0 : way_of(writer.node);
      const Transfers& stores = sides_[way][writer.layer].stores;
      if (ends.store == nullptr || stores.padding() > ends.store->padding()) ends.store = &stores;
      const Share& share = writer.written[way];
      if (!share) {
        together = false;
        break;
      }
      if (!written) written = Regions(share->size());
      double made = 0;
      for (std::size_t core = 0; core < share->size(); ++core) {
        made += static_cast<double>((*written)[core].elements() + (*share)[core].elements());
        (*written)[core] = hull((*written)[core], (*share)[core]);
      }
      together = together && made == elements(*written);
    }
    if (!read || !written) return everything(operand, own, ends);
    if (together && stays(*written, *read)) return edges(operand, *written, *read, ends);
    return everything(operand, own, ends);
  }

  // The inputs of the network, and what has no share.
  Traffic from_outside(const Operand& operand, std::size_t own, const Ends& ends) const {
    Traffic traffic;
    traffic.loaded = sum(operand.taken[own]);
    if (setting_.choice.share_loads) {
      traffic.loaded = std::min(traffic.loaded, operand.bytes * static_cast<double>(memories_));
    }
    traffic.loaded *= ends.load->padding();
    traffic.largest = std::ranges::max(operand.taken[own]);
    return traffic;
  }

  // As compile/share_residency.cc decides.
  static bool stays(const Regions& written, const Regions& read) {
    double own = 0;
    for (std::size_t core = 0; core < read.size(); ++core) {
      own += static_cast<double>(intersection(written[core], read[core]).elements());
    }
    return own > 0 && 2 * own >= elements(read);
  }

  Traffic edges(const Operand& operand, const Regions& written, const Regions& read,
                const Ends& ends) const {
    double bytes = 0, largest = 0;
    for (std::size_t core = 0; core < read.size(); ++core) {
      const auto of_core = static_cast<double>(read[core].elements() -
                                               intersection(written[core], read[core]).elements());
      bytes += of_core;
      largest = std::max(largest, of_core);
    }
    bytes *= static_cast<double>(operand.element);
    if (bytes == 0) return {};
    Traffic traffic{.stored = bytes * ends.store->padding(),
                    .loaded = bytes * ends.load->padding(),
                    .largest = largest * static_cast<double>(operand.element),
                    .crosses = true,
                    .movement = Movement::kEdges};
    if (cards_ > 1) traffic.network = over_network(operand, bytes / static_cast<double>(cores_));
    return traffic;
  }

  // Stored by all, and read by each as far as it needs it.
  Traffic everything(const Operand& operand, std::size_t own, const Ends& ends) const {
    const auto memories = static_cast<double>(memories_);
    const double bytes = operand.bytes;
    const double wanted = sum(operand.taken[own]);
    const bool shared = wanted >= 2 * bytes;
    Traffic traffic{.crosses = true,
                    .movement = shared ? Movement::kToEveryone : Movement::kForward};
    const double loaded = setting_.choice.share_loads ? std::min(wanted, bytes) : wanted;
    traffic.stored = bytes * ends.store->padding();
    traffic.loaded = loaded * ends.load->padding();
    traffic.largest = std::ranges::max(operand.taken[own]);
    traffic.bus = shared && setting_.choice.share_loads ? bytes : 0;
    const double moved = std::min(wanted, bytes) * (memories - 1) / memories;
    traffic.ring = shared ? moved : moved / 2;
    if (cards_ > 1) {
      const auto cards = static_cast<double>(cards_);
      traffic.network =
          over_network(operand, (shared ? bytes : bytes / cards) / cards * (cards - 1));
    }
    return traffic;
  }

  double over_network(const Operand& operand, double needed) const {
    if (setting_.chip.card.features.needed_bytes_only != 0) return needed;
    const auto cards = static_cast<double>(cards_);
    return operand.bytes * (cards - 1) / cards;
  }

  // What a layer asks of engines and memories; `stored` says of each storage whether one before has asked
  // for its stores.
  template <typename WayOf>
  LayerDemand demand_of(LayerIndex layer, const Side& side, const WayOf& way_of,
                        std::vector<bool>& stored) const {
    const graph::NodeIndex node = layers()[layer].node;
    const std::size_t own = node < 0 ? 0 : way_of(node);
    const auto compute = static_cast<double>(side.compute);
    LayerDemand demand{.compute = side.copies ? 0 : compute,
                       .copies = side.copies ? compute : 0,
                       .copied = side.copied,
                       .first = side.first,
                       .steps = side.steps,
                       .pieces = side.pieces,
                       .kernels = side.kernel_bytes / memory_rate_shared_,
                       .kernel_tasks = std::max(1.0, static_cast<double>(side.kernel_tasks)),
                       .kernel_bytes = side.kernel_room,
                       .tasks = side.tasks};
    if (compute > 0 && !side.copies) {
      demand.engines = side.neural ? LayerEngines::kArray : LayerEngines::kLanes;
    }
    const auto once = [&](StorageIndex storage) {
      const bool anew = !stored[static_cast<std::size_t>(storage)];
      stored[static_cast<std::size_t>(storage)] = true;
      return anew;
    };
    const auto store_padding = [&](LayerIndex writer) {
      const graph::NodeIndex of = layers()[writer].node;
      return sides_[of < 0 ? 0 : way_of(of)][writer].stores.padding();
    };
    for (const Operand& operand : operands_[layer]) {
      const Traffic moved = traffic(layer, operand, own, way_of);
      OperandDemand& asked = demand.operands.emplace_back();
      for (const Writer& writer : operand.writers) asked.makers.push_back(writer.layer);
      if (moved.stored > 0 && once(operand.storage)) asked.stored = moved.stored / shared_rate();
      asked.loaded = moved.loaded / shared_rate();
      LayerCost links;
      add_traffic(moved, links);
      asked.links = links.links();
      asked.passage = moved.largest * side.loads.cycles_per_byte();
      asked.loads = operand.loads[own];
      asked.late = moved.crosses ? latency() : 0;
    }
    for (const LayerIndex copier : copiers_[layer]) {
      demand.operands.push_back({.makers = {copier}, .late = latency()});
    }
    for (const auto& [storage, writers] : copied_[layer]) {
      OperandDemand& asked = demand.operands.emplace_back();
      asked.makers = writers;
      asked.late = latency();
      if (!once(storage)) continue;
      asked.stored = storage_bytes_[static_cast<std::size_t>(storage)] *
                     store_padding(writers.front()) / shared_rate();
    }
    for (const StorageIndex storage : outputs_[layer]) {
      if (!once(storage)) continue;
      demand.output +=
          storage_bytes_[static_cast<std::size_t>(storage)] * store_padding(layer) / shared_rate();
    }
    return demand;
  }

  const graph::Graph& graph_;
  const ShareSetting setting_;
  const int cards_;
  const std::vector<ShareDraft> drafts_;  // of the ways that there are, kSplitWays at most
  const std::size_t cores_;
  std::size_t memories_ = 1;
  double memory_rate_shared_ = 1;  // bytes a cycle of a memory, while its cores take turns
  WayCounts counts_;
  std::array<Table<LayerIndex, Side>, kSplitWays> sides_;
  Table<LayerIndex, std::vector<Operand>> operands_;
  Table<LayerIndex, std::vector<LayerIndex>> copiers_;  // that make what the layer reads
  Table<LayerIndex, std::vector<std::pair<StorageIndex, std::vector<LayerIndex>>>>
      copied_;                                            // by it
  Table<LayerIndex, std::vector<StorageIndex>> outputs_;  // of the network, made by it last
  std::vector<double> storage_bytes_;                     // of each storage
  Table<LayerIndex, std::vector<Tabulated>> tables_;      // for the ways of counts_
};

SplitModel::SplitModel(const graph::Graph& graph, const ShareSetting& setting, int cards,
                       std::vector<ShareDraft> drafts)
    : implementation_(std::make_unique<Implementation>(graph, setting, cards, std::move(drafts))) {}
SplitModel::~SplitModel() = default;
SplitModel::SplitModel(SplitModel&&) noexcept = default;

std::vector<CostFactor> SplitModel::factors(bool grids) const {
  return implementation_->factors(grids);
}
std::vector<isa::ModelledLayer> SplitModel::modelled() const { return implementation_->modelled(); }
std::vector<LayerCost> SplitModel::costs(const std::vector<Split>& of_nodes) const {
  return implementation_->costs(of_nodes);
}

ModelRun SplitModel::run(const std::vector<Split>& of_nodes) const {
  return implementation_->run(of_nodes);
}

}  // namespace tessera::compile

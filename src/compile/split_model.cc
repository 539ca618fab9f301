#include "compile/split_model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "arch/dram_config.h"
#include "base/check.h"
#include "compile/estimate.h"
#include "compile/surface_conventions.h"
#include "isa/dma_time.h"

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
    std::array<double, 3> free{};  // when array, lanes and everything else can take the next layer
    std::vector<Span> spans(layers().size());
    double end = 0;
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      const graph::NodeIndex node = layers()[layer].node;
      const Side& side = sides_[node < 0 ? 0 : way_of(node)][layer];
      LayerCost of = cost(layer, way_of);
      const double busy = of.cycles - of.exchange;
      double& engine = free[side.compute == 0 || side.copies ? 2 : side.neural ? 0 : 1];
      const double late = of.crosses || side.copies ? latency() : 0;
      double begin = engine, least_end = 0;
      for (const LayerIndex made : made_by_[layer]) {
        const Span& before = spans[static_cast<std::size_t>(made)];
        begin = std::max(begin, before.first + late);
        least_end = std::max(least_end, before.end + late + busy * side.first);
      }
      Span& span = spans[static_cast<std::size_t>(layer)];
      span.first = begin + busy * side.first;
      span.end = std::max(begin + busy, least_end);
      engine = begin + busy;
      end = std::max(end, span.end);
      std::vector<double>& shares = result.shares.emplace_back();
      const double moved = of.moved();
      for (std::size_t core = 0; core < cores_; ++core) {
        const auto compute = static_cast<double>(side.of_cores[core]);
        const double kernels = side.own_kernels[core] ? side.kernel_bytes / memory_rate() : 0;
        shares.push_back(compute == 0 ? moved : std::max(compute, kernels));
      }
    }
    result.cycles = end;
    return result;
  }

 private:
  // All cores' transfers of a layer: what short runs cost.
  struct Transfers {
    double useful = 0, bursts = 0;  // bytes

    void add(const isa::TaskDescriptor& task, const isa::TransferTask& transfer,
             const ChipConfig& chip) {
      useful += static_cast<double>(std::int64_t{task.bands.images} * task.bands.rows *
                                    transfer.channel_count * transfer.buffer.columns *
                                    format_bytes(transfer.buffer.format));
      bursts += static_cast<double>(isa::dma_time(task, chip).dram_bytes);
    }
    double padding() const { return useful == 0 ? 1 : bursts / useful; }
  };

  // What a layer does when it is cut one way.
  struct Side {
    Cycles compute = 0;            // of the slowest core
    std::vector<Cycles> of_cores;  // each one's
    bool neural = false;           // which engines take that long
    bool copies = false;           // none: it is copied in DRAM, by as much of a memory as it takes
    double first = 1;  // part of the time after which the first rows of the results are there
    double kernel_bytes = 0;        // that the busiest memory reads
    Transfers loads, stores;        // where what it reads is cut the same way
    std::vector<bool> own_kernels;  // of each core: it loads some that others do not
  };

  // Where an operand comes from and goes to.
  struct Ends {
    const Transfers* load = nullptr;
    const Transfers* store = nullptr;
  };

  // What copies in DRAM take of a memory.
  struct CopyWork {
    Cycles cycles = 0;
    std::int64_t tasks = 0, steps = 1;

    void add(const isa::TaskDescriptor& task, const ChipConfig& chip) {
      cycles += isa::dma_time(task, chip).transfer();
      ++tasks;
      steps = std::max(steps, task.steps());
    }
  };

  // When the first rows of a layer's results are there, and when all are.
  struct Span {
    double first = 0, end = 0;
  };
  static std::size_t way_in(const std::vector<Split>& of_nodes, graph::NodeIndex node) {
    return node < 0 ? 0 : static_cast<std::size_t>(of_nodes[static_cast<std::size_t>(node)]);
  }

  // What a core does of a layer.
  struct CoreWork {
    Cycles neural = 0, planar = 0;
    std::int64_t neural_tasks = 0, planar_tasks = 0, steps = 1;

    void add(const isa::TaskDescriptor& task, const ChipConfig& chip) {
      const bool on_array = task.engine == isa::EngineKind::kNeural;
      if (!on_array && task.engine != isa::EngineKind::kPlanar) return;
      (on_array ? neural : planar) += estimate_occupancy(task, chip);
      ++(on_array ? neural_tasks : planar_tasks);
      steps = std::max(steps, task.steps());
    }
    // Tasks come one behind the other, and each of them makes all rows of some results.
    void slowest(Side& side) const {
      const Cycles compute = std::max(neural, planar);
      if (compute <= side.compute) return;
      side.compute = compute;
      side.neural = neural >= planar;
      const auto tasks = static_cast<double>(side.neural ? neural_tasks : planar_tasks);
      side.first = 1 - (1 - 1 / static_cast<double>(steps)) / tasks;
    }
  };

  struct Writer {
    LayerIndex layer = 0;
    graph::NodeIndex node = -1;
    std::array<Share, kSplitWays> written;
  };

  // An operand that layers of the graph make.
  struct Operand {
    double bytes = 0;  // of the storage
    std::int64_t element = 2, row_bytes = 0;
    std::vector<Writer> writers;
    std::array<Share, kSplitWays> read;
    bool may_stay = false;
  };

  // Traffic in bytes: of all channels in whole bursts, of the busiest link, bus and network port.
  struct Traffic {
    double dram = 0, ring = 0, bus = 0, network = 0;
    bool crosses = false;
    Movement movement = Movement::kNothing;

    void add(const Traffic& other) {
      dram += other.dram;
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
    std::vector<std::vector<CopyWork>> copies(layers().size(), std::vector<CopyWork>(memories_));
    std::vector<std::vector<bool>> copying(layers().size(), std::vector<bool>(cores_, false));
    for (std::size_t core = 0; core < cores_; ++core) {
      const std::size_t memory = memory_of(core);
      std::vector<CoreWork> works(layers().size());
      for (const isa::TaskDescriptor& task : drafts_[way].emitted[core].tasks) {
        if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
          const bool anew = ++kernels[task.layer][memory][kernel->source.offset] == 1;
          if (!anew && setting_.choice.share_loads) continue;
          bytes[task.layer][memory] += static_cast<double>(kernel->stored_bytes());
        } else if (std::holds_alternative<isa::CopyTask>(task.config)) {
          copies[task.layer][memory].add(task, setting_.chip);
          copying[task.layer][core] = true;
        } else if (const auto* move = std::get_if<isa::TransferTask>(&task.config)) {
          Side& side = sides[static_cast<LayerIndex>(task.layer)];
          const bool load = task.engine == isa::EngineKind::kLoad;
          (load ? side.loads : side.stores).add(task, *move, setting_.chip);
        } else {
          works[task.layer].add(task, setting_.chip);
        }
      }
      for (std::size_t i = 0; i < sides.size(); ++i) {
        works[i].slowest(sides[i]);
        sides[i].of_cores.push_back(std::max(works[i].neural, works[i].planar));
      }
    }
    for (std::size_t i = 0; i < sides.size(); ++i) {
      if (sides[i].compute == 0) take_copies(copies[i], copying[i], sides[i]);
      sides[i].kernel_bytes = *std::ranges::max_element(bytes[i]);
      for (std::size_t core = 0; core < cores_; ++core) sides[i].own_kernels.push_back(false);
    }
    find_own_kernels(way, kernels, sides);
    sides_[way] = std::move(sides);
  }
  // Cores that copy at once share a memory: each takes as long as all of them.
  void take_copies(const std::vector<CopyWork>& copies, const std::vector<bool>& copying,
                   Side& side) const {
    for (const CopyWork& of_memory : copies) {
      if (of_memory.cycles <= side.compute) continue;
      side.copies = true;
      side.compute = of_memory.cycles;
      side.first =
          1 - (1 - 1 / static_cast<double>(of_memory.steps)) / static_cast<double>(of_memory.tasks);
    }
    for (std::size_t core = 0; core < cores_; ++core) {
      if (copying[core]) side.of_cores[core] = copies[memory_of(core)].cycles;
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
    made_by_.resize(layers().size());
    const auto add_makers = [&](StorageIndex storage, LayerIndex reader) {
      std::vector<LayerIndex>& makers = made_by_[reader];
      for (const LayerIndex writer : uses[storage].writers) makers.push_back(writer);
      for (const auto& [copier, copy] : uses[storage].copies) {
        if (copier < reader && (makers.empty() || makers.back() != copier)) {
          makers.push_back(copier);
        }
      }
    };
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      for (const PlannedCopy& copy : layers()[layer].copies) {
        if (!copy.fill) add_makers(copy.source, layer);
      }
    }
    for (std::size_t s = 0; s < uses.size(); ++s) {
      const auto index = static_cast<StorageIndex>(s);
      for (const auto& [reader, input] : uses[s].readers) {
        operands_[reader].push_back(find_operand(index, uses[s], reader, input));
        add_makers(index, reader);
      }
    }
  }

  Operand find_operand(StorageIndex index, const StorageUses& uses, LayerIndex reader,
                       std::size_t input) const {
    const Storage& storage = drafts_[0].prepared.storages.storages[index];
    const StorageView& seen = layers()[reader].inputs[input];
    Operand operand;
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
    for (std::size_t way = 0; plane && way < drafts_.size(); ++way) {
      operand.read[way] = regions(*plane, way, reader, static_cast<int>(input));
    }
    return operand;
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
          part.bytes /= static_cast<double>(operand.writers.size());
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
    cost.memory += traffic.dram / (memory_rate() * static_cast<double>(memories_));
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
    bool together = operand.may_stay;
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
    if (!read || !written) return everything(operand, nullptr, ends);
    if (together && stays(*written, *read)) return edges(operand, *written, *read, ends);
    return everything(operand, &*read, ends);
  }

  // The inputs of the network, and what has no share.
  Traffic from_outside(const Operand& operand, std::size_t own, const Ends& ends) const {
    Traffic traffic;
    const Share& read = operand.read[own];
    traffic.dram = read ? elements(*read) * static_cast<double>(operand.element) : operand.bytes;
    if (setting_.choice.share_loads) {
      traffic.dram = std::min(traffic.dram, operand.bytes * static_cast<double>(memories_));
    }
    traffic.dram *= ends.load->padding();
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
    double bytes = 0;
    for (std::size_t core = 0; core < read.size(); ++core) {
      bytes += static_cast<double>(read[core].elements() -
                                   intersection(written[core], read[core]).elements());
    }
    bytes *= static_cast<double>(operand.element);
    if (bytes == 0) return {};
    Traffic traffic{
        .dram = in_bursts(bytes, bytes, ends), .crosses = true, .movement = Movement::kEdges};
    if (cards_ > 1) traffic.network = over_network(operand, bytes / static_cast<double>(cores_));
    return traffic;
  }

  // Stored by all, and read by each as far as it needs it.
  Traffic everything(const Operand& operand, const Regions* read, const Ends& ends) const {
    const auto memories = static_cast<double>(memories_);
    const double bytes = operand.bytes;
    double wanted = static_cast<double>(cores_) * bytes;
    if (read != nullptr) wanted = elements(*read) * static_cast<double>(operand.element);
    const bool shared = wanted >= 2 * bytes;
    Traffic traffic{.crosses = true,
                    .movement = shared ? Movement::kToEveryone : Movement::kForward};
    const double loaded = setting_.choice.share_loads ? std::min(wanted, bytes) : wanted;
    traffic.dram = in_bursts(bytes, loaded, ends);
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

  // Of useful bytes that memories write and read.
  static double in_bursts(double written, double read, const Ends& ends) {
    return written * ends.store->padding() + read * ends.load->padding();
  }

  double over_network(const Operand& operand, double needed) const {
    if (setting_.chip.card.features.needed_bytes_only != 0) return needed;
    const auto cards = static_cast<double>(cards_);
    return operand.bytes * (cards - 1) / cards;
  }

  const graph::Graph& graph_;
  const ShareSetting setting_;
  const int cards_;
  const std::vector<ShareDraft> drafts_;  // of the ways that there are, kSplitWays at most
  const std::size_t cores_;
  std::size_t memories_ = 1;
  WayCounts counts_;
  std::array<Table<LayerIndex, Side>, kSplitWays> sides_;
  Table<LayerIndex, std::vector<Operand>> operands_;
  Table<LayerIndex, std::vector<LayerIndex>> made_by_;  // what the layer reads
  Table<LayerIndex, std::vector<Tabulated>> tables_;    // for the ways of counts_
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

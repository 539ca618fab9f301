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
#include "compile/memory_cut.h"
#include "compile/residency.h"
#include "compile/share_sides.h"
#include "compile/split_operands.h"

namespace tessera::compile {
namespace {

using WayCounts = std::vector<std::uint8_t>;  // of each node: its ways
constexpr std::size_t kCostsMax = 512;        // of a factor; more are taken in pairs

double elements(const Regions& regions) {
  double sum = 0;
  for (const PlaneRegion& region : regions) sum += static_cast<double>(region.elements());
  return sum;
}

std::int64_t length(const RowRange& range) { return range.last - range.first; }

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
    if (dram_device(setting_.chip) != nullptr) {
      const DramChannelSettings channel = dram_channel_settings(setting_.chip.dram);
      writes_kept_ = channel.queue_requests * channel.write_high_percent / 100.0 *
                     static_cast<double>(dram_burst_bytes(setting_.chip));
    }
    memory_rate_shared_ = shared_rate_of({.readers = cores_of_memory()});
    for (const ShareDraft& draft : drafts_) {
      TESSERA_CHECK(layers().size() == draft.prepared.layers.size(),
                    "other layers one way than another");
    }
    find_ways();
    for (std::size_t way = 0; way < drafts_.size(); ++way) {
      sides_[way] = find_sides(drafts_[way], setting_, memories_);
    }
    operands_ = find_split_operands(graph_, setting_, drafts_, memories_);
    find_tied();
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
    for (const Tabulated& tie : ties(grids)) add(tie);
    return factors;
  }

  std::vector<isa::ModelledLayer> modelled() const {
    std::vector<isa::ModelledLayer> result;
    const auto add = [&](const Tabulated& table) {
      isa::ModelledLayer& layer =
          result.emplace_back(isa::ModelledLayer{table.nodes, table.counts, {}});
      for (const LayerCost& cost : table.costs) {
        layer.costs.push_back({static_cast<float>(cost.compute), static_cast<float>(cost.memory),
                               static_cast<float>(cost.links()),
                               static_cast<float>(cost.exchange)});
      }
    };
    for_each_table(/*grids=*/true, add);
    for (const Tabulated& tie : ties(/*grids=*/true)) add(tie);
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
    const Stores stores = find_stores(way_of);
    std::vector<LayerDemand> demands;
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      const graph::NodeIndex node = layers()[layer].node;
      const LayerSide& side = sides_[node < 0 ? 0 : way_of(node)][layer];
      demands.push_back(demand_of(layer, stores, way_of));
      std::vector<double>& shares = result.shares.emplace_back();
      const double moved = cost(layer, way_of).moved();
      for (std::size_t core = 0; core < cores_; ++core) {
        shares.push_back(side.shares[core] == 0 ? moved : side.shares[core]);
      }
    }
    const Table<LayerIndex, std::int32_t> segments = layer_segments(layers());
    // Kernels come ahead of their layers, in the way of what those before move: once to see when.
    Table<LayerIndex, LayerSpan> kernels;
    for (int turn = 0; turn < 2; ++turn) {
      LayerTimeline timeline(setting_.chip, cores_, setting_.choice.load_before_arithmetic,
                             setting_.choice.memory_of_core);
      timeline.expect(std::move(kernels));
      for (std::size_t layer = 0; layer < demands.size(); ++layer) {
        if (layer == 0 || segments[layer] != segments[layer - 1]) {
          timeline.begin(program_fetches(demands, layer, segments));
        }
        timeline.add(demands[layer]);
      }
      kernels = timeline.kernels();
      result.layers = timeline.spans();
      result.cycles = timeline.end();
    }
    return result;
  }

 private:
  // Where an operand comes from and goes to.
  struct Ends {
    const ShareTransfers* load = nullptr;
    double store_padding = 1;        // bytes in whole bursts for each that is stored
    std::optional<Regions> written;  // by each core, all that is read; none where that is no region
    bool kept = false;               // it stays where it was made, but for edges
  };

  static std::size_t way_in(const std::vector<Split>& of_nodes, graph::NodeIndex node) {
    return node < 0 ? 0 : static_cast<std::size_t>(of_nodes[static_cast<std::size_t>(node)]);
  }

  // Traffic in bytes: of all channels in whole bursts, of the busiest link, bus and network port.
  struct Traffic {
    double stored = 0, loaded = 0, ring = 0, bus = 0, network = 0;
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

  // A node without a layer that has a grid is by rows there.
  void find_ways() {
    constexpr auto kGrid = static_cast<std::uint8_t>(Split::kGrid);
    counts_.assign(graph_.nodes.size(),
                   static_cast<std::uint8_t>(std::min<std::size_t>(kGrid, drafts_.size())));
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

  // Nodes whose ways a layer's cost depends on.
  std::vector<graph::NodeIndex> scope_of(LayerIndex layer) const {
    std::set<graph::NodeIndex> scope;
    if (layers()[layer].node >= 0) scope.insert(layers()[layer].node);
    for (const SplitOperand& operand : operands_.of_layer[layer]) {
      for (const SplitWriter& writer : operand.writers) {
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

  // Layers whose results the last of them stores are cut the same way: another way costs more than anything.
  std::vector<Tabulated> ties(bool grids) const {
    constexpr double kNever = 1e15;
    std::vector<Tabulated> result;
    const auto count = [&](graph::NodeIndex node) {
      const std::uint8_t ways = counts_[static_cast<std::size_t>(node)];
      return grids ? ways : std::min(ways, static_cast<std::uint8_t>(Split::kGrid));
    };
    for (const auto& [first, second] : tied_) {
      Tabulated& tie =
          result.emplace_back(Tabulated{{first, second}, {count(first), count(second)}, {}});
      for (int b = 0; b < tie.counts[1]; ++b) {
        for (int a = 0; a < tie.counts[0]; ++a) {
          LayerCost& cost = tie.costs.emplace_back();
          if (a != b) cost.cycles = cost.compute = kNever;
        }
      }
    }
    return result;
  }
  void find_tied() {
    for (const SplitStorage& storage : operands_.storages) {
      for (const std::vector<LayerIndex>& writers : storage.gathered) {
        for (std::size_t i = 1; i < writers.size(); ++i) {
          const graph::NodeIndex a = layers()[writers[i - 1]].node, b = layers()[writers[i]].node;
          if (a >= 0 && b >= 0 && a != b) tied_.insert({a, b});
        }
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
    for (const SplitOperand& operand : operands_.of_layer[layer]) {
      for (const SplitWriter& writer : operand.writers) {
        std::vector<graph::NodeIndex> pair = scope;
        if (writer.node >= 0 && writer.node != own) pair.push_back(writer.node);
        tables.push_back(tabulate(pair, counts, [&](const auto& way_of) {
          SplitOperand part = operand;
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
    const LayerSide& side = sides_[way][layer];
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
    for (const SplitOperand& operand : operands_.of_layer[layer]) {
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
  // Of latency() what is not the transfers' own time, which the timeline knows: so many cores of a memory that
  // store, and that load what others do not load as well, wait for each other's rows, or bytes of fewer.
  struct Crossing {
    double stored = 0, loaded = 0;  // bytes of a core
    double storing = 1, loading = 1;
  };
  double beside_transfers(const Crossing& crossing) const {
    const auto turns = [&](double cores, double bytes) {
      return std::max(0.0, cores - 1) * std::min(kTurnCycles, bytes / memory_rate());
    };
    return latency() - 2.0 * (setting_.chip.dma.task_start_cycles + kMemoryCycles - kAnswerCycles) +
           turns(crossing.storing, crossing.stored) + turns(crossing.loading, crossing.loaded);
  }
  static constexpr double kAnswerCycles = 22, kTurnCycles = 5;

  // Of one memory, in bytes a cycle.
  double memory_rate() const { return dram_sustained_bytes_per_cycle(setting_.chip); }
  double memories_rate() const { return memory_rate() * static_cast<double>(memories_); }
  std::size_t memory_of(std::size_t core) const { return setting_.choice.memory_of(core); }
  int cores_of_memory() const { return static_cast<int>((cores_ + memories_ - 1) / memories_); }
  // Of one memory while streams take turns at it.
  double shared_rate_of(const DramStreams& streams) const {
    const auto [at, anew] = shared_rates_.try_emplace(streams, 0.0);
    if (anew) at->second = dram_shared_bytes_per_cycle(setting_.chip, streams);
    return at->second;
  }
  // While the cores load a layer's data and store its results, of `stored` bytes.
  double rate_beside(const LayerSide& side, double stored) const {
    const bool both = stored > 0 && side.loads.useful > 0;
    DramStreams streams{.readers = cores_of_memory(), .writers = both ? cores_of_memory() : 0};
    streams.read_bytes = side.loads.request_bytes();
    if (both) streams.write_bytes = side.stores.request_bytes();
    return shared_rate_of(streams);
  }
  double network_rate() const {
    return setting_.chip.card.network.gigabits_per_second * 1e9 / 8 /
           static_cast<double>(setting_.chip.clock_hertz);
  }

  template <typename WayOf>
  Ends ends_of(LayerIndex layer, const SplitOperand& operand, std::size_t own,
               const WayOf& way_of) const {
    Ends ends;
    const Share& read = operand.read[own];
    bool together = operand.may_stay && operand.room[own];
    bool known = read.has_value();
    double bursts = 0, bytes = 0, made = 0;
    for (const SplitWriter& writer : operand.writers) {
      const std::size_t way = writer.node < 0 ? 0 : way_of(writer.node);
      bursts += writer.elements * sides_[way][writer.layer].stores.padding();
      bytes += writer.elements;
      const Share& share = writer.written[way];
      known = known && share;
      if (!known) continue;
      if (!ends.written) ends.written = Regions(share->size());
      for (std::size_t core = 0; core < share->size(); ++core) {
        (*ends.written)[core] = hull((*ends.written)[core], (*share)[core]);
      }
      made += sum(writer.made[way]);
    }
    together = together && ends.written && made == elements(*ends.written);
    if (bytes > 0) ends.store_padding = bursts / bytes;
    if (!known) ends.written.reset();
    ends.kept = ends.written && together && stays(*ends.written, *read);
    const ShareTransfers& if_loaded = operand.if_loaded[own];
    ends.load = ends.kept || if_loaded.useful == 0 ? &sides_[own][layer].loads : &if_loaded;
    return ends;
  }

  template <typename WayOf>
  Traffic traffic(LayerIndex layer, const SplitOperand& operand, std::size_t own,
                  const WayOf& way_of) const {
    return traffic(operand, own, ends_of(layer, operand, own, way_of));
  }
  Traffic traffic(const SplitOperand& operand, std::size_t own, const Ends& ends) const {
    if (operand.writers.empty()) return from_outside(operand, own, ends);
    if (ends.kept) return edges(operand, *ends.written, *operand.read[own], ends);
    return everything(operand, own, ends);
  }

  // The inputs of the network, and what has no share.
  Traffic from_outside(const SplitOperand& operand, std::size_t own, const Ends& ends) const {
    Traffic traffic;
    traffic.loaded = sum(operand.taken[own]);
    if (setting_.choice.share_loads) {
      traffic.loaded = std::min(traffic.loaded, operand.bytes * static_cast<double>(memories_));
    }
    traffic.loaded *= ends.load->padding();
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

  // Of each core, what it reads that others made.
  static std::vector<double> edge_bytes(const SplitOperand& operand, const Regions& written,
                                        const Regions& read) {
    std::vector<double> bytes;
    for (std::size_t core = 0; core < read.size(); ++core) {
      const std::int64_t own = intersection(written[core], read[core]).elements();
      bytes.push_back(static_cast<double>((read[core].elements() - own) * operand.element));
    }
    return bytes;
  }

  Traffic edges(const SplitOperand& operand, const Regions& written, const Regions& read,
                const Ends& ends) const {
    const double bytes = sum(edge_bytes(operand, written, read));
    if (bytes == 0) return {};
    Traffic traffic{.stored = bytes * ends.store_padding,
                    .loaded = bytes * ends.load->padding(),
                    .crosses = true,
                    .movement = Movement::kEdges};
    if (cards_ > 1) traffic.network = over_network(operand, bytes / static_cast<double>(cores_));
    return traffic;
  }

  // Of a storage: what at least one core reads.
  static double bytes_read(const SplitOperand& operand, std::size_t own) {
    if (!operand.read[own]) return operand.bytes;
    PlaneRegion all;
    for (const PlaneRegion& region : *operand.read[own]) all = hull(all, region);
    return std::min(operand.bytes, static_cast<double>(all.elements() * operand.element));
  }

  // Stored by all, and read by each as far as it needs it.
  Traffic everything(const SplitOperand& operand, std::size_t own, const Ends& ends) const {
    const auto memories = static_cast<double>(memories_);
    const double bytes = bytes_read(operand, own);
    const double wanted = sum(operand.taken[own]);
    const bool shared = wanted >= 2 * bytes;
    Traffic traffic{.crosses = true,
                    .movement = shared ? Movement::kToEveryone : Movement::kForward};
    const double loaded = setting_.choice.share_loads ? std::min(wanted, bytes) : wanted;
    traffic.stored = operand.bytes * ends.store_padding;
    traffic.loaded = loaded * ends.load->padding();
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

  double over_network(const SplitOperand& operand, double needed) const {
    if (setting_.chip.card.features.needed_bytes_only != 0) return needed;
    const auto cards = static_cast<double>(cards_);
    return operand.bytes * (cards - 1) / cards;
  }

  // What is stored of a layer's results by all its cores; `longest` in the memory that has most of it.
  struct Stored {
    double bytes = 0, bursts = 0;
    double cycles = 0, longest = 0;  // of one memory; where it lies in one or in several
    OneMemory in_one;
  };
  struct Stores {
    Table<LayerIndex, Stored> by_layer;
    Table<StorageIndex, std::int32_t> memory;  // that has all of it; -1: none
  };

  // Of each core: how many loads more it takes since each is of one memory (compile/share_memories.h); none
  // where some cannot be cut so.
  template <typename WayOf>
  std::optional<std::vector<std::int64_t>> more_loads(LayerIndex layer, const SplitOperand& operand,
                                                      std::size_t own, const WayOf& way_of) const {
    std::vector<std::int64_t> more;
    for (std::size_t core = 0; core < cores_; ++core) {
      SampleMemories samples;
      samples.fill(kNoMemory);
      for (const SplitWriter& writer : operand.writers) {
        const std::size_t way = writer.node < 0 ? 0 : way_of(writer.node);
        for (std::size_t i = 0; i < samples.size(); ++i) {
          samples[i] = std::min(samples[i], writer.samples[way][own][core][i]);
        }
      }
      const std::int64_t parts = loads_of_one_memory_each(samples, sides_[own][layer].cuts_rows);
      if (parts == 0) return std::nullopt;
      more.push_back((parts - 1) * std::llround(operand.loads[own]));
    }
    return more;
  }

  // The layer that stores what a writer has made.
  template <typename WayOf>
  LayerIndex stores_for(LayerIndex writer, const SplitStorage& storage, const WayOf& way_of) const {
    const graph::NodeIndex node = layers()[writer].node;
    const std::vector<LayerIndex>& gathered = storage.gathered[node < 0 ? 0 : way_of(node)];
    return std::ranges::binary_search(gathered, writer) ? gathered.back() : writer;
  }

  static void add_reads(double bytes, const std::vector<std::int64_t>& more, CutReads& reads) {
    reads.bytes += bytes;
    reads.more.resize(more.size(), 0);
    for (std::size_t core = 0; core < more.size(); ++core) reads.more[core] += more[core];
  }

  // Of each layer what others, or the host, take of it by way of memory.
  template <typename WayOf>
  Stores find_stores(const WayOf& way_of) const {
    Table<StorageIndex, double> of_storages(operands_.storages.size(), 0);
    Table<StorageIndex, bool> whole(operands_.storages.size(), false);
    Table<StorageIndex, CutReads> cut(operands_.storages.size());
    for (LayerIndex layer = 0; layer < std::ssize(layers()); ++layer) {
      const graph::NodeIndex node = layers()[layer].node;
      const std::size_t own = node < 0 ? 0 : way_of(node);
      for (const SplitOperand& operand : operands_.of_layer[layer]) {
        const Ends ends = ends_of(layer, operand, own, way_of);
        const double bytes = traffic(operand, own, ends).stored / ends.store_padding;
        of_storages[operand.storage] = std::max(of_storages[operand.storage], bytes);
        if (memories_ == 1 || ends.kept) continue;
        const auto more = more_loads(layer, operand, own, way_of);
        if (!more) whole[operand.storage] = true;
        const double read =
            std::min(sum(operand.taken[own]), operand.bytes * static_cast<double>(memories_));
        if (more) add_reads(read, *more, cut[operand.storage]);
      }
      for (const auto& [storage, writers] : operands_.copied[layer]) {
        const double bytes = operands_.storages[storage].bytes;
        of_storages[storage] = bytes;
        // Each core copies a part along some axis.
        add_reads(bytes, std::vector<std::int64_t>(cores_, 1), cut[storage]);
      }
      for (const StorageIndex storage : operands_.outputs[layer]) {
        of_storages[storage] = operands_.storages[storage].bytes;
      }
    }
    const auto memories = static_cast<double>(memories_);
    Table<StorageIndex, std::int32_t> memory(whole.size(), -1);
    std::int32_t before = 0;  // as compile/share_memories.cc numbers them
    for (std::size_t s = 0; s < whole.size(); ++s) {
      const double bytes = operands_.storages[s].bytes;
      whole[s] = whole[s] || better_in_one_memory(setting_.chip, memories_, bytes, cut[s]);
      if (whole[s]) memory[s] = before++ % static_cast<std::int32_t>(memories_);
    }
    Table<LayerIndex, Stored> stored(layers().size());
    for (std::size_t s = 0; s < of_storages.size(); ++s) {
      double elements = 0;
      const SplitStorage& storage = operands_.storages[s];
      for (const LayerIndex writer : storage.writers) elements += output_elements(layers()[writer]);
      for (const LayerIndex writer : storage.writers) {
        // Copies may make the rest of the storage.
        const double bytes = std::min(of_storages[s] * output_elements(layers()[writer]) / elements,
                                      output_elements(layers()[writer]) * storage.element_bytes);
        const LayerIndex by = stores_for(writer, storage, way_of);
        const graph::NodeIndex node = layers()[by].node;
        const LayerSide& side = sides_[node < 0 ? 0 : way_of(node)][by];
        const double cycles = bytes * std::max(side.stores.padding() / rate_beside(side, bytes),
                                               side.stores.memory_per_byte());
        Stored& of_layer = stored[by];
        of_layer.bytes += bytes;
        of_layer.bursts += bytes * side.stores.padding();
        of_layer.cycles += cycles;
        of_layer.longest += cycles / (whole[s] ? 1 : memories);
        if (whole[s]) {
          of_layer.in_one.memory = memory[s];
          of_layer.in_one.cycles += cycles;
        }
      }
    }
    return {std::move(stored), std::move(memory)};
  }

  // Of a memory, for the descriptors of so many tasks.
  double fetch_cycles(std::int64_t tasks) const {
    return static_cast<double>(tasks * LayerTimeline::kTaskBytes) / memory_rate_shared_;
  }
  // Of the program that begins with layer `first`. Cores of one memory take turns at the requests for the
  // beginning of their programs.
  std::vector<ProgramFetch> program_fetches(const std::vector<LayerDemand>& demands,
                                            std::size_t first,
                                            const Table<LayerIndex, std::int32_t>& segments) const {
    std::vector<std::int64_t> tasks(cores_, 0);
    for (std::size_t layer = first; layer < demands.size(); ++layer) {
      if (segments[layer] != segments[first]) break;
      for (std::size_t core = 0; core < cores_; ++core) {
        tasks[core] += demands[layer].cores[core].tasks;
      }
    }
    const ChipConfig& chip = setting_.chip;
    const std::int64_t asked = descriptor_request_bytes(chip);
    std::vector<double> in_turn(memories_, kMemoryCycles / 2);
    std::vector<ProgramFetch> result;
    for (std::size_t core = 0; core < cores_; ++core) {
      const std::int64_t bytes = tasks[core] * LayerTimeline::kTaskBytes;
      double& turn = in_turn[memory_of(core)];
      turn += static_cast<double>(std::min(bytes, asked)) / memory_rate();
      const auto ahead = static_cast<double>(std::min(bytes, 2 * asked));
      result.push_back({.first = turn, .ahead = ahead / memory_rate_shared_});
    }
    return result;
  }

  // What each reader needs of each writer; of all of them where that is not known.
  void add_needs(const SplitWriter& writer, const Share& written, const Share& read, bool kept,
                 double ahead, OperandDemand& asked) const {
    PlaneRegion all;
    for (const PlaneRegion& region : written.value_or(Regions{})) all = hull(all, region);
    const auto plane = static_cast<double>(length(all.plane));
    for (std::size_t reader = 0; reader < cores_; ++reader) {
      std::vector<ShareNeed>& needs = asked.needs[reader];
      if (!written || !read) {
        needs.push_back({.maker = writer.layer});
        continue;
      }
      for (std::size_t core = 0; core < cores_; ++core) {
        const PlaneRegion common = intersection((*written)[core], (*read)[reader]);
        if (common.empty()) continue;
        ShareNeed& need = needs.emplace_back();
        need.maker = writer.layer;
        need.writer = static_cast<std::int32_t>(core);
        std::tie(need.made_first, need.made_last) = part_of((*written)[core], common);
        std::tie(need.wanted_first, need.wanted_last) = part_of((*read)[reader], common);
        need.kept = kept && core == reader;
        need.ahead = ahead * plane / static_cast<double>(length((*written)[core].plane));
      }
    }
  }
  // From where to where a part of a region goes, from 0 to 1, in the order of its images and their planes.
  static std::pair<double, double> part_of(const PlaneRegion& all, const PlaneRegion& part) {
    const auto plane = static_cast<double>(all.plane.last - all.plane.first);
    const double size = plane * static_cast<double>(all.images.last - all.images.first);
    const auto place = [&](std::int64_t image, std::int64_t at) {
      return (static_cast<double>(image - all.images.first) * plane +
              static_cast<double>(at - all.plane.first)) /
             size;
    };
    return {place(part.images.first, part.plane.first),
            place(part.images.last - 1, part.plane.last)};
  }

  // What a layer asks of engines and memories.
  template <typename WayOf>
  LayerDemand demand_of(LayerIndex layer, const Stores& stores, const WayOf& way_of) const {
    const Stored& stored = stores.by_layer[layer];
    const graph::NodeIndex node = layers()[layer].node;
    const std::size_t own = node < 0 ? 0 : way_of(node);
    const LayerSide& side = sides_[own][layer];
    const double rate = rate_beside(side, stored.bytes);
    LayerDemand demand{.cores = side.cores,
                       .copies = side.copies,
                       .copied = side.copied,
                       .stored = stored.cycles - stored.in_one.cycles,
                       .stored_in_one = stored.in_one,
                       .stores_wait = stored.bursts / static_cast<double>(memories_) < writes_kept_,
                       .kernels = side.kernel_bytes / memory_rate_shared_,
                       .kernel_tasks = std::max(1.0, static_cast<double>(side.kernel_tasks)),
                       .kernel_bytes = side.kernel_room};
    if (side.compute > 0 && !side.copies) {
      demand.engines = side.neural ? LayerEngines::kArray : LayerEngines::kLanes;
    }
    const auto work = static_cast<double>(std::ranges::count_if(
        demand.cores, [](const CoreDemand& core) { return core.compute > 0; }));
    for (CoreDemand& core : demand.cores) {
      if (core.compute == 0) continue;
      core.fetched = fetch_cycles(core.tasks);
      core.stores = std::max(passage(side.stores, stored.bytes / work), stored.longest);
      core.writes = write_cycles(layer) / work;
    }
    for (const SplitOperand& operand : operands_.of_layer[layer]) {
      demand.operands.push_back(demand_of(layer, operand, own, rate, stores, way_of));
    }
    const auto wait_for = [&](LayerIndex maker) {
      OperandDemand& asked = demand.operands.emplace_back();
      asked.late = beside_transfers({});
      asked.needs.assign(cores_, {{.maker = maker}});
    };
    for (const LayerIndex copier : operands_.copiers[layer]) wait_for(copier);
    for (const auto& [storage, writers] : operands_.copied[layer]) {
      for (const LayerIndex writer : writers) wait_for(writer);
    }
    return demand;
  }
  // Of one port of each partition that has some of the layer's results.
  double write_cycles(LayerIndex layer) const {
    const ChipConfig& chip = setting_.chip;
    const StorageView& output = layers()[layer].output;
    if (output.storage < 0) return 0;
    const auto partitions = static_cast<double>(
        std::min<std::int64_t>(output.channels(), chip.state_buffer.partitions));
    const Storage& storage = drafts_[0].prepared.storages.storages[output.storage];
    return output_elements(layers()[layer]) * static_cast<double>(format_bytes(storage.format)) /
           (partitions * chip.state_buffer.port_bytes);
  }
  template <typename WayOf>
  OperandDemand demand_of(LayerIndex layer, const SplitOperand& operand, std::size_t own,
                          double rate, const Stores& stores, const WayOf& way_of) const {
    const Ends ends = ends_of(layer, operand, own, way_of);
    const Traffic moved = traffic(operand, own, ends);
    OperandDemand asked;
    const double rows = ends.load->memory_per_byte() / ends.load->padding();
    const double loaded = moved.loaded * std::max(1 / rate, rows);  // cycles of one memory
    asked.loaded = loaded;
    LayerCost links;
    add_traffic(moved, links);
    asked.links = links.links();
    const std::int32_t memory = stores.memory[operand.storage];
    const bool one = memory >= 0;
    if (one) asked.links = std::max(asked.links, loaded);
    asked.one_memory = memory;
    asked.loads = operand.loads[own];
    const std::vector<double> bytes =
        ends.kept ? edge_bytes(operand, *ends.written, *operand.read[own]) : operand.taken[own];
    asked.late = moved.crosses ? beside_transfers(crossing_of(operand, ends, moved, bytes)) : 0;
    for (const double of_core : bytes) asked.passage.push_back(passage(*ends.load, of_core));
    asked.needs.resize(cores_);
    for (const SplitWriter& writer : operand.writers) {
      const std::size_t way = writer.node < 0 ? 0 : way_of(writer.node);
      add_needs(writer, writer.written[way], operand.read[own], ends.kept, operand.ahead, asked);
    }
    if (moved.crosses && memories_ > 1) add_way_around(one, way_of, asked);
    return asked;
  }
  // `loaded`: bytes of each core.
  Crossing crossing_of(const SplitOperand& operand, const Ends& ends, const Traffic& moved,
                       const std::vector<double>& loaded) const {
    const auto of_memory = [&](std::int64_t cores) {
      return std::min<double>(
          std::ceil(static_cast<double>(cores) / static_cast<double>(memories_)),
          cores_of_memory());
    };
    std::int64_t storing = std::ssize(loaded);
    if (ends.written) {
      storing =
          std::ranges::count_if(*ends.written, [](const PlaneRegion& r) { return !r.empty(); });
    }
    const std::int64_t loading =
        std::ranges::count_if(loaded, [](double bytes) { return bytes > 0; });
    Crossing crossing;
    const double stored = ends.kept ? sum(loaded) : operand.bytes;
    crossing.storing = of_memory(storing);
    crossing.stored = stored / static_cast<double>(std::max<std::int64_t>(1, storing));
    const bool shared = setting_.choice.share_loads && moved.movement == Movement::kToEveryone;
    crossing.loading = shared ? 1 : of_memory(loading);
    crossing.loaded = sum(loaded) / static_cast<double>(std::max<std::int64_t>(1, loading));
    return crossing;
  }
  // What lies in other memories comes around the ring, and from each of them by a task of its own.
  template <typename WayOf>
  void add_way_around(bool in_one, const WayOf& way_of, OperandDemand& asked) const {
    const ChipConfig& chip = setting_.chip;
    const auto& unit = chip.card.load_save;
    const double around =
        chip.card.groups * chip.card.ring.hop_cycles + 2 * (unit.pack_cycles + unit.unpack_cycles);
    bool others = in_one;
    for (std::size_t core = 0; core < cores_; ++core) {
      if (asked.passage[core] == 0) continue;
      std::set<std::size_t> memories;
      for (const ShareNeed& need : asked.needs[core]) {
        if (need.kept) continue;
        if (need.writer == ShareNeed::kEveryCore) {
          const graph::NodeIndex node = layers()[need.maker].node;
          const LayerSide& maker = sides_[node < 0 ? 0 : way_of(node)][need.maker];
          for (std::size_t writer = 0; writer < cores_; ++writer) {
            if (maker.cores[writer].compute > 0) memories.insert(memory_of(writer));
          }
        } else {
          memories.insert(memory_of(static_cast<std::size_t>(need.writer)));
        }
      }
      memories.erase(memory_of(core));
      others = others || !memories.empty();
      if (in_one) continue;
      asked.passage[core] += static_cast<double>(memories.size()) * chip.dma.task_start_cycles;
    }
    if (others) asked.late += around;
  }
  // Cycles of a core's DMA engine that nobody else holds up.
  double passage(const ShareTransfers& transfers, double bytes) const {
    return bytes * std::max(transfers.cycles_per_byte(), 1 / memory_rate());
  }

  const graph::Graph& graph_;
  const ShareSetting setting_;
  const int cards_;
  const std::vector<ShareDraft> drafts_;  // of the ways that there are, kSplitWays at most
  const std::size_t cores_;
  std::size_t memories_ = 1;
  double memory_rate_shared_ = 1;  // bytes a cycle of a memory, while its cores take turns
  mutable std::map<DramStreams, double> shared_rates_;
  double writes_kept_ = 0;  // bytes that a channel keeps while there are reads
  WayCounts counts_;
  std::array<Table<LayerIndex, LayerSide>, kSplitWays> sides_;
  SplitOperands operands_;
  std::set<std::pair<graph::NodeIndex, graph::NodeIndex>> tied_;
  Table<LayerIndex, std::vector<Tabulated>> tables_;  // for the ways of counts_
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

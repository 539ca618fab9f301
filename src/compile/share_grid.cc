#include "compile/share_grid.h"

#include <algorithm>

#include "arch/cost.h"
#include "arch/dram_config.h"
#include "base/quantity.h"

namespace tessera::compile {
namespace {

using graph::ConvAttributes;
using graph::Node;
using graph::NodeKind;

constexpr double kWorthIt = 0.97;  // of the cycles of a cut along one axis
// What a layer in a grid takes longer: results of two kinds of neighbours come late, and of what it reads
// a part that a cut along one axis would find in its own core.
constexpr double kExchangeCycles = 500;
constexpr double kReadAgain = 0.5;

// The product of a node with constant weights; columns are the share's.
ProductWork product_of(const graph::Graph& graph, const Node& node, const ChipConfig& chip) {
  ProductWork work;
  work.port_elements = chip.state_buffer.port_elements;
  work.partitions = chip.state_buffer.partitions;
  const Shape& weights = graph.tensor(node.inputs[1]).dims;
  if (node.kind() == NodeKind::kMatMul) {
    work.channels = weights[weights.size() - 2];
    work.output_channels = weights[weights.size() - 1];
    return work;
  }
  const auto& conv = node.as<ConvAttributes>();
  work.channel_wise = conv.channel_wise;
  work.cut = conv.cut;
  work.groups = conv.groups;
  work.channels = weights[1];
  work.output_channels = weights[0] / conv.groups;
  work.kernel_h = weights[2];
  work.kernel_w = weights[3];
  work.stride_h = conv.stride_h;
  work.stride_w = conv.stride_w;
  work.pad_top = conv.pad_top;
  work.pad_left = conv.pad_left;
  work.dilation_h = conv.dilation_h;
  work.dilation_w = conv.dilation_w;
  work.input_dilation_h = conv.input_dilation_h;
  work.input_dilation_w = conv.input_dilation_w;
  return work;
}

// Of a share: how much of the axis that bands are cut along, and how many channels.
struct Part {
  std::int64_t band = 1, channels = 1;
};

class GridSearch {
 public:
  GridSearch(const graph::Graph& graph, const ChipConfig& chip, const PlannedLayer& layer,
             const ShareChoice& choice)
      : chip_(chip),
        layer_(layer),
        cores_(choice.cores),
        extent_(band_extent(layer)),
        by_rows_(layer.output.rows() > 1 && extent_ == layer.output.rows()),
        block_(layer.kind == LayerKind::kNeural ? chip.neural.columns : chip.planar.lanes) {
    const Node& node = graph.nodes[static_cast<std::size_t>(layer.node)];
    output_element_ = format_bytes(graph.tensor(node.outputs[0]).format);
    const std::int64_t element = format_bytes(graph.tensor(node.inputs[0]).format);
    const auto bytes = static_cast<double>(layer.inputs[0].dense_elements() * element);
    const double rate = dram_sustained_bytes_per_cycle(chip) * memories(choice);
    charge_ = kExchangeCycles + kReadAgain * bytes / rate;
    if (layer.kind != LayerKind::kNeural) return;
    product_ = product_of(graph, node, chip);
    if (product_.groups > 1 && !product_.channel_wise) block_ = 1;  // whole groups
  }

  ShareGrid find(const ShareGrid& before) const {
    ShareGrid best;
    Cycles least = 0;
    for (int ranges = 2; ranges <= cores_ / 2; ++ranges) {
      const ShareGrid grid = grid_of(ranges);
      if (grid.ranges != ranges || grid.bands < 2 || short_runs(grid)) continue;
      const Cycles found = cycles(largest(grid));
      if (best.both() && found >= least) continue;
      best = grid;
      least = found;
    }
    if (!best.both()) return best;
    const ShareGrid same = taken(before);
    if (same.both() && !worth(static_cast<double>(least), cycles(largest(same)))) best = same;
    const std::int64_t bands = std::min<std::int64_t>(cores_, extent_);
    const std::int64_t ranges = std::min<std::int64_t>(cores_, channels());
    const Cycles alone = std::min(cycles({ceil_div(extent_, bands), channels()}),
                                  cycles({extent_, ceil_div(channels(), ranges)}));
    return worth(static_cast<double>(cycles(largest(best))) + charge_, alone) ? best : ShareGrid{};
  }

 private:
  static bool worth(double found, Cycles alone) {
    return found <= kWorthIt * static_cast<double>(alone);
  }
  static int memories(const ShareChoice& choice) {
    const std::vector<std::uint8_t>& memory = choice.memory_of_core;
    return memory.empty() ? 1 : 1 + *std::ranges::max_element(memory);
  }
  // Columns that are a run in DRAM of less than two bursts, most of which others would write too.
  bool short_runs(const ShareGrid& grid) const {
    const std::int64_t bytes = ceil_div(extent_, grid.bands) * output_element_;
    return !by_rows_ && bytes < 2 * dram_burst_bytes(chip_);
  }
  std::int64_t channels() const { return layer_.output.channels(); }
  std::int64_t blocks() const {
    if (layer_.kind == LayerKind::kNeural && product_.groups > 1) {
      return ceil_div(product_.groups, block_);
    }
    return ceil_div(channels(), block_);
  }

  ShareGrid grid_of(int ranges) const {
    ShareGrid grid;
    grid.ranges = static_cast<int>(std::min<std::int64_t>(ranges, blocks()));
    grid.bands = static_cast<int>(std::min<std::int64_t>(cores_ / grid.ranges, extent_));
    grid.block = block_;
    return grid;
  }
  // `before` for this layer; not a grid where it does not fit.
  ShareGrid taken(const ShareGrid& before) const {
    const bool sums = layer_.kind == LayerKind::kNeural && !product_.channel_wise;
    if (sums || !before.both() || before.ranges > blocks() || before.bands > extent_) return {};
    const ShareGrid grid{before.bands, before.ranges, block_};
    return short_runs(grid) ? ShareGrid{} : grid;
  }

  Part largest(const ShareGrid& grid) const {
    return {ceil_div(extent_, grid.bands),
            std::min(channels(), ceil_div(blocks(), grid.ranges) * channels_of_block())};
  }
  std::int64_t channels_of_block() const {
    const bool grouped = layer_.kind == LayerKind::kNeural && product_.groups > 1;
    return grouped ? block_ * product_.output_channels : block_;
  }

  Cycles cycles(const Part& part) const {
    const std::int64_t rows = by_rows_ ? part.band : layer_.output.rows();
    const std::int64_t columns = by_rows_ ? layer_.output.columns() : part.band;
    if (layer_.kind != LayerKind::kNeural) {
      return layer_.output.images() * rows * columns * ceil_div(part.channels, block_);
    }
    ProductWork work = product_;
    work.columns = columns;
    if (work.groups > 1) {
      work.groups = ceil_div(part.channels, work.output_channels);
    } else {
      work.output_channels = part.channels;
    }
    const std::int64_t pixels = 3 * std::int64_t{chip_.neural.rows};
    const std::int64_t step = std::clamp<std::int64_t>(pixels / columns, 1, rows);
    return neural_task_cycles(chip_.neural, work, {layer_.output.images(), rows, step});
  }

  const ChipConfig& chip_;
  const PlannedLayer& layer_;
  const int cores_;
  const std::int64_t extent_;
  const bool by_rows_;
  std::int64_t block_;
  std::int64_t output_element_ = 1;  // in bytes
  double charge_ = 0;                // cycles
  ProductWork product_;
};

}  // namespace

ShareGrid find_grid(const graph::Graph& graph, const ChipConfig& chip, const PlannedLayer& layer,
                    const ShareChoice& choice, const ShareGrid& before) {
  if (choice.cores < kGridCoresMin || !may_have_grid(layer, choice)) return {};
  return GridSearch(graph, chip, layer, choice).find(before);
}

}  // namespace tessera::compile

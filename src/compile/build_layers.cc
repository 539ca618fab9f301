#include "compile/build_layers.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/dram_config.h"
#include "base/check.h"
#include "base/quantity.h"
#include "compile/channel_wise.h"
#include "compile/kernel_slices.h"
#include "compile/share_grid.h"
#include "compile/sum_parts.h"
#include "compile/surface_conventions.h"
#include "isa/psum.h"

namespace tessera::compile {
namespace {

using graph::ElementwiseAttributes;
using graph::Node;
using graph::NodeKind;
using graph::PoolAttributes;
using graph::ReduceAttributes;

// Element-wise rows longer than this are folded into several, so that work begins early.
constexpr std::int64_t kFoldColumns = 512;

PoolConfig pool_config(const PoolAttributes& pool) {
  return {.function = pool.function,
          .window_h = pool.window_h,
          .window_w = pool.window_w,
          .stride_h = pool.stride_h,
          .stride_w = pool.stride_w,
          .pad_top = pool.pad_top,
          .pad_left = pool.pad_left,
          .pad_bottom = pool.pad_bottom,
          .pad_right = pool.pad_right,
          .dilation_h = pool.dilation_h,
          .dilation_w = pool.dilation_w,
          .include_padding = pool.include_padding,
          .input = pool.input,
          .output = pool.output,
          .before = pool.before,
          .after = pool.after};
}

ElementwiseConfig elementwise_config(const ElementwiseAttributes& node) {
  return {.binary = node.binary,
          .function = node.function,
          .activation = node.activation,
          .inputs = {node.inputs[0], node.inputs[1]},
          .output = node.output,
          .gain_format = node.gain_format};
}

// One axis of a view becomes two: extent = outer * inner.
void split_axis(StorageView& view, std::size_t from, std::size_t outer, std::int64_t inner) {
  const std::int64_t stride = view.strides[from];
  view.extents[outer] = view.extents[from] / inner;
  view.strides[outer] = view.extents[outer] == 1 ? 0 : stride * inner;
  view.extents[from] = inner;
  if (inner == 1) view.strides[from] = 0;
}

std::int64_t largest_divisor(std::int64_t value, std::int64_t limit) {
  for (std::int64_t d = std::min(limit, value); d > 1; --d) {
    if (value % d == 0) return d;
  }
  return 1;
}

// A single long row becomes rows of a moderate length.
void fold_columns(PlannedLayer& layer) {
  StorageView& out = layer.output;
  if (out.rows() != 1 || out.columns() <= kFoldColumns) return;
  const std::int64_t inner = largest_divisor(out.columns(), kFoldColumns);
  if (inner < 16) return;
  for (StorageView& input : layer.inputs) split_axis(input, 3, 2, inner);
  split_axis(out, 3, 2, inner);
}

StorageView flat_view(const StorageView& view, std::int64_t channels, std::int64_t elements) {
  const std::int64_t columns = elements / channels;
  return {.storage = view.storage,
          .offset = view.offset,
          .extents = {1, channels, 1, columns},
          .strides = {0, channels == 1 ? 0 : columns, 0, columns == 1 ? 0 : 1}};
}

// Work on few channels leaves most lanes idle. Without broadcasts any cut into channels will do;
// its price is that operands pass through DRAM.
void spread_channels(const ChipConfig& chip, const StoragePlan& plan, PlannedLayer& layer) {
  const std::int64_t elements = layer.output.dense_elements();
  if (elements == 0) return;
  const auto bytes = [&](const StorageView& view) {
    return elements * format_bytes(plan.storages[view.storage].format);
  };
  std::int64_t moved = 2 * bytes(layer.output);
  for (const StorageView& input : layer.inputs) {
    if (input.dense_elements() != elements || input.extents != layer.output.extents) return;
    moved += 2 * bytes(input);
  }
  const std::int64_t lanes = chip.planar.lanes;
  const std::int64_t channels = largest_divisor(elements, lanes);
  const std::int64_t at_once = chip.planar.elements_per_lane;
  const std::int64_t now = elements / std::min(lanes, layer.output.channels()) / at_once;
  const std::int64_t then = elements / channels / at_once + dram_costs(chip).whole_cycles(moved);
  if (then >= now) return;
  for (StorageView& input : layer.inputs) input = flat_view(input, channels, elements);
  layer.output = flat_view(layer.output, channels, elements);
}

// One window over the whole input is a reduction, which needs no line buffer. Sums of f16 are exact
// either way, and the largest and smallest are what they are; other sums stay as they are defined.
bool is_whole_reduction(const PoolConfig& pool, Format format, const PlannedLayer& layer) {
  const StorageView& in = layer.inputs[0];
  const bool exact = pool.function != PoolFunction::kAverage || format == Format::kF16;
  return exact && pool.function != PoolFunction::kMedian && !pool.input.enabled &&
         !pool.output.enabled && layer.output.rows() == 1 && layer.output.columns() == 1 &&
         pool.pad_top == 0 && pool.pad_left == 0 && pool.pad_bottom == 0 && pool.pad_right == 0 &&
         pool.dilation_h == 1 && pool.dilation_w == 1 && pool.window_h == in.rows() &&
         pool.window_w == in.columns();
}

Status set_pool(const PoolConfig& pool, Format format, const ChipConfig& chip,
                PlannedLayer& layer) {
  isa::PlanarTask& task = layer.planar;
  const PlanarEngineConfig& planar = chip.planar;
  const std::int64_t rows = (pool.window_h - 1) * pool.dilation_h + 1;
  const std::int64_t columns = (pool.window_w - 1) * pool.dilation_w + 1;
  const bool fits = rows <= planar.window_rows_max && columns <= planar.window_columns_max;
  if (!fits && is_whole_reduction(pool, format, layer)) {
    task.mode = isa::PlanarMode::kReduction;
    task.reduce = {.function = pool_reduction(pool.function),
                   .over_rows = true,
                   .over_columns = true,
                   .activation = pool.after,
                   .input = {},
                   .output = {},
                   .before = pool.before};
    return {};
  }
  if (!fits && pool.function == PoolFunction::kMedian) {
    return Error{
        ErrorCode::kUnsupported,
        fmt::format("layer '{}': a median over windows of {} x {}, which does not come in "
                    "parts; the planar engine holds at most {} x {}",
                    layer.name, rows, columns, planar.window_rows_max, planar.window_columns_max)};
  }
  task.mode = isa::PlanarMode::kPooling;
  task.pool = pool;
  layer.wide_window = !fits;
  return {};
}

Status set_planar(const graph::Graph& graph, const Node& node, const ChipConfig& chip,
                  PlannedLayer& layer) {
  layer.kind = LayerKind::kPlanar;
  isa::PlanarTask& task = layer.planar;
  task.input_count = static_cast<std::uint8_t>(node.inputs.size());
  switch (node.kind()) {
    case NodeKind::kPool:
      TESSERA_RETURN_IF_ERROR(set_pool(pool_config(node.as<PoolAttributes>()),
                                       graph.tensor(node.inputs[0]).format, chip, layer));
      break;
    case NodeKind::kElementwise:
      task.mode = node.as<ElementwiseAttributes>().gain_bias ? isa::PlanarMode::kGainBias
                                                             : isa::PlanarMode::kElementwise;
      task.elementwise = elementwise_config(node.as<ElementwiseAttributes>());
      break;
    default: {
      const auto& reduce = node.as<ReduceAttributes>();
      task.mode = isa::PlanarMode::kReduction;
      task.reduce = {.function = reduce.function,
                     .over_rows = layer.output.rows() == 1 && layer.inputs[0].rows() > 1,
                     .over_columns = true,
                     .activation = reduce.activation,
                     .input = reduce.input,
                     .output = reduce.output,
                     .before = reduce.before};
    }
  }
  if (node.inputs.empty() || node.inputs.size() > isa::kPlanarInputsMax) {
    return Error{ErrorCode::kInternal, fmt::format("layer '{}': {} inputs on the planar engine",
                                                   layer.name, node.inputs.size())};
  }
  return {};
}

// Values of all output channels go into each result.
bool normalises_channels(const Node& node) {
  return node.kind() == NodeKind::kConv
             ? node.as<graph::ConvAttributes>().post.local_response.enabled()
             : node.as<graph::MatMulAttributes>().post.local_response.enabled();
}

// Channels of a part of a dynamic product's sum where the state buffer does not hold the stationary
// operand of an image beside a row of results and of what is multiplied with it; else 0.
std::int64_t stationary_part(const PlannedLayer& layer, const StoragePlan& storages,
                             std::int64_t shares, std::int64_t unit, const ChipConfig& chip) {
  const auto bytes = [&](const StorageView& view) {
    const Format format = storages.storages[view.storage].format;
    return round_up(view_bytes(view, format, chip.state_buffer.partitions), kAlignmentBytes);
  };
  const auto row = [](const StorageView& view) {
    return view.part(kImages, 0, 1).part(kRows, 0, 1);
  };
  const std::int64_t outputs = ceil_div(layer.output.channels(), shares);
  const StorageView stationary = layer.inputs[1].part(kImages, 0, 1).part(kColumns, 0, outputs);
  const std::int64_t room = chip.state_buffer.bytes_per_partition - bytes(row(layer.inputs[0])) -
                            bytes(row(layer.output).part(kChannels, 0, outputs));
  if (bytes(stationary) <= room || unit == 0) return 0;
  const std::int64_t sums = psum_entries_of_pixel(outputs, chip) * layer.output.columns();
  if (sums > isa::psum_entries(chip)) return 0;
  const std::int64_t channels = stationary.channels();
  for (const std::int64_t at_once : {2, 1}) {  // the next part beside this one, if there is room
    for (std::int64_t part = (channels - 1) / unit * unit; part > 0; part -= unit) {
      if (at_once * bytes(stationary.part(kChannels, 0, part)) <= room) return part;
    }
  }
  return 0;
}

// Shares of a dynamic product's output channels, where the state buffer does not hold the stationary
// operand of all of them beside a row of results and of what is multiplied with it: two shares then
// fit, the next one beside this one, or where that takes more than a share a block of channels, one.
std::int64_t stationary_shares(const PlannedLayer& layer, const StoragePlan& storages,
                               const ChipConfig& chip) {
  if (!layer.dynamic || layer.whole_channels) return 1;
  const auto bytes = [&](const StorageView& view) {
    const Format format = storages.storages[view.storage].format;
    return round_up(view_bytes(view, format, chip.state_buffer.partitions), kAlignmentBytes);
  };
  const StorageView stationary = layer.inputs[1].part(kImages, 0, 1);
  const std::int64_t moving = bytes(layer.inputs[0].part(kImages, 0, 1).part(kRows, 0, 1));
  const std::int64_t outputs = layer.output.channels();
  const auto of_share = [&](std::int64_t channels) {
    return bytes(stationary.part(kColumns, 0, channels)) +
           bytes(layer.output.part(kImages, 0, 1).part(kRows, 0, 1).part(kChannels, 0, channels));
  };
  const std::int64_t room = chip.state_buffer.bytes_per_partition - moving;
  if (of_share(outputs) <= room) return 1;
  const std::int64_t blocks = ceil_div(outputs, std::int64_t{chip.neural.columns});
  for (const std::int64_t at_once : {2, 1}) {
    for (std::int64_t shares = 2; shares <= blocks; ++shares) {
      if (at_once * of_share(ceil_div(outputs, shares)) <= room) return shares;
    }
  }
  return 1;
}

// All but its kernel slices.
Status set_neural(const graph::Graph& graph, const Node& node, PlannedLayer& layer) {
  layer.kind = LayerKind::kNeural;
  layer.whole_channels = normalises_channels(node);
  const graph::TensorInfo& stationary = graph.tensor(node.inputs[1]);
  layer.dynamic = stationary.constant == nullptr;
  layer.inputs.resize(layer.dynamic ? 2 : 1);
  if (layer.dynamic || node.kind() != NodeKind::kMatMul) return {};
  const std::size_t rank = stationary.dims.size();
  const std::int64_t matrix = stationary.dims[rank - 2] * stationary.dims[rank - 1];
  if (element_count(stationary.dims) == matrix) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("layer '{}': a constant stationary operand of {} matrices; split the "
                           "product into one a matrix",
                           layer.name, element_count(stationary.dims) / matrix)};
}

// Channels of a part of the layer's sum for so many shares of the output channels; or 0.
std::int64_t channels_of_part(const graph::Graph& graph, const ChipConfig& chip,
                              const StoragePlan& storages, const PlannedLayer& layer,
                              const KernelCut& how) {
  if (!layer.dynamic) return 0;  // cut_kernel() cuts constant ones
  const Node& node = graph.nodes[static_cast<std::size_t>(layer.node)];
  ProductConfig product;
  product.matrix = node.as<graph::MatMulAttributes>().matrix;
  product.image.format = graph.tensor(node.inputs[how.swapped ? 0 : 1]).format;
  const Format moving = graph.tensor(node.inputs[how.swapped ? 1 : 0]).format;
  const std::int64_t unit = part_channels(product, moving, chip);
  return stationary_part(layer, storages, how.shares, unit, chip);
}

// How the layer's kernel is cut for its shares.
KernelCut kernel_cut(const PlannedLayer& layer, const ShareChoice& shares) {
  KernelCut how;
  const ShareWay way = find_way(layer, shares);
  if (way == ShareWay::kChannels) how.shares = shares.cores;
  if (way == ShareWay::kGrid) {
    how.shares = layer.grid.ranges;
    how.block = layer.grid.block;
  }
  return how;
}

Status set_slices(const graph::Graph& graph, const ChipConfig& chip, const KernelPlaces& kernels,
                  const KernelCut& how, PlannedLayer& layer) {
  const Node& node = graph.nodes[static_cast<std::size_t>(layer.node)];
  const auto make = [&] { return cut_kernel(graph, node, chip, how); };
  TESSERA_TRY(const auto kernel, kernels.store.kernel({layer.node, how}, make));
  KernelSlices cut = place_kernel(*kernel, kernels.region);
  layer.slices = std::move(cut.slices);
  layer.channel_shares = std::move(cut.shares);
  layer.on_lanes = lanes_are_faster(chip, layer);
  return {};
}

// Of the layer that made the first input last.
ShareGrid grid_before(const Layers& layers, const PlannedLayer& layer) {
  for (auto before = layers.end(); before != layers.begin();) {
    --before;
    if (before->output.storage == layer.inputs[0].storage) return before->grid;
  }
  return {};
}

bool is_empty(const graph::Graph& graph, const Node& node) {
  for (const graph::TensorId id : node.outputs) {
    if (element_count(graph.tensor(id).dims) == 0) return true;
  }
  return false;
}

Result<PlannedLayer> build_layer(const graph::Graph& graph, const ChipConfig& chip,
                                 const StoragePlan& storages, const KernelPlaces& kernels,
                                 const ShareChoice& shares, const Layers& layers) {
  const std::size_t index = layers.size();
  const Node& node = graph.nodes[index];
  const NodePlan& plan = storages.nodes[index];
  PlannedLayer layer;
  layer.node = static_cast<std::int32_t>(index);
  layer.name = node.name;
  layer.inputs = plan.inputs;
  layer.output = plan.output;
  switch (node.kind()) {
    case NodeKind::kHostStep:
      layer.kind = LayerKind::kHost;
      return layer;
    case NodeKind::kMove:
      layer.copies = plan.copies;
      return layer;
    default:
      break;
  }
  if (is_empty(graph, node)) return layer;  // nothing to compute: a copy layer without copies
  if (node.kind() == NodeKind::kConv || node.kind() == NodeKind::kMatMul) {
    TESSERA_RETURN_IF_ERROR(set_neural(graph, node, layer));
    layer.grid = find_grid(graph, chip, layer, shares, grid_before(layers, layer));
    KernelCut how = kernel_cut(layer, shares);
    how.swapped = plan.swapped;
    how.compress = kernels.compress;
    how.part_channels = channels_of_part(graph, chip, storages, layer, how);
    if (how.part_channels == 0 && how.shares == 1) {
      how.shares = stationary_shares(layer, storages, chip);
    }
    TESSERA_RETURN_IF_ERROR(set_slices(graph, chip, kernels, how, layer));
  } else {
    TESSERA_RETURN_IF_ERROR(set_planar(graph, node, chip, layer));
    if (node.kind() == NodeKind::kElementwise) {
      spread_channels(chip, storages, layer);
      fold_columns(layer);
    }
    layer.grid = find_grid(graph, chip, layer, shares, grid_before(layers, layer));
  }
  return layer;
}

}  // namespace

Result<Layers> build_layers(const graph::Graph& graph, const ChipConfig& chip,
                            const StoragePlan& plan, const KernelPlaces& kernels,
                            const ShareChoice& shares) {
  Layers layers;
  while (layers.size() < graph.nodes.size()) {
    TESSERA_RETURN_IF_ERROR(
        watched(kernels.watch, "build_layers", std::ssize(layers), std::ssize(graph.nodes)));
    TESSERA_TRY(PlannedLayer layer, build_layer(graph, chip, plan, kernels, shares, layers));
    layers.push_back(std::move(layer));
  }
  if (!plan.output_copies.empty()) {
    PlannedLayer layer;
    layer.name = "outputs";
    layer.copies = plan.output_copies;
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace tessera::compile

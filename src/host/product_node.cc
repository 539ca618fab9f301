#include "host/product_node.h"

#include <algorithm>
#include <span>
#include <utility>

#include "arith/kernels/make_product.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::host {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;

void set_post(const graph::PostProcess& post, const graph::IntegerOperands& integer,
              ProductConfig& config) {
  config.activation = post.activation;
  config.requantise = post.requantise;
  config.output_zero_point = post.output_zero_point;
  config.clamp_low = post.clamp_low;
  config.clamp_high = post.clamp_high;
  config.moving_zero_point = integer.moving_zero_point;
}

ProductVectors vectors_of(const Graph& graph, const Node& node, const graph::PostProcess& post,
                          const graph::IntegerOperands& integer) {
  ProductVectors vectors;
  if (node.inputs.size() > 2) vectors.bias = graph.tensor(node.inputs[2]).constant->bytes;
  if (post.requantise) vectors.multipliers = post.multipliers;
  vectors.stationary_zero_points = integer.stationary_zero_points;
  return vectors;
}

void set_bias(const Graph& graph, const Node& node, ProductConfig& config) {
  config.has_bias = node.inputs.size() > 2;
  if (config.has_bias) config.bias_format = graph.tensor(node.inputs[2]).format;
  config.output_format = graph.tensor(node.outputs[0]).format;
}

std::shared_ptr<const Product> prepare_image(const ProductConfig& config, const std::byte* weights,
                                             ProductVectors vectors) {
  const std::vector<std::byte> image = make_kernel_image(config.image, weights);
  return make_product(config, {image.data(), config.image.bytes_per_partition()},
                      std::move(vectors));
}

ProductConfig conv_config(const Graph& graph, const Node& node) {
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& weights = graph.tensor(node.inputs[1]);
  ProductConfig config;
  config.image = {.channel_wise = conv.channel_wise,
                  .cut = conv.cut,
                  .groups = conv.groups,
                  .channels = weights.dims[1],
                  .output_channels = weights.dims[0] / conv.groups,
                  .taps = weights.dims[2] * weights.dims[3],
                  .rows = conv.matrix.native_dimension,
                  .columns = weights.dims[0] / conv.groups,
                  .format = weights.format};
  config.kernel_h = weights.dims[2];
  config.kernel_w = weights.dims[3];
  config.stride_h = conv.stride_h;
  config.stride_w = conv.stride_w;
  config.pad_top = conv.pad_top;
  config.pad_left = conv.pad_left;
  config.dilation_h = conv.dilation_h;
  config.dilation_w = conv.dilation_w;
  config.input_dilation_h = conv.input_dilation_h;
  config.input_dilation_w = conv.input_dilation_w;
  config.matrix = conv.matrix;
  config.moving_format = graph.tensor(node.inputs[0]).format;
  set_bias(graph, node, config);
  set_post(conv.post, conv.integer, config);
  return config;
}

ProductConfig matmul_config(const Graph& graph, const Node& node) {
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& b = graph.tensor(node.inputs[1]);
  ProductConfig config;
  config.image = {.channels = b.dims[b.dims.size() - 2],
                  .output_channels = b.dims.back(),
                  .rows = matmul.matrix.native_dimension,
                  .columns = b.dims.back(),
                  .format = b.format};
  config.matrix = matmul.matrix;
  config.channels_side_by_side = true;
  config.moving_format = graph.tensor(node.inputs[0]).format;
  set_bias(graph, node, config);
  set_post(matmul.post, matmul.integer, config);
  return config;
}

// A product before its channels are shared out.
struct WholeProduct {
  ProductConfig config;
  const std::byte* weights;  // [output channel][channel][tap]
  ProductVectors vectors;
};

// One element for all channels stays one.
template <typename T>
std::vector<T> slice(const std::vector<T>& values, std::int64_t first, std::int64_t last) {
  if (values.size() <= 1) return values;
  return {values.begin() + first, values.begin() + last};
}

// Output channels [first, last) of a product of one group, or of whole groups of a channel-wise
// one.
ProductPart prepare_part(const WholeProduct& whole, std::int64_t first, std::int64_t last) {
  ProductConfig config = whole.config;
  const bool channel_wise = config.image.channel_wise;
  if (channel_wise) {
    config.image.groups = (last - first) / config.image.output_channels;
    config.image.columns = last - first;
  } else {
    config.image.output_channels = config.image.columns = last - first;
  }
  const KernelImageShape& image = config.image;
  const std::int64_t channel_bytes = image.channels * image.taps * format_bytes(image.format);
  ProductVectors vectors = {{},
                            slice(whole.vectors.multipliers, first, last),
                            slice(whole.vectors.stationary_zero_points, first, last)};
  if (config.has_bias) {
    const std::int64_t size = format_bytes(config.bias_format);
    vectors.bias = {whole.vectors.bias.begin() + first * size,
                    whole.vectors.bias.begin() + last * size};
  }
  ProductPart part = {
      prepare_image(config, whole.weights + first * channel_bytes, std::move(vectors)), first};
  if (channel_wise) {
    part.first_input = first / config.image.output_channels;
    part.inputs = config.image.groups;
  }
  return part;
}

// A piece of work is a range of pixels of a part.
constexpr std::int64_t kPiecesAThread = 4;
// Of strips: each piece reads all weights of its part.
constexpr std::int64_t kStripPiecesAThread = 2;
constexpr std::int64_t kStripPixels = 16;

// Ranges of at least three panels, if there are as many as are wanted; else fewer.
std::int64_t ranges_of(std::int64_t panels, std::int64_t wanted) {
  constexpr std::int64_t kPanelsMin = 3;
  return std::clamp<std::int64_t>(panels / kPanelsMin, 1, wanted);
}

std::vector<ProductPart> prepare_channel_wise_parts(const WholeProduct& whole, int threads) {
  const KernelImageShape& image = whole.config.image;
  const std::int64_t count = std::min<std::int64_t>(image.groups, kPiecesAThread * threads);
  std::vector<ProductPart> parts;
  for (std::int64_t i = 0; i < count; ++i) {
    parts.push_back(prepare_part(whole, image.groups * i / count * image.output_channels,
                                 image.groups * (i + 1) / count * image.output_channels));
  }
  return parts;
}

// Of a product that runs in strips: parts only where there are few strips, of whole panels.
std::int64_t strip_part_count(const ProductConfig& config, std::int64_t pixels, int threads) {
  constexpr std::int64_t kChannelsMin = 64;
  constexpr std::int64_t kMacsMin = 500'000;
  const KernelImageShape& image = config.image;
  const bool small = pixels * image.channels * image.output_channels < kMacsMin;
  if (threads == 1 || small) return 1;
  const std::int64_t strips = ceil_div(pixels, kStripPixels);
  return std::clamp<std::int64_t>(image.output_channels / kChannelsMin, 1,
                                  ceil_div(kStripPiecesAThread * threads, strips));
}

// Every part quantises the input again, so that it should have some channels to use it for.
std::int64_t part_count(const KernelImageShape& image, std::int64_t panels, int threads) {
  constexpr std::int64_t kChannelsMin = 128;
  constexpr std::int64_t kChannelsLeast = 24;  // where there is no other way to share
  if (threads == 1 || image.groups != 1) return 1;
  const std::int64_t wanted = kPiecesAThread * threads;
  const std::int64_t ranges = ranges_of(panels, wanted);
  const std::int64_t parts = std::max<std::int64_t>(
      1, std::min(ceil_div(wanted, ranges), image.output_channels / kChannelsMin));
  if (parts * ranges >= threads) return parts;
  return std::clamp<std::int64_t>(image.output_channels / kChannelsLeast, 1, threads);
}

// `step` output channels each.
std::vector<ProductPart> cut_channels(const WholeProduct& whole, std::int64_t step) {
  const std::int64_t channels = whole.config.image.output_channels;
  if (step >= channels) return {{prepare_image(whole.config, whole.weights, whole.vectors), 0}};
  std::vector<ProductPart> result;
  for (std::int64_t first = 0; first < channels; first += step) {
    result.push_back(prepare_part(whole, first, std::min(channels, first + step)));
  }
  return result;
}

std::vector<ProductPart> prepare_parts(const WholeProduct& whole, std::int64_t panels,
                                       int threads) {
  constexpr std::int64_t kTile = 16;  // whole tiles
  if (whole.config.image.channel_wise) return prepare_channel_wise_parts(whole, threads);
  const std::int64_t parts = part_count(whole.config.image, panels, threads);
  return cut_channels(whole, round_up(ceil_div(whole.config.image.output_channels, parts), kTile));
}

// [K, N] as [N, K], the order of convolution weights.
std::vector<std::byte> transposed(const Tensor& matrix) {
  const std::int64_t rows = matrix.dims[0], columns = matrix.dims[1];
  const std::int64_t size = format_bytes(matrix.format);
  std::vector<std::byte> result(matrix.bytes.size());
  for (std::int64_t k = 0; k < rows; ++k) {
    for (std::int64_t n = 0; n < columns; ++n) {
      std::copy_n(matrix.bytes.data() + (k * columns + n) * size, size,
                  result.data() + (n * rows + k) * size);
    }
  }
  return result;
}

}  // namespace

std::vector<ProductPart> prepare_product(const Graph& graph, const Node& node, int threads) {
  if (node.kind() == NodeKind::kConv) {
    const auto& conv = node.as<graph::ConvAttributes>();
    const Shape& output = graph.tensor(node.outputs[0]).dims;
    return prepare_parts(
        {conv_config(graph, node), graph.tensor(node.inputs[1]).constant->bytes.data(),
         vectors_of(graph, node, conv.post, conv.integer)},
        is_pointwise(graph, node) ? panels_of(1, output[2] * output[3])
                                  : panels_of(output[2], output[3]),
        threads);
  }
  if (node.kind() != NodeKind::kMatMul) return {};
  const graph::TensorInfo& b = graph.tensor(node.inputs[1]);
  if (!b.constant || b.dims.size() != 2) return {};
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const std::vector<std::byte> weights = transposed(*b.constant);
  const Shape& output = graph.tensor(node.outputs[0]).dims;
  const std::int64_t pixels = output[output.size() - 2];
  const WholeProduct whole = {matmul_config(graph, node), weights.data(),
                              vectors_of(graph, node, matmul.post, matmul.integer)};
  if (!runs_in_strips(whole.config)) return prepare_parts(whole, panels_of(1, pixels), threads);
  constexpr std::int64_t kPanel = 64;
  const std::int64_t parts = strip_part_count(whole.config, pixels, threads);
  return cut_channels(whole, round_up(ceil_div(whole.config.image.output_channels, parts), kPanel));
}

bool have_same_parts(const Graph& graph, const Node& a, const Node& b) {
  if (a.kind() != NodeKind::kMatMul || b.kind() != NodeKind::kMatMul) return false;
  const auto& ours = a.as<graph::MatMulAttributes>();
  const auto& theirs = b.as<graph::MatMulAttributes>();
  const auto formats = [&](const Node& node) {
    return std::pair(graph.tensor(node.inputs[0]).format, graph.tensor(node.outputs[0]).format);
  };
  const auto pixels = [&](const Node& node) {
    const Shape& output = graph.tensor(node.outputs[0]).dims;
    return output[output.size() - 2];
  };
  return std::ranges::equal(std::span(a.inputs).subspan(1), std::span(b.inputs).subspan(1)) &&
         ours.matrix == theirs.matrix && ours.integer == theirs.integer &&
         ours.post == theirs.post && formats(a) == formats(b) && pixels(a) == pixels(b);
}

bool runs_in_strips(const Graph& graph, const Node& node) {
  return node.kind() == NodeKind::kMatMul && runs_in_strips(matmul_config(graph, node));
}

std::int64_t strip_ranges(std::int64_t strips, std::int64_t parts, int threads) {
  if (threads == 1) return 1;
  return std::min(strips, ceil_div(kStripPiecesAThread * threads, parts));
}

std::int64_t panels_of(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kStrips = 4;
  return ceil_div(rows * ceil_div(columns, kStripPixels), kStrips);
}

std::int64_t pixel_ranges(std::int64_t panels, std::int64_t parts, int threads) {
  if (threads == 1) return 1;
  const std::int64_t ranges = ranges_of(panels, ceil_div(kPiecesAThread * threads, parts));
  return ranges * parts >= threads ? ranges : std::min<std::int64_t>(panels, threads);
}

std::optional<Surface> one_row(const Surface& surface) {
  if (surface.row_origin != 0 || surface.ring_rows < surface.rows) return std::nullopt;
  const bool even =
      surface.rows == 1 || surface.row_pitch == surface.columns * surface.column_pitch;
  if (!even && surface.columns != 1) return std::nullopt;
  Surface row = surface;
  if (surface.columns == 1) row.column_pitch = surface.row_pitch;
  row.columns = surface.rows * surface.columns;
  row.rows = row.ring_rows = 1;
  return row;
}

bool is_pointwise(const Graph& graph, const Node& node) {
  if (node.kind() == NodeKind::kMatMul) return true;
  if (node.kind() != NodeKind::kConv) return false;
  const auto& conv = node.as<graph::ConvAttributes>();
  const Shape& kernel = graph.tensor(node.inputs[1]).dims;
  const Shape& input = graph.tensor(node.inputs[0]).dims;
  const Shape& output = graph.tensor(node.outputs[0]).dims;
  return !conv.channel_wise && kernel[2] == 1 && kernel[3] == 1 && conv.stride_h == 1 &&
         conv.stride_w == 1 && conv.pad_top == 0 && conv.pad_left == 0 &&
         conv.input_dilation_h == 1 && conv.input_dilation_w == 1 && input[2] == output[2] &&
         input[3] == output[3];
}

std::vector<std::shared_ptr<DynamicProduct>> prepare_dynamic_products(const Graph& graph,
                                                                      const Node& node,
                                                                      std::int64_t images) {
  if (node.kind() != NodeKind::kMatMul) return {};
  const graph::TensorInfo& b = graph.tensor(node.inputs[1]);
  if (b.constant && b.dims.size() == 2) return {};
  const auto& matmul = node.as<graph::MatMulAttributes>();
  std::vector<std::shared_ptr<DynamicProduct>> products;
  for (std::int64_t image = 0; image < images; ++image) {
    products.push_back(make_dynamic_product(matmul_config(graph, node),
                                            vectors_of(graph, node, matmul.post, matmul.integer)));
  }
  return products;
}

PoolConfig pool_config(const graph::PoolAttributes& a) {
  return {a.function, a.window_h,   a.window_w,  a.stride_h,   a.stride_w,   a.pad_top,
          a.pad_left, a.pad_bottom, a.pad_right, a.dilation_h, a.dilation_w, a.include_padding,
          a.input,    a.output,     a.before,    a.after};
}

ElementwiseConfig elementwise_config(const graph::ElementwiseAttributes& a) {
  return {a.binary, a.function, a.activation, {a.inputs[0], a.inputs[1]}, a.output, a.gain_format};
}

ReduceConfig reduce_config(const graph::ReduceAttributes& a, const graph::NodeViews& views) {
  const auto reduced = [&views](std::size_t axis) {
    return views.output.extents[axis] != views.inputs[0].extents[axis];
  };
  return {a.function, reduced(2), reduced(3), a.activation, a.input, a.output, a.before};
}

}  // namespace tessera::host

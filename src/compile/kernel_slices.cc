#include "compile/kernel_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <span>

#include "arith/kernels/weights/kernel_image.h"
#include "base/check.h"
#include "base/copy_plane.h"
#include "base/huge_pages.h"
#include "base/quantity.h"
#include "compile/even_ranges.h"
#include "compile/kernel_compression.h"
#include "compile/sum_parts.h"
#include "isa/psum.h"

namespace tessera::compile {
namespace {

using graph::ConvAttributes;
using graph::MatMulAttributes;
using graph::Node;
using graph::NodeKind;
using graph::PostProcess;

constexpr std::int64_t kVectorAlignmentBytes = 4;

// The whole product: configuration and the operands of its kernel image.
struct Whole {
  ProductConfig product;
  // Weights, output channels first: the graph's tensor, or its transpose. Both empty if dynamic.
  std::span<const std::byte> of_tensor;
  std::vector<std::byte> transposed;
  const Tensor* bias = nullptr;
  std::vector<float> multipliers;
  std::vector<std::int32_t> zero_points;
  bool dynamic = false;
  Format moving = Format::kF16;  // of the moving operand

  std::span<const std::byte> oihw() const {
    return transposed.empty() ? of_tensor : std::span(transposed);
  }
  std::int64_t output_channels() const {
    return product.image.groups * product.image.output_channels;
  }
};

void set_post(const PostProcess& post, Whole& whole) {
  ProductConfig& product = whole.product;
  product.activation = post.activation;
  product.local_response = post.local_response;
  product.requantise = post.requantise;
  product.output_zero_point = post.output_zero_point;
  product.clamp_low = post.clamp_low;
  product.clamp_high = post.clamp_high;
  if (post.requantise) whole.multipliers = post.multipliers;
}

void set_integer(const graph::IntegerOperands& integer, Whole& whole) {
  whole.product.moving_zero_point = integer.moving_zero_point;
  const auto& points = integer.stationary_zero_points;
  if (std::any_of(points.begin(), points.end(), [](std::int32_t p) { return p != 0; })) {
    whole.zero_points = points;
  }
}

Whole whole_conv(const graph::Graph& graph, const Node& node) {
  const auto& conv = node.as<ConvAttributes>();
  const Tensor& weights = *graph.tensor(node.inputs[1]).constant;
  Whole whole;
  ProductConfig& product = whole.product;
  product.kernel_h = weights.dims[2];
  product.kernel_w = weights.dims[3];
  product.image.channel_wise = conv.channel_wise;
  product.image.cut = conv.cut;
  product.image.groups = conv.groups;
  product.image.channels = weights.dims[1];
  product.image.output_channels = weights.dims[0] / conv.groups;
  product.image.taps = product.kernel_h * product.kernel_w;
  product.image.format = weights.format;
  product.stride_h = conv.stride_h;
  product.stride_w = conv.stride_w;
  product.pad_top = conv.pad_top;
  product.pad_left = conv.pad_left;
  product.dilation_h = conv.dilation_h;
  product.dilation_w = conv.dilation_w;
  product.input_dilation_h = conv.input_dilation_h;
  product.input_dilation_w = conv.input_dilation_w;
  product.matrix = conv.matrix;
  set_post(conv.post, whole);
  set_integer(conv.integer, whole);
  whole.of_tensor = weights.bytes;
  return whole;
}

// Rows [K, N] to output channels first, as a kernel of one tap.
std::vector<std::byte> transposed(const Tensor& matrix) {
  const std::int64_t k = matrix.dims[matrix.dims.size() - 2];
  const std::int64_t n = matrix.dims[matrix.dims.size() - 1];
  std::vector<std::byte> result = zeros_in_huge_pages(matrix.bytes.size());
  copy_plane(format_bytes(matrix.format), k, n, matrix.bytes.data(), {n, 1}, result.data(), {1, k});
  return result;
}

// (a x b)^T: b moves, a stays. What belongs to an operand goes with it.
Whole swapped_matmul(const graph::Graph& graph, const Node& node) {
  MatMulAttributes matmul = node.as<MatMulAttributes>();
  const graph::TensorInfo& a = graph.tensor(node.inputs[0]);
  std::swap(matmul.matrix.mantissa_bits_moving, matmul.matrix.mantissa_bits_stationary);
  std::swap(matmul.matrix.element_moving, matmul.matrix.element_stationary);
  TESSERA_CHECK(matmul.integer.stationary_zero_points.size() <= 1 &&
                    matmul.post.multipliers.size() <= 1 && node.inputs.size() == 2,
                "product '{}' has values of its own for each output channel", node.name);
  if (!matmul.integer.stationary_zero_points.empty()) {
    std::swap(matmul.integer.moving_zero_point, matmul.integer.stationary_zero_points[0]);
  }
  Whole whole;
  whole.product.image.channels = a.dims[a.dims.size() - 1];
  whole.product.image.output_channels = a.dims[a.dims.size() - 2];
  whole.product.image.format = a.format;
  whole.product.matrix = matmul.matrix;
  set_post(matmul.post, whole);
  set_integer(matmul.integer, whole);
  whole.dynamic = true;
  return whole;
}

Whole whole_matmul(const graph::Graph& graph, const Node& node) {
  const auto& matmul = node.as<MatMulAttributes>();
  const graph::TensorInfo& b = graph.tensor(node.inputs[1]);
  Whole whole;
  ProductConfig& product = whole.product;
  product.image.channels = b.dims[b.dims.size() - 2];
  product.image.output_channels = b.dims[b.dims.size() - 1];
  product.image.format = b.format;
  product.matrix = matmul.matrix;
  set_post(matmul.post, whole);
  set_integer(matmul.integer, whole);
  whole.dynamic = b.constant == nullptr;
  if (!whole.dynamic) whole.transposed = transposed(*b.constant);
  return whole;
}

// Groups [group_first, + groups) and, where that is one group, its output channels
// [output_first, + outputs); output channels a tile. Of one group, too, a part of the sum: the input
// channels [channel_first, + channels); all of them where `channels` is 0.
struct Cut {
  std::int64_t group_first = 0, groups = 1;
  std::int64_t output_first = 0, outputs = 0;
  std::int64_t columns = 1;
  std::int64_t channel_first = 0, channels = 0;
};

// Rows of a composite image: every partition holds the parts concatenated.
class CompositeImage {
 public:
  explicit CompositeImage(std::int64_t partitions) : partitions_(partitions) {}

  // Returns the part's offset in a partition.
  std::int64_t add(std::vector<std::byte> part) {
    const std::int64_t offset = bytes_;
    const std::int64_t pitch = static_cast<std::int64_t>(part.size()) / partitions_;
    parts_.push_back({std::move(part), offset, pitch});
    bytes_ = round_up(offset + pitch, kVectorAlignmentBytes);
    return offset;
  }
  std::int64_t bytes_per_partition() const { return bytes_; }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> result =
        zeros_in_huge_pages(static_cast<std::size_t>(partitions_ * bytes_));
    for (const Part& part : parts_) {
      if (part.pitch == 0) continue;
      for (std::int64_t p = 0; p < partitions_; ++p) {
        std::memcpy(result.data() + p * bytes_ + part.offset, part.bytes.data() + p * part.pitch,
                    static_cast<std::size_t>(part.pitch));
      }
    }
    return result;
  }

 private:
  struct Part {
    std::vector<std::byte> bytes;
    std::int64_t offset, pitch;
  };
  std::int64_t partitions_;
  std::int64_t bytes_ = 0;
  std::vector<Part> parts_;
};

// The elements of a per-output-channel vector that a slice needs; one element holds for all.
template <typename T>
std::vector<std::byte> vector_part(const T* values, std::int64_t count, std::int64_t element,
                                   std::int64_t rows, std::int64_t first, std::int64_t outputs) {
  const auto* bytes = reinterpret_cast<const std::byte*>(values);
  if (count == 1) return make_vector_image(rows, 1, element, bytes);
  return make_vector_image(rows, outputs, element, bytes + first * element);
}

// Makes the slice a part of the sum: the first has the bias, the last what is done with whole sums.
void take_part(const Cut& cut, KernelSlice& slice) {
  ProductConfig& product = slice.product;
  KernelImageShape& shape = product.image;
  if (cut.channels == 0 || cut.channels == shape.channels) return;
  slice.continues = cut.channel_first > 0;
  slice.keeps = cut.channel_first + cut.channels < shape.channels;
  slice.moving_channel_first += cut.channel_first;
  shape.channels = cut.channels;
  if (slice.continues) product.has_bias = false;
  if (!slice.keeps) return;
  product.activation = {};
  if (product.requantise) product.output_format = Format::kI32;  // of which nothing is written
  product.requantise = false;
  product.output_zero_point = 0;
  product.clamp_low = INT32_MIN;
  product.clamp_high = INT32_MAX;
}

// The weights of a slice, output channels first.
std::vector<std::byte> weights_of(const Whole& whole, const KernelSlice& slice,
                                  std::int64_t channel_first) {
  const KernelImageShape &all = whole.product.image, &part = slice.product.image;
  const std::int64_t channel = all.taps * format_bytes(all.format);
  const std::int64_t run = part.channels * channel;
  std::vector<std::byte> weights =
      zeros_in_huge_pages(static_cast<std::size_t>(slice.output_channels * run));
  for (std::int64_t o = 0; o < slice.output_channels; ++o) {
    const std::int64_t from = (slice.output_channel_first + o) * all.channels + channel_first;
    std::memcpy(weights.data() + o * run, whole.oihw().data() + from * channel,
                static_cast<std::size_t>(run));
  }
  return weights;
}

KernelSlice make_slice(const Whole& whole, const Cut& cut, std::vector<std::byte>& image) {
  KernelSlice slice;
  slice.product = whole.product;
  KernelImageShape& shape = slice.product.image;
  const std::int64_t first = cut.group_first * shape.output_channels + cut.output_first;
  slice.moving_channel_first = cut.group_first * shape.channels;
  shape.groups = cut.groups;
  shape.output_channels = cut.outputs;
  shape.columns = cut.columns;
  slice.output_channel_first = first;
  slice.output_channels = cut.groups * cut.outputs;
  take_part(cut, slice);
  CompositeImage composite(shape.rows);
  if (!whole.dynamic && shape.channels == whole.product.image.channels) {
    const std::int64_t kernel = shape.channels * shape.taps * format_bytes(shape.format);
    composite.add(make_kernel_image(shape, whole.oihw().data() + first * kernel));
  } else if (!whole.dynamic) {
    composite.add(make_kernel_image(shape, weights_of(whole, slice, cut.channel_first).data()));
  }
  if (slice.product.has_bias) {
    const std::int64_t element = format_bytes(whole.bias->format);
    slice.bias_offset =
        composite.add(vector_part(whole.bias->bytes.data(), element_count(whole.bias->dims),
                                  element, shape.rows, first, slice.output_channels));
  }
  if (!whole.multipliers.empty() && !slice.keeps) {
    const auto count = static_cast<std::int64_t>(whole.multipliers.size());
    slice.multiplier_count = count == 1 ? 1 : slice.output_channels;
    slice.multiplier_offset = composite.add(
        vector_part(whole.multipliers.data(), count, 4, shape.rows, first, slice.output_channels));
  }
  if (!whole.zero_points.empty()) {
    const auto count = static_cast<std::int64_t>(whole.zero_points.size());
    slice.zero_point_count = count == 1 ? 1 : slice.output_channels;
    slice.zero_point_offset = composite.add(
        vector_part(whole.zero_points.data(), count, 4, shape.rows, first, slice.output_channels));
  }
  slice.bytes_per_partition = composite.bytes_per_partition();
  image = composite.bytes();
  return slice;
}

// A slice's image as it takes the fewest bytes of DRAM: as it is, or compressed.
std::vector<std::byte> stored_image(const ChipConfig& chip, std::vector<std::byte> image,
                                    bool compress, KernelSlice& slice) {
  if (compress && !image.empty()) {
    const KernelImageShape& shape = slice.product.image;
    const KernelRows rows{image.data(), slice.bytes_per_partition, shape.rows,
                          slice.bytes_per_partition};
    const KernelStream form = best_kernel_form(chip, rows, shape);
    if (form.compressed()) {
      slice.stream = form;
      return compress_kernel(form, rows);
    }
  }
  return image;
}

// Bytes a partition of the vectors behind `outputs` output channels' image.
std::int64_t vector_bytes(const Whole& whole, std::int64_t outputs) {
  const std::int64_t elements = ceil_div(outputs, whole.product.image.rows);
  std::int64_t bytes = 0;
  if (whole.bias != nullptr) bytes += elements * format_bytes(whole.bias->format) + 4;
  if (!whole.multipliers.empty()) bytes += elements * 4 + 4;
  if (!whole.zero_points.empty()) bytes += elements * 4 + 4;
  return bytes;
}

std::int64_t shape_bytes(const Whole& whole, const KernelImageShape& shape) {
  const std::int64_t image = whole.dynamic ? 0 : shape.bytes_per_partition();
  return round_up(image, kVectorAlignmentBytes) +
         vector_bytes(whole, shape.groups * shape.output_channels);
}

std::int64_t cut_bytes(const Whole& whole, std::int64_t groups, std::int64_t outputs) {
  KernelImageShape shape = whole.product.image;
  shape.groups = groups;
  shape.output_channels = outputs;
  return shape_bytes(whole, shape);
}

// Groups a slice, so that a slice's input and output channels begin a channel block.
std::int64_t groups_that_fit(const Whole& whole, std::int64_t room, std::int64_t partitions) {
  const KernelImageShape& shape = whole.product.image;
  const std::int64_t both = std::gcd(std::gcd(shape.channels, shape.output_channels), partitions);
  const std::int64_t unit = partitions / both;
  std::int64_t fit = 0;
  for (std::int64_t g = unit;
       g < shape.groups && cut_bytes(whole, g, shape.output_channels) <= room; g += unit) {
    fit = g;
  }
  return fit;
}

std::vector<Cut> even_cuts(const Whole& whole, std::int64_t room, std::int64_t partitions) {
  const KernelImageShape& shape = whole.product.image;
  std::vector<Cut> cuts;
  if (cut_bytes(whole, shape.groups, shape.output_channels) <= room) {
    return {{0, shape.groups, 0, shape.output_channels}};
  }
  if (shape.groups > 1) {
    const std::int64_t step = groups_that_fit(whole, room, partitions);
    for (std::int64_t g = 0; step > 0 && g < shape.groups; g += step) {
      cuts.push_back({g, std::min(step, shape.groups - g), 0, shape.output_channels});
    }
    if (!cuts.empty()) return cuts;
  }
  // The engine's moving channels do not begin within a channel block and leave it.
  if (shape.groups > 1 && shape.channels % partitions != 0 && partitions % shape.channels != 0) {
    return {};
  }
  const std::int64_t blocks = shape.column_blocks();
  std::int64_t step = blocks;
  while (step > 0 &&
         cut_bytes(whole, 1, std::min(step * shape.columns, shape.output_channels)) > room) {
    --step;
  }
  for (std::int64_t g = 0; step > 0 && g < shape.groups; ++g) {
    for (std::int64_t o = 0; o < shape.output_channels; o += step * shape.columns) {
      cuts.push_back({g, 1, o, std::min(step * shape.columns, shape.output_channels - o)});
    }
  }
  return cuts;
}

ProductExtents extents_of(const graph::Graph& graph, const Node& node, const ChipConfig& chip) {
  ProductExtents extents;
  std::int64_t elements_bytes = 0;
  for (const graph::TensorId id : {node.inputs[0], node.outputs[0]}) {
    const graph::TensorInfo& info = graph.tensor(id);
    elements_bytes += element_count(info.dims) * format_bytes(info.format);
  }
  const Shape& dims = graph.tensor(node.outputs[0]).dims;
  if (node.kind() == NodeKind::kConv) {
    extents = {.images = dims[0], .rows = dims[2], .columns = dims[3]};
  } else {  // rows of a matrix are pixels
    extents.columns = dims[dims.size() - 2];
    extents.images = element_count(dims) / (extents.columns * dims.back());
  }
  extents.buffer_bytes = elements_bytes / extents.images / chip.state_buffer.partitions;
  return extents;
}

// Columns of a slice where `room` does not hold a block of output channels: of the halves of a block,
// which leave places for pixels side by side (arch/array_fold.h), and of equal parts, as few as
// `room` allows, those that keep the array for the shorter time. Each slice has the same passes, of
// pixels / places moving columns and of R cycles at least. At least 1, also where that does not fit.
std::int64_t columns_of_part(const Whole& whole, std::int64_t room, std::int64_t pixels) {
  const KernelImageShape& shape = whole.product.image;
  const std::int64_t outputs = shape.output_channels;
  const auto fits = [&](std::int64_t columns) {
    KernelImageShape part = shape;
    part.groups = 1;
    part.columns = part.output_channels = columns;
    return shape_bytes(whole, part) <= room;
  };
  const auto cycles = [&](std::int64_t columns) {
    const std::int64_t places = shape.columns / columns;
    return ceil_div(outputs, columns) * std::max(ceil_div(pixels, places), shape.rows);
  };
  std::int64_t half = shape.columns;
  while (half > 1 && !fits(half)) half = ceil_div(half, 2);
  std::int64_t most = shape.columns;
  while (most > half && !fits(most)) --most;
  const std::int64_t equal = ceil_div(outputs, ceil_div(outputs, most));
  return cycles(equal) < cycles(half) ? equal : half;
}

// Sets the product's shape to a part of it for as long as it lives.
class PartOfShape {
 public:
  PartOfShape(KernelImageShape& shape, const Cut& part) : shape_(shape), whole_(shape) {
    shape.groups = part.groups;
    shape.output_channels = part.outputs;
    shape.columns = part.columns;
  }
  ~PartOfShape() { shape_ = whole_; }
  PartOfShape(const PartOfShape&) = delete;
  PartOfShape& operator=(const PartOfShape&) = delete;

 private:
  KernelImageShape& shape_;
  const KernelImageShape whole_;
};

// The shares of a product, of sizes that differ by one block at most: of groups, or of the channels of
// each group where there are more shares than groups. At most one a block.
std::vector<Cut> share_parts(const KernelImageShape& shape, const KernelCut& how) {
  const std::int64_t shares = how.shares;
  std::vector<Cut> parts;
  if (shape.groups >= shares) {
    for (const RowRange& range : block_ranges(shape.groups, how.block, shares)) {
      parts.push_back({range.first, range.last - range.first, 0, shape.output_channels});
    }
    return parts;
  }
  const std::int64_t of_group = std::max<std::int64_t>(1, shares / shape.groups);
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    for (const RowRange& range : block_ranges(shape.output_channels, how.block, of_group)) {
      parts.push_back({g, 1, range.first, range.last - range.first});
    }
  }
  return parts;
}

Error no_room_for_channel(const Whole& whole, const Node& node, std::int64_t memory) {
  return {ErrorCode::kDoesNotFit,
          fmt::format("layer '{}': one output channel's kernel takes {} bytes of each "
                      "kernel memory partition, which holds {}; use a chip configuration "
                      "with neural.kernel_bytes_per_partition >= {}",
                      node.name, cut_bytes(whole, 1, 1), memory, cut_bytes(whole, 1, 1))};
}

Error no_room_for_normalisation(const Whole& whole, const Node& node, std::int64_t memory) {
  const KernelImageShape& shape = whole.product.image;
  const std::int64_t all = cut_bytes(whole, shape.groups, shape.output_channels);
  return {ErrorCode::kDoesNotFit,
          fmt::format("layer '{}': a normalisation over {} output channels, whose kernel "
                      "takes {} bytes of each kernel memory partition; all of them are held "
                      "at once in {} at most: use a chip configuration with "
                      "neural.kernel_bytes_per_partition >= {}, or build the graph for this "
                      "one",
                      node.name, whole.output_channels(), all, memory / 2, 2 * all)};
}

// Slices of parts of the sum for `outputs` output channels that take the array for the shortest time;
// the largest that leave room for the next one, or for the next three, in kernel memory.
std::optional<SliceShape> best_in_parts(const Whole& whole, std::int64_t outputs,
                                        const ProductExtents& extents, const ChipConfig& chip) {
  const KernelImageShape& shape = whole.product.image;
  const std::int64_t unit = part_channels(whole.product, whole.moving, chip);
  std::optional<SliceShape> best;
  Cycles least = 0;
  const auto consider = [&](SliceShape slice, std::int64_t room) {
    KernelImageShape part = shape;
    part.groups = 1;
    part.columns = slice.columns;
    part.output_channels = slice.outputs;
    part.channels = unit;
    const std::int64_t vectors = shape_bytes(whole, part) - part.bytes_per_partition();
    const std::int64_t units = (room - vectors) / part.bytes_per_partition();
    if (units < 1 || units * unit >= shape.channels) return;
    const std::int64_t all = ceil_div(shape.channels, unit);
    slice.channels = ceil_div(all, ceil_div(all, units)) * unit;
    if (psum_entries_of_pixel(slice.outputs, chip) > isa::psum_entries(chip)) return;
    const Cycles cycles = sliced_cycles(whole.product, extents, slice, chip);
    if (best && cycles >= least) return;
    best = slice;
    least = cycles;
  };
  const std::int64_t memory = chip.neural.kernel_bytes_per_partition;
  for (; unit > 0 && outputs > 0; outputs /= 2) {
    const std::int64_t columns = std::min<std::int64_t>(outputs, chip.neural.columns);
    for (const std::int64_t room : {memory / 4, memory / 2, memory}) {
      consider({.outputs = outputs, .columns = columns}, room);
    }
  }
  return best;
}

std::vector<Cut> cuts_in_parts(const KernelImageShape& shape, const SliceShape& slice) {
  std::vector<Cut> cuts;
  for (std::int64_t g = 0; g < shape.groups; ++g) {
    for (std::int64_t o = 0; o < shape.output_channels; o += slice.outputs) {
      for (std::int64_t c = 0; c < shape.channels; c += slice.channels) {
        cuts.push_back({.group_first = g,
                        .output_first = o,
                        .outputs = std::min(slice.outputs, shape.output_channels - o),
                        .columns = slice.columns,
                        .channel_first = c,
                        .channels = std::min(slice.channels, shape.channels - c)});
      }
    }
  }
  return cuts;
}

// Where kernel memory does not hold a block of output channels for each array with the next one behind
// it: parts of the sum in place of `cuts`, if there are none or they take longer.
void cut_sums(const Whole& whole, std::int64_t outputs, const ProductExtents& extents,
              const ChipConfig& chip, std::vector<Cut>& cuts) {
  // Anything else would not be worth the pieces that PSUM makes of the results.
  constexpr std::int64_t kWorth = 8;
  const KernelImageShape& shape = whole.product.image;
  const std::optional<SliceShape> parts = best_in_parts(whole, outputs, extents, chip);
  if (!parts) return;
  if (!cuts.empty()) {
    const SliceShape now{cuts[0].outputs, cuts[0].columns, shape.channels};
    const Cycles cycles = sliced_cycles(whole.product, extents, now, chip);
    const Cycles then = sliced_cycles(whole.product, extents, *parts, chip);
    if (then * kWorth >= cycles * (kWorth - 1)) return;
  }
  cuts = cuts_in_parts(shape, *parts);
}

// Each of `cuts` in parts of so many channels.
std::vector<Cut> cuts_of_sum(const std::vector<Cut>& cuts, std::int64_t channels,
                             std::int64_t part_channels) {
  std::vector<Cut> result;
  for (Cut cut : cuts) {
    for (std::int64_t c = 0; c < channels; c += part_channels) {
      cut.channel_first = c;
      cut.channels = std::min(part_channels, channels - c);
      result.push_back(cut);
    }
  }
  return result;
}

// The slices of one part of the product.
Result<std::vector<Cut>> cuts_of_part(Whole& whole, Cut part, const Node& node,
                                      const ChipConfig& chip, const ProductExtents& extents) {
  part.columns = std::min<std::int64_t>(chip.neural.columns, part.outputs);
  const PartOfShape narrowed(whole.product.image, part);
  KernelImageShape& shape = whole.product.image;
  const std::int64_t memory = chip.neural.kernel_bytes_per_partition;
  // At least one block of output channels for each array, where a half of the memory holds them.
  const std::int64_t of_arrays = std::min(shape.columns * chip.neural.count, shape.output_channels);
  const std::int64_t block = cut_bytes(whole, 1, of_arrays);
  const bool whole_channels = whole.product.local_response.enabled();
  const std::int64_t wanted =
      whole_channels ? memory / 2 : std::clamp(block, memory / 8, memory / 2);
  std::vector<Cut> cuts = even_cuts(whole, wanted, chip.state_buffer.partitions);
  if (cuts.empty()) {
    shape.columns = columns_of_part(whole, memory / 2, extents.rows * extents.columns);
    cuts = even_cuts(whole, memory / 2, chip.state_buffer.partitions);
  }
  if (cuts.empty()) cuts = even_cuts(whole, memory, chip.state_buffer.partitions);
  for (Cut& cut : cuts) cut.columns = shape.columns;
  // Channels of a group begin a channel block, or stay within one.
  const bool in_blocks = (shape.groups == 1 && part.group_first == 0) ||
                         shape.channels % chip.state_buffer.partitions == 0;
  if (block > memory / 2 && in_blocks) cut_sums(whole, of_arrays, extents, chip, cuts);
  if (cuts.empty()) return no_room_for_channel(whole, node, memory);
  if (whole_channels && cuts.size() != 1) return no_room_for_normalisation(whole, node, memory);
  for (Cut& cut : cuts) {
    cut.group_first += part.group_first;
    cut.output_first += part.output_first;
  }
  return cuts;
}

}  // namespace

Result<CutKernel> cut_kernel(const graph::Graph& graph, const Node& node, const ChipConfig& chip,
                             const KernelCut& how) {
  Whole whole = node.kind() == NodeKind::kConv ? whole_conv(graph, node)
                : how.swapped                  ? swapped_matmul(graph, node)
                                               : whole_matmul(graph, node);
  KernelImageShape& shape = whole.product.image;
  whole.product.output_format = graph.tensor(node.outputs[0]).format;
  whole.moving = graph.tensor(node.inputs[how.swapped ? 1 : 0]).format;
  if (node.inputs.size() > 2) {
    whole.bias = graph.tensor(node.inputs[2]).constant.get();
    whole.product.has_bias = true;
    whole.product.bias_format = whole.bias->format;
  }
  shape.rows = chip.neural.rows;
  const ProductExtents extents = extents_of(graph, node, chip);
  CutKernel result;
  for (const Cut& part : share_parts(shape, how)) {
    TESSERA_TRY(std::vector<Cut> cuts, cuts_of_part(whole, part, node, chip, extents));
    if (how.part_channels > 0) cuts = cuts_of_sum(cuts, shape.channels, how.part_channels);
    const std::int64_t first = part.group_first * shape.output_channels + part.output_first;
    result.cut.shares.push_back({first, first + part.groups * part.outputs});
    for (const Cut& cut : cuts) {
      std::vector<std::byte> image;
      KernelSlice slice = make_slice(whole, cut, image);
      const bool compress = how.compress && !whole.dynamic;
      image = stored_image(chip, std::move(image), compress, slice);
      result.images.push_back(image.empty() ? WeightBytes() : WeightBytes(std::move(image)));
      result.cut.slices.push_back(slice);
    }
  }
  return result;
}

KernelSlices place_kernel(const CutKernel& kernel, WeightRegion& weights) {
  KernelSlices result = kernel.cut;
  for (std::size_t i = 0; i < result.slices.size(); ++i) {
    const WeightBytes& image = kernel.images[i];
    if (!image.bytes().empty()) result.slices[i].weights_offset = weights.add(image);
  }
  return result;
}

}  // namespace tessera::compile

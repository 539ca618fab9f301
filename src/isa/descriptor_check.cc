#include "isa/descriptor_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "arith/microscaling.h"
#include "isa/header_operands.h"
#include "isa/planar_modes.h"
#include "isa/psum.h"

namespace tessera::isa {
namespace {

// Elements of a surface or a copy, broadcast ones counted as often as they are used.
constexpr std::int64_t kElementsMax = std::int64_t{1} << 32;
constexpr std::size_t kAxesMax = 8;  // of a copy

Error bad(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

Status require(bool condition, const char* what) {
  if (!condition) return bad(what);
  return {};
}

// Bytes [first, last) lie in the part of the memory that the network has.
Status check_region(std::int64_t first, std::int64_t last, const MemoryRange& range,
                    const char* name, const char* memory) {
  if (first == last || range.holds(first, last)) return {};
  return bad(
      fmt::format("{} takes bytes [{}, {}) of a {} partition, the network's region is "
                  "[{}, {})",
                  name, first, last, memory, range.first, range.last()));
}

Status check_surface(const BufferSurface& s, const char* name, const CheckContext& context) {
  const std::uint32_t extents[] = {s.images, s.channels, s.rows, s.columns, s.ring_rows};
  for (const std::uint32_t extent : extents) {
    if (extent == 0 || extent > kExtentMax) {
      return bad(fmt::format("{} has an extent of {}, allowed 1..{}", name, extent, kExtentMax));
    }
  }
  if (std::int64_t{s.channels} * s.rows > kElementsMax / s.columns) {
    return bad(fmt::format("{} has {} x {} x {} elements an image, allowed are {}", name,
                           s.channels, s.rows, s.columns, kElementsMax));
  }
  const std::int64_t bytes = context.chip.state_buffer.bytes_per_partition;
  if (s.block_pitch > bytes || s.row_pitch > bytes || s.column_pitch > bytes) {
    return bad(fmt::format("{} has pitches {}, {}, {}, a partition has {} bytes", name,
                           s.block_pitch, s.row_pitch, s.column_pitch, bytes));
  }
  const BufferSpan span = surface_span(s, context.chip.state_buffer.partitions);
  if (span.last > bytes) {
    return bad(fmt::format("{} spans bytes [{}, {}) of a partition, which has {}", name, span.first,
                           span.last, bytes));
  }
  if (!context.region) return {};
  return check_region(span.first, span.last, context.region->state_buffer, name, "state buffer");
}

Status check_kernel_range(std::int64_t offset, std::int64_t bytes, const char* name,
                          const CheckContext& context) {
  const std::int64_t limit = context.chip.neural.kernel_bytes_per_partition;
  if (bytes < 0 || offset + bytes > limit) {
    return bad(fmt::format("{} takes bytes [{}, {}) of a kernel memory partition, which has {}",
                           name, offset, offset + bytes, limit));
  }
  if (!context.region) return {};
  return check_region(offset, offset + bytes, context.region->kernel_memory, name, "kernel memory");
}

// A strided box of elements relative to an address.
struct DramBox {
  DramAddress address;
  std::int64_t low = 0, high = 0;  // first byte and one past the last, from the address
  bool valid = true;

  void axis(std::int64_t extent, std::int64_t stride) {
    constexpr std::int64_t kStrideMax = std::int64_t{1} << 40;
    if (extent < 1 || extent > (std::int64_t{1} << 32) || stride > kStrideMax ||
        stride < -kStrideMax ||
        (stride != 0 && extent > (std::int64_t{1} << 60) / std::abs(stride))) {
      valid = false;
      return;
    }
    (stride < 0 ? low : high) += stride * (extent - 1);
    constexpr std::int64_t kSpanMax = std::int64_t{1} << 61;
    if (high > kSpanMax || low < -kSpanMax) valid = false;
  }
};

Status check_dram(const DramBox& box, const char* name, const CheckContext& context) {
  const std::int64_t size = context.region_bytes[box.address.base];
  const auto offset = static_cast<std::int64_t>(
      std::min<std::uint64_t>(box.address.offset, std::uint64_t{1} << 61));
  if (!box.valid || offset + box.low < 0 || offset + box.high > size) {
    return bad(fmt::format("{} spans bytes [{}, {}) of DRAM region {}, which has {}", name,
                           offset + box.low, offset + box.high, static_cast<int>(box.address.base),
                           size));
  }
  return {};
}

// Channels [first, first + count) of a surface with `channels`.
Status check_channels(std::int64_t first, std::int64_t count, std::int64_t channels,
                      const char* name) {
  if (count < 1 || first + count > channels) {
    return bad(
        fmt::format("channels [{}, {}) of {}, which has {}", first, first + count, name, channels));
  }
  return {};
}

Status check_bands(const Bands& bands, const BufferSurface& output) {
  if (bands.images > output.images || bands.rows > output.rows) {
    return bad(fmt::format("{} images of {} rows, the surface has {} of {}", bands.images,
                           bands.rows, output.images, output.rows));
  }
  return {};
}

Status check_product_shape(const ProductConfig& product, const ChipConfig& chip) {
  const KernelImageShape& image = product.image;
  const std::int64_t counts[] = {
      image.groups,       image.channels,     image.output_channels,    image.taps,
      product.kernel_h,   product.kernel_w,   product.stride_h,         product.stride_w,
      product.dilation_h, product.dilation_w, product.input_dilation_h, product.input_dilation_w};
  for (const std::int64_t count : counts) {
    if (count < 1 || count > (1 << 20)) {
      return bad(fmt::format("a product extent is {}, allowed 1..{}", count, 1 << 20));
    }
  }
  const std::int64_t pads[] = {product.pad_top, product.pad_left};
  for (const std::int64_t pad : pads) {
    if (pad < -kExtentMax || pad > kExtentMax) return bad("a padding is out of range");
  }
  if (image.rows != chip.neural.rows || image.columns < 1 || image.columns > chip.neural.columns) {
    return bad(fmt::format("the kernel image is cut for {} x {}, the array has {} x {}", image.rows,
                           image.columns, chip.neural.rows, chip.neural.columns));
  }
  TESSERA_RETURN_IF_ERROR(require(!image.channel_wise || image.channels == 1,
                                  "a channel-wise product has one channel a group"));
  TESSERA_RETURN_IF_ERROR(require(product.kernel_h * product.kernel_w == image.taps,
                                  "kernel extents and taps disagree"));
  // The size of a kernel image is a product of these two, of columns and of an element's bytes.
  return require(image.groups * image.output_channels <= kExtentMax &&
                     image.channels * image.taps <= kExtentMax / 4,
                 "a product has more weights than any kernel memory");
}

// The array takes 16 bits in two halves.
bool is_array_integer(Format format) {
  return format_is_affine(format) && format_bytes(format) <= 2;
}

// Formats the array and its post-processor can take together.
Status check_product_formats(const NeuralTask& task) {
  const ProductConfig& product = task.product;
  const Format moving = task.moving.format;
  const Format stationary = product.image.format;
  if (product.matrix.kind == MatrixKind::kInteger) {
    TESSERA_RETURN_IF_ERROR(require(is_array_integer(moving) && is_array_integer(stationary),
                                    "an integer product takes operands of 8 or 16 bits"));
    const bool halves = format_bytes(moving) + format_bytes(stationary) > 2;
    TESSERA_RETURN_IF_ERROR(require(!halves || (!product.image.channel_wise && !task.dynamic),
                                    "operands of 16 bits are those of a product on the array "
                                    "whose weights are in kernel memory"));
    TESSERA_RETURN_IF_ERROR(require(!product.has_bias || product.bias_format == Format::kI32,
                                    "the bias of an integer product is i32"));
    return require(product.requantise ? format_is_integer(product.output_format) &&
                                            format_bytes(product.output_format) <= 4
                                      : product.output_format == Format::kI32,
                   "the output format of an integer product is i32, or an integer if it is "
                   "requantised");
  }
  const bool floats = format_is_vector(moving) && format_is_vector(stationary) &&
                      format_is_vector(product.output_format) &&
                      (!product.has_bias || format_is_vector(product.bias_format));
  TESSERA_RETURN_IF_ERROR(
      require(floats, "a float product takes and gives floats of at most 32 bits"));
  TESSERA_RETURN_IF_ERROR(require(!product.requantise, "a float product is not requantised"));
  if (product.matrix.kind == MatrixKind::kFloat || product.image.channel_wise) return {};
  if (product.matrix.kind == MatrixKind::kMicroscaling) {
    const std::int64_t rows = product.image.rows;
    return require(rows % arith::kMicroBlock == 0 || arith::kMicroBlock % rows == 0,
                   "blocks of Microscaling lie across passes of the array");
  }
  TESSERA_RETURN_IF_ERROR(require((moving == Format::kF16) == (stationary == Format::kF16),
                                  "block-float operands have exponents of one size"));
  const auto bits = [](int m) { return m >= 2 && m <= 15; };
  return require(product.matrix.native_dimension >= 1 &&
                     product.matrix.native_dimension <= (1 << 16) &&
                     bits(product.matrix.mantissa_bits_moving) &&
                     bits(product.matrix.mantissa_bits_stationary),
                 "block float has 2 to 15 mantissa bits");
}

// What the post-processor does behind the sums, or in place of them.
Status check_normalisation(const NeuralTask& task) {
  const ProductConfig& product = task.product;
  const LocalResponse& response = product.local_response;
  const bool plain = product.matrix.kind != MatrixKind::kInteger && !product.image.channel_wise;
  if (response.size < 0 || response.size > kLocalResponseSizeMax) {
    return bad(fmt::format("a local response normalisation over {} channels, allowed 0..{}",
                           response.size, kLocalResponseSizeMax));
  }
  TESSERA_RETURN_IF_ERROR(require(!response.enabled() || plain,
                                  "a local response normalisation behind a product that is "
                                  "integer or channel-wise"));
  if (!product.correlate) return {};
  TESSERA_RETURN_IF_ERROR(require(plain && !task.dynamic,
                                  "a normalised cross-correlation is that of a float product whose "
                                  "weights are in kernel memory, and of no channel-wise one"));
  return require(!product.has_bias && !response.enabled() &&
                     product.activation.function == UnaryFunction::kIdentity,
                 "a normalised cross-correlation has a bias or a function behind it");
}

Status check_product_memory(const NeuralTask& task, const CheckContext& context) {
  const ProductConfig& product = task.product;
  const KernelImageShape& image = product.image;
  const std::int64_t outputs = image.groups * image.output_channels;
  const auto vector_bytes = [&](std::int64_t count, std::int64_t element) {
    return ceil_div(count, image.rows) * element;
  };
  if (!task.dynamic) {
    TESSERA_RETURN_IF_ERROR(
        check_kernel_range(task.kernel_offset, image.bytes_per_partition(), "weights", context));
  }
  if (product.has_bias) {
    TESSERA_RETURN_IF_ERROR(check_kernel_range(
        task.bias_offset, vector_bytes(outputs, format_bytes(product.bias_format)), "bias",
        context));
  }
  if (product.requantise) {
    TESSERA_RETURN_IF_ERROR(
        require(task.multiplier_count == 1 || task.multiplier_count == outputs,
                "the number of multipliers is neither 1 nor that of the output channels"));
    TESSERA_RETURN_IF_ERROR(check_kernel_range(
        task.multiplier_offset, vector_bytes(task.multiplier_count, 4), "multipliers", context));
  }
  TESSERA_RETURN_IF_ERROR(
      require(task.zero_point_count <= 1 || task.zero_point_count == outputs,
              "the number of zero points is not 0, 1 or that of the output channels"));
  return check_kernel_range(task.zero_point_offset, vector_bytes(task.zero_point_count, 4),
                            "zero points", context);
}

Status check_transpose(const NeuralTask& task, const CheckContext& context) {
  const BufferSurface& in = task.moving;
  const BufferSurface& out = task.output;
  TESSERA_RETURN_IF_ERROR(check_mirror(in, out));
  TESSERA_RETURN_IF_ERROR(require(!in.broadcast_channels, "a transposition repeats a channel"));
  TESSERA_RETURN_IF_ERROR(
      check_channels(task.moving_channel_first, out.columns, in.channels, "the moving surface"));
  TESSERA_RETURN_IF_ERROR(
      check_channels(task.output_channel_first, in.columns, out.channels, "the output surface"));
  const KernelImageShape& blocks = task.product.image;
  const ChipConfig& chip = context.chip;
  const std::int64_t partitions = chip.state_buffer.partitions;
  return require(blocks.channels == partitions && blocks.output_channels == partitions &&
                     blocks.rows == chip.neural.rows && blocks.columns == chip.neural.columns,
                 "a transposition's blocks are not those of the state buffer and the array");
}

Status check_neural(const NeuralTask& task, const Bands& bands, const CheckContext& context) {
  TESSERA_RETURN_IF_ERROR(check_surface(task.moving, "the moving surface", context));
  TESSERA_RETURN_IF_ERROR(check_surface(task.output, "the output surface", context));
  TESSERA_RETURN_IF_ERROR(check_bands(bands, task.output));
  TESSERA_RETURN_IF_ERROR(
      require(task.moving.broadcast_images || bands.images <= task.moving.images,
              "more images than the moving surface has"));
  if (task.transpose) return check_transpose(task, context);
  const ProductConfig& product = task.product;
  const KernelImageShape& image = product.image;
  TESSERA_RETURN_IF_ERROR(check_product_shape(product, context.chip));
  const std::int64_t inputs = image.groups * image.channels;
  TESSERA_RETURN_IF_ERROR(check_channels(task.moving_channel_first, inputs, task.moving.channels,
                                         "the moving surface"));
  TESSERA_RETURN_IF_ERROR(check_channels(task.output_channel_first,
                                         image.groups * image.output_channels, task.output.channels,
                                         "the output surface"));
  TESSERA_RETURN_IF_ERROR(require(product.output_format == task.output.format,
                                  "the product's output format is not that of the output surface"));
  TESSERA_RETURN_IF_ERROR(check_product_formats(task));
  TESSERA_RETURN_IF_ERROR(check_normalisation(task));
  TESSERA_RETURN_IF_ERROR(check_product_memory(task, context));
  if (!task.dynamic) return {};
  TESSERA_RETURN_IF_ERROR(
      require(!image.channel_wise, "a channel-wise product has a dynamic stationary operand"));
  TESSERA_RETURN_IF_ERROR(check_surface(task.stationary, "the stationary surface", context));
  return require(image.groups == 1 && task.stationary.rows >= image.taps &&
                     task.stationary.format == image.format &&
                     task.stationary.channels >= task.stationary_channel_first + image.channels &&
                     (task.stationary_channel_first == 0 || !task.stationary.broadcast_channels) &&
                     task.stationary.columns >= image.output_channels &&
                     (task.stationary.broadcast_images || bands.images <= task.stationary.images),
                 "the stationary surface is smaller than the product");
}

// A channel-wise product on the planar engine: a lane filters a channel with the taps that lie in its own
// partition of kernel memory; the channels lie in those partitions too, or pass the rotator in front of
// the lanes, which takes those of one block.
Status check_lane_filter(const NeuralTask& task, const CheckContext& context) {
  const ProductConfig& product = task.product;
  const KernelImageShape& image = product.image;
  const std::int64_t partitions = context.chip.state_buffer.partitions;
  TESSERA_RETURN_IF_ERROR(
      require(image.channel_wise && !task.transpose && !task.dynamic && image.output_channels == 1,
              "the planar engine takes channel-wise products of one output a channel only"));
  const std::int64_t first = task.moving_channel_first % partitions;
  TESSERA_RETURN_IF_ERROR(
      require(image.rows == partitions && (first == 0 || first + image.groups <= partitions),
              "channels and their taps lie in different partitions"));
  return check_window_extents((product.kernel_h - 1) * product.dilation_h + 1,
                              (product.kernel_w - 1) * product.dilation_w + 1, context.chip.planar);
}

// Accumulators stand for results one by one, and lie inside the buffer.
Status check_parts(const PlanarTask& task, const CheckContext& context) {
  if (!task.in_parts()) {
    return require(task.accumulator_offset == 0, "accumulators of a task that has none");
  }
  TESSERA_RETURN_IF_ERROR(require(planar_comes_in_parts(task),
                                  "only poolings and reductions come in parts, and no median"));
  const BufferSurface& out = task.output;
  const std::int64_t most = context.chip.state_buffer.bytes_per_partition;
  if (std::int64_t{out.images} * out.rows > most ||
      std::int64_t{out.images} * out.rows * out.columns > most) {
    return bad("more accumulators than a partition has bytes");
  }
  return check_surface(accumulator_surface(task), "the accumulators", context);
}

// Results that begin beyond the first partition end inside the buffer.
Status check_results_begin(const PlanarTask& task, const CheckContext& context) {
  if (task.output_channel_first == 0) return {};
  TESSERA_RETURN_IF_ERROR(require(
      task.mode != PlanarMode::kTranspose && !task.in_parts() && !task.output.broadcast_channels,
      "results of a transposition, of parts or of one channel for all begin in the first "
      "partition"));
  if (task.output_channel_first > kExtentMax) {
    return bad(fmt::format("results begin at channel {}, allowed are 0..{}",
                           task.output_channel_first, kExtentMax));
  }
  return check_surface(surface_of_results(task), "the output surface", context);
}

Status check_planar(const PlanarTask& task, const Bands& bands, const CheckContext& context) {
  const int inputs = planar_inputs(task);
  TESSERA_RETURN_IF_ERROR(
      require(task.input_count == inputs, "the number of inputs does not fit the mode"));
  TESSERA_RETURN_IF_ERROR(check_surface(task.output, "the output surface", context));
  TESSERA_RETURN_IF_ERROR(check_results_begin(task, context));
  TESSERA_RETURN_IF_ERROR(check_bands(bands, task.output));
  for (int i = 0; i < inputs; ++i) {
    const BufferSurface& in = task.inputs[i];
    TESSERA_RETURN_IF_ERROR(check_surface(in, "an input surface", context));
    TESSERA_RETURN_IF_ERROR(require(in.broadcast_images || bands.images <= in.images,
                                    "more images than an input surface has"));
    TESSERA_RETURN_IF_ERROR(check_planar_input(task, i));
  }
  if (task.mode == PlanarMode::kTranspose) return {};  // what a task has besides means nothing
  TESSERA_RETURN_IF_ERROR(check_planar_converters(task));
  TESSERA_RETURN_IF_ERROR(check_parts(task, context));
  return check_planar_extents(task, context.chip.planar);
}

Status check_transfer(const TransferTask& task, const Bands& bands, const CheckContext& context) {
  TESSERA_RETURN_IF_ERROR(check_surface(task.buffer, "the buffer surface", context));
  TESSERA_RETURN_IF_ERROR(check_bands(bands, task.buffer));
  TESSERA_RETURN_IF_ERROR(check_channels(task.channel_first, task.channel_count,
                                         task.buffer.channels, "the buffer surface"));
  TESSERA_RETURN_IF_ERROR(require(!task.buffer.broadcast_channels || task.channel_count == 1,
                                  "several channels of a surface that has one for all"));
  DramBox box{.address = task.dram.address, .high = format_bytes(task.buffer.format)};
  box.axis(bands.images, task.dram.strides[0]);
  box.axis(task.channel_count, task.dram.strides[1]);
  box.axis(bands.rows, task.dram.strides[2]);
  box.axis(task.buffer.columns, task.dram.strides[3]);
  return check_dram(box, "the transfer", context);
}

Status check_copy(const CopyTask& task, const Bands& bands, const CheckContext& context) {
  const std::size_t axes = task.extents.size();
  TESSERA_RETURN_IF_ERROR(require(axes >= 1 && axes <= kAxesMax, "a copy has 1 to 8 axes"));
  TESSERA_RETURN_IF_ERROR(require(
      task.destination_strides.size() == axes && (task.fill || task.source_strides.size() == axes),
      "extents and strides differ in number"));
  TESSERA_RETURN_IF_ERROR(require(task.element_bytes == 1 || task.element_bytes == 2 ||
                                      task.element_bytes == 4 || task.element_bytes == 8,
                                  "an element has 1, 2, 4 or 8 bytes"));
  TESSERA_RETURN_IF_ERROR(require(bands.images == 1 && bands.rows == task.extents[0],
                                  "the bands of a copy run over its first extent"));
  std::int64_t elements = 1;
  for (const std::int64_t extent : task.extents) {
    if (extent < 1 || extent > kElementsMax / elements)
      return bad("a copy's extent is out of range");
    elements *= extent;
  }
  DramBox to{.address = task.destination, .high = task.element_bytes};
  DramBox from{.address = task.source, .high = task.element_bytes};
  for (std::size_t i = 0; i < axes; ++i) {
    to.axis(task.extents[i], task.destination_strides[i]);
    if (!task.fill) from.axis(task.extents[i], task.source_strides[i]);
  }
  TESSERA_RETURN_IF_ERROR(check_dram(to, "the copy's destination", context));
  if (task.fill) return {};
  return check_dram(from, "the copy's source", context);
}

Status check_kernel(const KernelTask& task, const CheckContext& context) {
  const std::int64_t rows = context.chip.neural.rows;
  if (task.partitions < 1 || task.partitions > rows || task.bytes_per_partition == 0) {
    return bad(fmt::format("{} kernel partitions of {} bytes, the array has {} rows",
                           task.partitions, task.bytes_per_partition, rows));
  }
  TESSERA_RETURN_IF_ERROR(
      check_kernel_range(task.kernel_offset, task.bytes_per_partition, "the kernel", context));
  if (task.stream.compressed()) {
    TESSERA_RETURN_IF_ERROR(
        check_kernel_stream_fields(task.stream, task.partitions, task.bytes_per_partition));
    // It is checked before the task runs, so nothing may change it meanwhile.
    TESSERA_RETURN_IF_ERROR(require(task.source.base == BaseIndex::kWeights,
                                    "a compressed kernel outside the weights"));
    TESSERA_RETURN_IF_ERROR(
        require(task.dram_pitch == 0, "a compressed kernel is one run, its pitch is 0"));
    const DramBox stream{.address = task.source, .high = task.stored_bytes()};
    return check_dram(stream, "the kernel's stream", context);
  }
  TESSERA_RETURN_IF_ERROR(require(task.stream == KernelStream{},
                                  "a kernel that is not compressed has fields of a stream"));
  DramBox box{.address = task.source, .high = task.bytes_per_partition};
  box.axis(task.partitions, static_cast<std::int64_t>(
                                std::min<std::uint64_t>(task.dram_pitch, std::uint64_t{1} << 62)));
  return check_dram(box, "the kernel's source", context);
}

// A matrix that comes as a message.
Status check_message_matrix(const MessageTask& task, const CheckContext& context) {
  const KernelImageShape& image = task.image;
  const ChipConfig& chip = context.chip;
  if (image.rows != chip.neural.rows || image.columns < 1 || image.columns > chip.neural.columns) {
    return bad(fmt::format("the matrix is cut for {} x {}, the array has {} x {}", image.rows,
                           image.columns, chip.neural.rows, chip.neural.columns));
  }
  for (const std::int64_t extent : {image.channels, image.output_channels}) {
    if (extent < 1 || extent > (1 << 20)) {
      return bad(fmt::format("a side of the matrix is {}, allowed 1..{}", extent, 1 << 20));
    }
  }
  TESSERA_RETURN_IF_ERROR(
      require(image.groups == 1 && image.taps == 1 && !image.channel_wise &&
                  format_is_vector(image.format) && image.cut == BlockCut::kChannel,
              "a message's matrix has one group, no window and a float format"));
  TESSERA_RETURN_IF_ERROR(
      check_kernel_range(task.kernel_offset, image.bytes_per_partition(), "the matrix", context));
  return check_dram({.address = task.transfer.dram.address, .high = task.matrix_bytes()},
                    "the message", context);
}

Status check_message(const TaskDescriptor& descriptor, const MessageTask& task,
                     const CheckContext& context) {
  const bool in = descriptor.engine == EngineKind::kMessageIn;
  if (task.queue >= kMessageQueuesMax) {
    return bad(fmt::format("queue {}, allowed 0..{}", task.queue, kMessageQueuesMax - 1));
  }
  TESSERA_RETURN_IF_ERROR(
      require(task.transfer.dram.address.base == (in ? BaseIndex::kInput : BaseIndex::kOutput),
              in ? "messages come in from the region of inputs only"
                 : "messages go out to the region of outputs only"));
  if (task.kind == MessageKind::kVector) {
    return check_transfer(task.transfer, descriptor.bands, context);
  }
  TESSERA_RETURN_IF_ERROR(require(in, "a matrix goes out; only vectors do"));
  TESSERA_RETURN_IF_ERROR(require(descriptor.steps() == 1, "a matrix is one message, in one step"));
  return check_message_matrix(task, context);
}

// The weights belong to the package.
bool writes_weights(const TaskDescriptor& task) {
  if (const auto* transfer = std::get_if<TransferTask>(&task.config)) {
    return task.engine == EngineKind::kStore && transfer->dram.address.base == BaseIndex::kWeights;
  }
  const auto* copy = std::get_if<CopyTask>(&task.config);
  return copy != nullptr && copy->destination.base == BaseIndex::kWeights;
}

Status check_line(const Dependency& dependency) {
  constexpr std::int64_t kOffsetMax = std::int64_t{1} << 61;
  if (dependency.denominator < 1 || dependency.offset > kOffsetMax ||
      dependency.offset < -kOffsetMax) {
    return bad(fmt::format("dependency on task {} has denominator {} and offset {}",
                           dependency.task, dependency.denominator, dependency.offset));
  }
  return {};
}

Status check_remote(const TaskDescriptor& task, const CheckContext& context) {
  for (const RemoteDependency& remote : task.remote) {
    if (remote.core >= context.cores || remote.core == context.core) {
      return bad(fmt::format("core {} waits for core {}; the program has {} cores", context.core,
                             remote.core, context.cores));
    }
    TESSERA_RETURN_IF_ERROR(check_line(remote.on));
  }
  return {};
}

// Whether the task reads or writes DRAM.
bool reads_dram(const TaskDescriptor& task) {
  const auto* copy = std::get_if<CopyTask>(&task.config);
  return task.engine == EngineKind::kLoad || task.engine == EngineKind::kKernel ||
         (copy != nullptr && !copy->fill);
}
bool writes_dram(const TaskDescriptor& task) { return task.engine == EngineKind::kStore; }

Status check_memory(std::uint8_t memory, bool used, const char* what, const CheckContext& context) {
  if (memory == TaskMemories::kOwn) return {};
  if (!used) return bad(fmt::format("has a memory for its {}, and no {} in DRAM", what, what));
  if (memory < context.memories) return {};
  return bad(
      fmt::format("its {} lies in memory {}, allowed 0 to {}", what, memory, context.memories - 1));
}

Status check_share(const TaskDescriptor& task, const CheckContext& context) {
  const LoadShare& share = task.header.share;
  if (share == LoadShare{}) return {};
  if (task.engine != EngineKind::kLoad && task.engine != EngineKind::kKernel) {
    return bad(fmt::format("has share {}, and is no load", share.number));
  }
  const bool beyond = context.cores < 64 && share.cores >> context.cores != 0;
  if (share.number == 0 || beyond || (share.cores >> context.core & 1) == 0) {
    return bad(
        fmt::format("share {} of cores {:#x}: a share has a number from 1 on, and cores of "
                    "the program's {}, of which this is core {}",
                    share.number, share.cores, context.cores, context.core));
  }
  return {};
}

Status check_card(const TaskDescriptor& task, const CheckContext& context) {
  const TaskMemories& memories = task.header.memories;
  TESSERA_RETURN_IF_ERROR(check_memory(memories.source, reads_dram(task), "source", context));
  TESSERA_RETURN_IF_ERROR(
      check_memory(memories.destination, writes_dram(task), "destination", context));
  return check_share(task, context);
}

Status check_dependencies(const TaskDescriptor& task, TaskId task_count) {
  for (const Dependency& dependency : task.dependencies) {
    if (dependency.task >= task_count) {
      return bad(fmt::format("depends on task {} of {}", dependency.task, task_count));
    }
    TESSERA_RETURN_IF_ERROR(check_line(dependency));
    if (dependency.task != task.id) continue;
    const std::int64_t step = first_step_waiting_for_itself(dependency, task.steps());
    if (step == 0) continue;
    return bad(fmt::format(
        "waits for itself: its step {} asks for {} of its own steps, when {} can be finished; a "
        "task may wait for its own earlier steps only",
        step, steps_needed(dependency, step, task.steps()), step - 1));
  }
  return {};
}

bool engine_takes(EngineKind engine, const TaskConfig& config) {
  switch (engine) {
    case EngineKind::kNeural:
      return std::holds_alternative<NeuralTask>(config);
    case EngineKind::kPlanar:
      return std::holds_alternative<PlanarTask>(config) ||
             std::holds_alternative<NeuralTask>(config);
    case EngineKind::kLoad:
      return std::holds_alternative<TransferTask>(config);
    case EngineKind::kStore:
      return std::holds_alternative<TransferTask>(config) ||
             std::holds_alternative<CopyTask>(config);
    case EngineKind::kMessageIn:
    case EngineKind::kMessageOut:
      return std::holds_alternative<MessageTask>(config);
    case EngineKind::kKernel:
      break;
  }
  return std::holds_alternative<KernelTask>(config);
}

// Engines of a kind that the core has several of.
std::int64_t engines_of(EngineKind engine, const ChipConfig& chip) {
  if (engine == EngineKind::kNeural) return chip.neural.count;
  if (is_message_engine(engine)) return chip.message.ports;
  return engine == EngineKind::kPlanar ? chip.planar.count : 1;
}

// What a header asks for has a meaning for the task.
Status check_header(const TaskDescriptor& task) {
  const bool computes = task.engine == EngineKind::kNeural || task.engine == EngineKind::kPlanar;
  TESSERA_RETURN_IF_ERROR(
      require(computes || task.header.traps == 0,
              "traps of a task that computes no values; neural and planar tasks have them"));
  return check_operands(task);
}

Status check_engines(const TaskDescriptor& task, const ChipConfig& chip) {
  const EngineSet& set = task.header.engines;
  const std::int64_t engines = engines_of(task.engine, chip);
  if (engines == 0) {
    return bad(fmt::format("'{}' has no message processors (message.ports is 0)", chip.name));
  }
  if (set.first + set.count > engines) {
    return bad(fmt::format("runs on engines {} to {} of its kind, the core has {}", set.first,
                           set.first + set.count - 1, engines));
  }
  if (is_message_engine(task.engine) && (set.all() ? engines : set.count) != 1) {
    return bad(fmt::format("names {} ports; a message goes through one of the {}",
                           set.all() ? engines : set.count, engines));
  }
  const bool shared = task.engine == EngineKind::kNeural || task.engine == EngineKind::kPlanar;
  const auto* product = std::get_if<NeuralTask>(&task.config);
  const std::int64_t sharing = set.all() ? engines : set.count;
  const bool across = product != nullptr && product->product.local_response.enabled();
  TESSERA_RETURN_IF_ERROR(require(
      !across || sharing == 1 || task.header.sharing != Sharing::kBroadcast,
      "engines that share output channels normalise over them; such a task is shared by unicast"));
  return require(shared || task.header.sharing == Sharing::kAutomatic,
                 "only neural and planar engines share a task");
}

}  // namespace

BufferSpan surface_span(const BufferSurface& surface, std::int64_t partitions) {
  const std::int64_t blocks =
      surface.broadcast_channels ? 1 : ceil_div(surface.channels, partitions);
  const std::int64_t linear_rows = std::int64_t{surface.images} * surface.rows;
  const std::int64_t rows = std::min<std::int64_t>(linear_rows, surface.ring_rows);
  const std::int64_t first = surface.offset;
  return {first, first + (blocks - 1) * surface.block_pitch + (rows - 1) * surface.row_pitch +
                     (std::int64_t{surface.columns} - 1) * surface.column_pitch +
                     format_bytes(surface.format)};
}

Status check_kernel_bytes(const TaskDescriptor& task, std::span<const std::byte> weights) {
  const auto* kernel = std::get_if<KernelTask>(&task.config);
  if (kernel == nullptr || !kernel->stream.compressed()) return {};
  const std::uint64_t offset = kernel->source.offset;
  const std::uint64_t bytes = kernel->stream.stored_bytes;
  if (offset > weights.size() || bytes > weights.size() - offset) {
    return bad(fmt::format("the kernel's stream has {} bytes at {} of the weights, which have {}",
                           bytes, offset, weights.size()));
  }
  return check_kernel_stream(
      kernel->stream, weights.subspan(offset, bytes),
      {.partitions = kernel->partitions, .bytes = kernel->bytes_per_partition});
}

Status check_descriptor(const TaskDescriptor& task, const CheckContext& context) {
  if (task.id != context.expected) {
    return bad(fmt::format("the descriptor names task {}", task.id));
  }
  if (!engine_takes(task.engine, task.config)) {
    return bad(fmt::format("the {} engine cannot run configuration kind {}",
                           engine_kind_name(task.engine), task.config.index()));
  }
  if (writes_weights(task)) return bad("writes the weights");
  const Bands& bands = task.bands;
  if (bands.images == 0 || bands.rows == 0 || bands.rows_per_step == 0 ||
      bands.bands() > kStepsMax / bands.images) {
    return bad(fmt::format("{} images of {} rows, {} a step: allowed are 1 to {} steps",
                           bands.images, bands.rows, bands.rows_per_step, kStepsMax));
  }
  TESSERA_RETURN_IF_ERROR(check_dependencies(task, context.task_count));
  TESSERA_RETURN_IF_ERROR(check_remote(task, context));
  TESSERA_RETURN_IF_ERROR(check_engines(task, context.chip));
  TESSERA_RETURN_IF_ERROR(check_header(task));
  TESSERA_RETURN_IF_ERROR(check_card(task, context));
  return std::visit(
      [&](const auto& config) -> Status {
        using T = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<T, NeuralTask>) {
          TESSERA_RETURN_IF_ERROR(check_neural(config, task.bands, context));
          TESSERA_RETURN_IF_ERROR(check_psum(task, context.chip));
          return task.engine == EngineKind::kPlanar ? check_lane_filter(config, context) : Status{};
        } else if constexpr (std::is_same_v<T, PlanarTask>) {
          return check_planar(config, task.bands, context);
        } else if constexpr (std::is_same_v<T, TransferTask>) {
          return check_transfer(config, task.bands, context);
        } else if constexpr (std::is_same_v<T, CopyTask>) {
          return check_copy(config, task.bands, context);
        } else if constexpr (std::is_same_v<T, MessageTask>) {
          return check_message(task, config, context);
        } else {
          return task.steps() == 1 ? check_kernel(config, context)
                                   : Status(bad("a kernel task has one step"));
        }
      },
      task.config);
}

}  // namespace tessera::isa

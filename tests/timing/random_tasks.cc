#include "random_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "isa/task_list.h"

namespace tessera::timing {

using isa::Bands;
using isa::BaseIndex;
using isa::BufferSurface;
using isa::CopyTask;
using isa::EngineKind;
using isa::KernelTask;
using isa::NeuralTask;
using isa::PlanarTask;
using isa::TransferTask;

namespace {

constexpr std::int64_t kDramBytesMax = std::int64_t{64} << 20;  // of one region
constexpr std::int64_t kAccumulatorBytes = 32;

constexpr std::array<std::string_view, kTaskKindCount> kNames = {"product",
                                                                 "im2col product",
                                                                 "channel-wise product",
                                                                 "grouped product",
                                                                 "transposed product",
                                                                 "dynamic product",
                                                                 "microscaling product",
                                                                 "transpose on the array",
                                                                 "filter on lanes",
                                                                 "pooling",
                                                                 "element-wise",
                                                                 "element-wise of two",
                                                                 "reduction",
                                                                 "transpose on the planar engine",
                                                                 "pooling in parts",
                                                                 "dense load",
                                                                 "strided load",
                                                                 "scattered load",
                                                                 "broadcast load",
                                                                 "dense store",
                                                                 "strided store",
                                                                 "scattered store",
                                                                 "copy",
                                                                 "fill",
                                                                 "kernel",
                                                                 "palette kernel",
                                                                 "mask kernel",
                                                                 "message in",
                                                                 "message out",
                                                                 "message matrix"};

std::uint32_t narrow(std::int64_t value) { return static_cast<std::uint32_t>(value); }

std::string text_of(const BufferSurface& s) {
  return fmt::format("[{}, {}, {}, {}] {}", s.images, s.channels, s.rows, s.columns,
                     format_name(s.format));
}

}  // namespace

std::string_view task_kind_name(TaskKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::int64_t RandomTasks::pick(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, std::max(low, high))(random_);
}

std::int64_t RandomTasks::log_uniform(std::int64_t low, std::int64_t high) {
  const double least = std::log(static_cast<double>(low));
  const double most = std::log(static_cast<double>(std::max(low, high)) + 0.999);
  const double value = std::exp(std::uniform_real_distribution<double>(least, most)(random_));
  return std::clamp(static_cast<std::int64_t>(value), low, std::max(low, high));
}

std::int64_t RandomTasks::bytes_of(const Extents& e) const {
  return ceil_div(e.channels, chip_.state_buffer.partitions) * e.images * e.rows * e.columns *
         format_bytes(e.format);
}

void RandomTasks::shrink(Extents& e) const {
  const std::int64_t room = chip_.state_buffer.bytes_per_partition / 2;
  while (bytes_of(e) > room) {
    if (e.images > 1) {
      e.images = 1;
      continue;
    }
    const std::int64_t blocks = ceil_div(e.channels, chip_.state_buffer.partitions);
    std::int64_t& most = blocks >= e.rows && blocks >= e.columns ? e.channels
                         : e.rows >= e.columns                   ? e.rows
                                                                 : e.columns;
    most = ceil_div(most, 2);
  }
}

BufferSurface RandomTasks::surface(const Extents& e, std::int64_t half) const {
  const std::int64_t element = format_bytes(e.format);
  BufferSurface s;
  s.offset = narrow(half * (chip_.state_buffer.bytes_per_partition / 2 / 64 * 64));
  s.format = e.format;
  s.images = narrow(e.images);
  s.channels = narrow(e.channels);
  s.rows = narrow(e.rows);
  s.columns = narrow(e.columns);
  s.column_pitch = narrow(element);
  s.row_pitch = narrow(e.columns * element);
  s.ring_rows = narrow(e.images * e.rows);
  s.block_pitch = e.channels > chip_.state_buffer.partitions ? s.row_pitch * s.ring_rows : 0;
  return s;
}

Bands RandomTasks::bands(const BufferSurface& output) {
  const std::int64_t least = ceil_div(output.rows, 64);  // as the compiler: few steps
  return {output.images, output.rows, narrow(log_uniform(least, output.rows))};
}

Activation RandomTasks::activation() {
  static constexpr std::array kFunctions = {UnaryFunction::kIdentity, UnaryFunction::kRelu,
                                            UnaryFunction::kSigmoid};
  return {kFunctions[static_cast<std::size_t>(pick(0, 2))], 0, 0};
}

// Input extents, kernel and groups.
void RandomTasks::shape_product(TaskKind kind, Extents& moving, ProductConfig& product) {
  KernelImageShape& image = product.image;
  image.rows = chip_.neural.rows;
  image.columns = chip_.neural.columns;
  product.kernel_h = std::array{1, 1, 3, 5}[static_cast<std::size_t>(pick(0, 3))];
  product.kernel_w = one_in(4) ? pick(1, 7) : product.kernel_h;
  product.stride_h = pick(1, 2);
  product.stride_w = one_in(4) ? pick(1, 3) : product.stride_h;
  image.channels = log_uniform(1, 1024);
  image.output_channels = log_uniform(1, 1024);
  if (kind == TaskKind::kIm2colProduct) {
    image.cut = BlockCut::kIm2col;
    image.channels = log_uniform(1, 16);
    product.kernel_h = product.kernel_w = pick(2, 7);
  }
  if (kind == TaskKind::kChannelWiseProduct || kind == TaskKind::kLaneFilter) {
    image.channel_wise = true;
    image.groups = image.channels;
    image.channels = image.output_channels = 1;
    if (kind == TaskKind::kLaneFilter) image.rows = chip_.state_buffer.partitions;
  }
  if (kind == TaskKind::kGroupedProduct) {
    image.groups = log_uniform(2, 32);
    image.channels = log_uniform(1, 128);
    image.output_channels = log_uniform(1, 128);
  }
  if (kind == TaskKind::kTransposedProduct) {
    product.input_dilation_h = product.input_dilation_w = pick(2, 3);
    product.stride_h = product.stride_w = 1;
    product.kernel_h = product.kernel_w = pick(2, 5);
  }
  image.taps = product.kernel_h * product.kernel_w;
  while (image.bytes_per_partition() > chip_.neural.kernel_bytes_per_partition) {
    std::int64_t& most = image.output_channels > 1 ? image.output_channels
                         : image.channels > 1      ? image.channels
                                                   : image.groups;
    most = ceil_div(most, 2);
  }
  moving.channels = image.groups * image.channels;
  moving.rows = log_uniform(product.kernel_h, 256);
  moving.columns = log_uniform(product.kernel_w, 256);
}

void RandomTasks::choose_formats(TaskKind kind, Extents& moving, ProductConfig& product) {
  const Format vector = chip_.formats.vector;
  if (kind == TaskKind::kMicroscalingProduct) {
    product.matrix = {};
    product.matrix.kind = MatrixKind::kMicroscaling;
  } else if (one_in(2)) {
    product.matrix = {};
    product.matrix.kind = MatrixKind::kInteger;
    moving.format = product.image.format = Format::kI8;
    product.output_format = Format::kI32;
    product.bias_format = Format::kI32;
    return;
  } else {
    product.matrix = {};
    product.matrix.kind = MatrixKind::kFloat;
  }
  moving.format = product.image.format = product.output_format = product.bias_format = vector;
}

RandomTasks::Made RandomTasks::product(TaskKind kind) {
  if (kind == TaskKind::kDynamicProduct) return dynamic_product();
  NeuralTask task;
  Extents moving;
  choose_formats(kind, moving, task.product);
  shape_product(kind, moving, task.product);
  ProductConfig& product = task.product;
  product.activation = activation();
  const bool same = one_in(2);
  Extents output{.images = 1, .format = product.output_format};
  // Smaller inputs until the output fits too.
  while (true) {
    shrink(moving);
    moving.channels = product.image.groups * product.image.channels;
    const auto extent = [&](std::int64_t in, std::int64_t kernel, std::int64_t stride,
                            std::int64_t dilation, std::int64_t& pad) {
      const std::int64_t spread = (in - 1) * dilation + 1;
      const std::int64_t both = dilation > 1 ? 2 * (kernel - 1) : same ? kernel - 1 : 0;
      pad = both / 2;
      return (spread + both - kernel) / stride + 1;
    };
    output.rows = extent(moving.rows, product.kernel_h, product.stride_h, product.input_dilation_h,
                         product.pad_top);
    output.columns = extent(moving.columns, product.kernel_w, product.stride_w,
                            product.input_dilation_w, product.pad_left);
    output.channels = product.image.groups * product.image.output_channels;
    const std::int64_t room = chip_.state_buffer.bytes_per_partition / 2;
    const bool in_fits = bytes_of(moving) <= room;
    if (in_fits && bytes_of(output) <= room && output.rows > 0 && output.columns > 0) break;
    if (moving.rows <= product.kernel_h && moving.columns <= product.kernel_w) {
      if (product.image.output_channels > 1) {
        product.image.output_channels = ceil_div(product.image.output_channels, 2);
      } else {
        product.image.groups = std::max<std::int64_t>(1, product.image.groups / 2);
        product.image.channels = std::max<std::int64_t>(1, product.image.channels / 2);
      }
      moving.rows = product.kernel_h;
      moving.columns = product.kernel_w;
    } else {
      moving.rows = std::max(product.kernel_h, moving.rows / 2);
      moving.columns = std::max(product.kernel_w, moving.columns * 2 / 3);
    }
  }
  task.moving = surface(moving, 0);
  task.output = surface(output, 1);
  const EngineKind engine =
      kind == TaskKind::kLaneFilter ? EngineKind::kPlanar : EngineKind::kNeural;
  const std::string shape =
      fmt::format("{} to {}, {} groups, kernel {} x {}, stride {} x {}", text_of(task.moving),
                  text_of(task.output), product.image.groups, product.kernel_h, product.kernel_w,
                  product.stride_h, product.stride_w);
  const Bands steps = bands(task.output);
  return {engine, task, steps, {}, shape};
}

RandomTasks::Made RandomTasks::dynamic_product() {
  NeuralTask task;
  task.dynamic = true;
  Extents moving{
      .channels = log_uniform(1, 1024), .rows = log_uniform(1, 64), .columns = log_uniform(1, 256)};
  choose_formats(TaskKind::kDynamicProduct, moving, task.product);
  shrink(moving);
  while (bytes_of(moving) > chip_.state_buffer.bytes_per_partition / 4) {
    moving.rows = ceil_div(moving.rows, 2);
    if (moving.rows == 1) moving.columns = ceil_div(moving.columns, 2);
  }
  Extents stationary{
      .channels = moving.channels, .columns = log_uniform(1, 1024), .format = moving.format};
  Extents output{
      .rows = moving.rows, .columns = moving.columns, .format = task.product.output_format};
  while (bytes_of(stationary) > chip_.state_buffer.bytes_per_partition / 4) stationary.columns /= 2;
  output.channels = stationary.columns;
  while (bytes_of(output) > chip_.state_buffer.bytes_per_partition / 2) {
    output.channels = stationary.columns = ceil_div(stationary.columns, 2);
    if (output.channels > 1) continue;
    output.rows = moving.rows = ceil_div(moving.rows, 2);
    output.columns = moving.columns = ceil_div(moving.columns, 2);
  }
  ProductConfig& product = task.product;
  product.image.rows = chip_.neural.rows;
  product.image.columns = chip_.neural.columns;
  product.image.channels = moving.channels;
  product.image.output_channels = output.channels;
  product.activation = activation();
  task.moving = surface(moving, 0);
  task.stationary = surface(stationary, 0);
  task.output = surface(output, 1);
  const std::string shape = fmt::format("{} by {}", text_of(task.moving), text_of(task.stationary));
  const Bands steps = bands(task.output);
  return {EngineKind::kNeural, task, steps, {}, shape};
}

RandomTasks::Made RandomTasks::transpose(bool array) {
  Extents from{.channels = log_uniform(1, 1024),
               .rows = log_uniform(1, 64),
               .columns = log_uniform(1, 1024)};
  if (one_in(3)) from.format = Format::kI8;
  Extents to = from;
  while (true) {
    shrink(from);
    to = from;
    std::swap(to.channels, to.columns);
    if (bytes_of(to) <= chip_.state_buffer.bytes_per_partition / 2) break;
    (from.rows > 1 ? from.rows : from.channels > 1 ? from.channels : from.columns) /= 2;
  }
  if (!array) {
    PlanarTask task;
    task.mode = isa::PlanarMode::kTranspose;
    task.inputs[0] = surface(from, 0);
    task.output = surface(to, 1);
    const Bands steps = bands(task.output);
    return {EngineKind::kPlanar, task, steps, {}, text_of(task.inputs[0])};
  }
  NeuralTask task;
  task.transpose = true;
  KernelImageShape& blocks = task.product.image;
  blocks.channels = blocks.output_channels = chip_.state_buffer.partitions;
  blocks.rows = chip_.neural.rows;
  blocks.columns = chip_.neural.columns;
  task.moving = surface(from, 0);
  task.output = surface(to, 1);
  const Bands steps = bands(task.output);
  return {EngineKind::kNeural, task, steps, {}, text_of(task.moving)};
}

RandomTasks::Made RandomTasks::pooling(bool in_parts) {
  PlanarTask task;
  task.mode = isa::PlanarMode::kPooling;
  task.pool.function = one_in(2) ? PoolFunction::kAverage : PoolFunction::kMaximum;
  task.pool.window_h = pick(1, 5);
  task.pool.window_w = pick(1, 5);
  task.pool.stride_h = pick(1, 2);
  task.pool.stride_w = pick(1, 2);
  Extents in{.channels = log_uniform(1, 1024),
             .rows = log_uniform(task.pool.window_h, 256),
             .columns = log_uniform(task.pool.window_w, 256)};
  if (in_parts) {  // accumulators of 32 bytes lie behind the input
    in.rows = log_uniform(task.pool.window_h, 24);
    in.columns = log_uniform(task.pool.window_w, 24);
    in.channels = std::min<std::int64_t>(in.channels, chip_.state_buffer.partitions);
  }
  shrink(in);
  in.rows = std::max(in.rows, task.pool.window_h);
  in.columns = std::max(in.columns, task.pool.window_w);
  while (bytes_of(in) > chip_.state_buffer.bytes_per_partition / 2) {
    in.channels = ceil_div(in.channels, 2);
  }
  Extents out = in;
  const auto size_output = [&] {
    out.rows = (in.rows - task.pool.window_h) / task.pool.stride_h + 1;
    out.columns = (in.columns - task.pool.window_w) / task.pool.stride_w + 1;
  };
  size_output();
  while (in_parts &&
         out.rows * out.columns * kAccumulatorBytes > chip_.state_buffer.bytes_per_partition / 2) {
    in.rows = std::max(task.pool.window_h, in.rows / 2);
    in.columns = std::max(task.pool.window_w, in.columns / 2);
    size_output();
  }
  task.inputs[0] = surface(in, 0);
  task.output = surface(out, 1);
  if (in_parts) {
    task.keeps = one_in(2);
    task.continues = !task.keeps || one_in(2);
    task.accumulator_offset = task.output.offset;
  }
  const Bands steps = bands(task.output);
  return {EngineKind::kPlanar,
          task,
          steps,
          {},
          fmt::format("{} to {}", text_of(task.inputs[0]), text_of(task.output))};
}

RandomTasks::Made RandomTasks::elementwise(bool two) {
  PlanarTask task;
  Extents extents{.images = pick(1, 2),
                  .channels = log_uniform(1, 2048),
                  .rows = log_uniform(1, 512),
                  .columns = log_uniform(1, 512)};
  if (one_in(4)) extents.format = Format::kF32;
  shrink(extents);
  task.elementwise.activation = activation();
  task.inputs[0] = surface(extents, 0);
  task.output = surface(extents, 1);
  if (two) {
    task.elementwise.binary = true;
    task.elementwise.function = one_in(3) ? BinaryFunction::kDivide : BinaryFunction::kAdd;
    task.inputs[1] = task.inputs[0];
    task.input_count = 2;
  }
  const Bands steps = bands(task.output);
  return {EngineKind::kPlanar, task, steps, {}, text_of(task.output)};
}

RandomTasks::Made RandomTasks::reduction() {
  PlanarTask task;
  task.mode = isa::PlanarMode::kReduction;
  task.reduce.over_rows = one_in(2);
  task.reduce.over_columns = !task.reduce.over_rows || one_in(2);
  task.reduce.function = one_in(3) ? ReduceFunction::kRootSumSquare : ReduceFunction::kSum;
  Extents in{.channels = log_uniform(1, 2048),
             .rows = log_uniform(1, 512),
             .columns = log_uniform(1, 512)};
  shrink(in);
  Extents out = in;
  if (task.reduce.over_rows) out.rows = 1;
  if (task.reduce.over_columns) out.columns = 1;
  task.inputs[0] = surface(in, 0);
  task.output = surface(out, 1);
  const Bands steps = bands(task.output);
  return {EngineKind::kPlanar,
          task,
          steps,
          {},
          fmt::format("{} to {}", text_of(task.inputs[0]), text_of(task.output))};
}

RandomTasks::Made RandomTasks::transfer(TaskKind kind, bool load) {
  static constexpr std::array kFormats = {Format::kI8, Format::kF16, Format::kF32};
  Extents e{.images = one_in(4) ? pick(2, 4) : 1,
            .channels = log_uniform(1, 2048),
            .rows = log_uniform(1, 1024),
            .columns = log_uniform(1, 1024)};
  e.format = kFormats[static_cast<std::size_t>(pick(0, 2))];
  shrink(e);
  const bool scattered = kind == TaskKind::kScatteredLoad || kind == TaskKind::kScatteredStore;
  const bool strided = kind == TaskKind::kStridedLoad || kind == TaskKind::kStridedStore;
  // Axes from the innermost outwards: in order, or any.
  std::array<std::size_t, 4> order = {3, 2, 1, 0};
  if (scattered) {
    std::shuffle(order.begin(), order.end(), random_);
    if (order[0] == 3) std::swap(order[0], order[1]);
  }
  TransferTask task;
  while (true) {
    const std::array<std::int64_t, 4> extents = {e.images, e.channels, e.rows, e.columns};
    std::int64_t stride = format_bytes(e.format);
    if (scattered && one_in(3)) stride *= pick(2, 100);
    for (const std::size_t axis : order) {
      task.dram.strides[axis] = stride;
      stride *= extents[axis];
      if (strided && one_in(2)) stride += format_bytes(e.format) * log_uniform(1, 4096);
    }
    if (stride <= kDramBytesMax) break;
    std::int64_t& most = e.rows > 1 ? e.rows : e.channels > 1 ? e.channels : e.columns;
    most = ceil_div(most, 2);
  }
  if (kind == TaskKind::kBroadcastLoad) {
    task.dram.strides[static_cast<std::size_t>(pick(1, 3))] = 0;
    if (one_in(3)) task.dram.strides[static_cast<std::size_t>(pick(1, 3))] = 0;
  }
  task.buffer = surface(e, 0);
  task.channel_count = task.buffer.channels;
  task.dram.address = {load ? BaseIndex::kInput : BaseIndex::kOutput,
                       one_in(2) ? 0 : narrow(pick(0, 5000) * format_bytes(e.format))};
  const Bands steps = bands(task.buffer);
  const auto& s = task.dram.strides;
  return {load ? EngineKind::kLoad : EngineKind::kStore,
          task,
          steps,
          {},
          fmt::format("{} at {}, strides {} {} {} {}", text_of(task.buffer),
                      task.dram.address.offset, s[0], s[1], s[2], s[3])};
}

RandomTasks::Made RandomTasks::copy(bool fill) {
  CopyTask task;
  task.fill = fill;
  task.element_bytes = narrow(std::int64_t{1} << pick(0, 3));
  const auto axes = static_cast<std::size_t>(pick(1, 6));
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    task.extents.push_back(log_uniform(1, std::max<std::int64_t>(1, 400'000 / elements)));
    elements *= task.extents.back();
  }
  std::shuffle(task.extents.begin(), task.extents.end(), random_);
  std::vector<std::size_t> order(axes);
  const auto strides = [&](bool any_order) {
    std::iota(order.rbegin(), order.rend(), 0);
    if (any_order) std::shuffle(order.begin(), order.end(), random_);
    std::vector<std::int64_t> result(axes);
    std::int64_t stride = task.element_bytes;
    for (const std::size_t axis : order) {
      result[axis] = stride;
      stride *= task.extents[axis];
      if (one_in(4)) stride += task.element_bytes * pick(1, 16);
    }
    return result;
  };
  task.destination_strides = strides(one_in(2));
  if (!fill) task.source_strides = strides(one_in(2));
  task.source = {BaseIndex::kInput, 0};
  task.destination = {BaseIndex::kOutput, 0};
  const std::int64_t rows = task.extents[0];
  const Bands steps{1, narrow(rows), narrow(ceil_div(rows, pick(1, 24)))};
  return {EngineKind::kStore,
          task,
          steps,
          {},
          fmt::format("[{}] of {} bytes, from [{}] to [{}]", fmt::join(task.extents, ", "),
                      task.element_bytes, fmt::join(task.source_strides, ", "),
                      fmt::join(task.destination_strides, ", "))};
}

RandomTasks::Made RandomTasks::kernel(TaskKind kind) {
  if (kind != TaskKind::kKernel) return compressed_kernel(kind == TaskKind::kMaskKernel);
  KernelTask task;
  task.source.base = BaseIndex::kWeights;
  task.partitions = narrow(log_uniform(1, chip_.neural.rows));
  task.bytes_per_partition = narrow(log_uniform(1, chip_.neural.kernel_bytes_per_partition));
  task.dram_pitch = task.bytes_per_partition;
  if (one_in(4)) task.dram_pitch += static_cast<std::uint64_t>(pick(0, 300));
  if (one_in(6)) task.dram_pitch = 0;
  std::vector<std::byte> weights(task.dram_pitch * task.partitions + task.bytes_per_partition);
  return {EngineKind::kKernel,
          task,
          {1, 1, 1},
          std::move(weights),
          fmt::format("{} partitions of {}, pitch {}", task.partitions, task.bytes_per_partition,
                      task.dram_pitch)};
}

RandomTasks::Made RandomTasks::compressed_kernel(bool mask) {
  const std::int64_t partitions = log_uniform(1, chip_.neural.rows);
  const auto element = static_cast<std::uint32_t>(std::int64_t{1} << pick(0, 2));
  const std::int64_t bytes =
      element * log_uniform(1, std::min(4096, chip_.neural.kernel_bytes_per_partition) / element);
  std::vector<std::byte> image(static_cast<std::size_t>(partitions * bytes));
  const auto zeros = static_cast<int>(pick(1, 4));  // in so many elements one is not zero
  const std::int64_t values = log_uniform(2, 200);
  for (std::size_t at = 0; at < image.size(); at += element) {
    if (!mask || one_in(zeros)) image[at] = static_cast<std::byte>(pick(1, values));
  }
  const KernelRows rows{image.data(), bytes, partitions, bytes};
  KernelTask task;
  task.source.base = BaseIndex::kWeights;
  for (const KernelStream& form : kernel_stream_forms(rows, element, narrow(bytes))) {
    const bool smaller = form.stored_bytes < image.size();
    if (smaller && form.zero_mask == mask && (mask || form.palette_bits > 0)) {
      task.stream = form;
      break;
    }
  }
  task.partitions = narrow(partitions);
  task.bytes_per_partition = narrow(bytes);
  std::vector<std::byte> weights;
  if (task.stream.compressed()) {
    weights = compress_kernel(task.stream, rows);
  } else {
    task.dram_pitch = task.bytes_per_partition;
    weights = image;
  }
  return {EngineKind::kKernel,
          task,
          {1, 1, 1},
          std::move(weights),
          fmt::format("{} partitions of {}, stored {}", partitions, bytes, task.stored_bytes())};
}

RandomTasks::Made RandomTasks::messages(bool in) {
  Made made = transfer(in ? TaskKind::kDenseLoad : TaskKind::kDenseStore, in);
  isa::MessageTask task;
  task.queue = narrow(pick(0, 9));
  task.transfer = std::get<TransferTask>(made.config);
  made.engine = in ? EngineKind::kMessageIn : EngineKind::kMessageOut;
  made.config = task;
  return made;
}

RandomTasks::Made RandomTasks::message_matrix() {
  isa::MessageTask task;
  task.kind = isa::MessageKind::kMatrix;
  task.transfer.dram.address.base = BaseIndex::kInput;
  task.image.rows = chip_.neural.rows;
  task.image.columns = chip_.neural.columns;
  do {
    task.image.channels = log_uniform(1, 2048);
    task.image.output_channels = log_uniform(1, 2048);
  } while (task.image.bytes_per_partition() > chip_.neural.kernel_bytes_per_partition);
  return {EngineKind::kMessageIn,
          task,
          {1, 1, 1},
          {},
          fmt::format("{} x {}", task.image.output_channels, task.image.channels)};
}

RandomTask RandomTasks::make(TaskKind kind) {
  Made made;
  switch (kind) {
    case TaskKind::kTransposeOnArray:
    case TaskKind::kTransposeOnPlanar:
      made = transpose(kind == TaskKind::kTransposeOnArray);
      break;
    case TaskKind::kPooling:
    case TaskKind::kPoolingInParts:
      made = pooling(kind == TaskKind::kPoolingInParts);
      break;
    case TaskKind::kElementwise:
    case TaskKind::kElementwiseOfTwo:
      made = elementwise(kind == TaskKind::kElementwiseOfTwo);
      break;
    case TaskKind::kReduction:
      made = reduction();
      break;
    case TaskKind::kCopy:
    case TaskKind::kFill:
      made = copy(kind == TaskKind::kFill);
      break;
    case TaskKind::kKernel:
    case TaskKind::kPaletteKernel:
    case TaskKind::kMaskKernel:
      made = kernel(kind);
      break;
    case TaskKind::kMessageIn:
    case TaskKind::kMessageOut:
      made = messages(kind == TaskKind::kMessageIn);
      break;
    case TaskKind::kMessageMatrix:
      made = message_matrix();
      break;
    default:
      if (kind < TaskKind::kDenseLoad) {
        made = product(kind);
      } else {
        made = transfer(kind, kind <= TaskKind::kBroadcastLoad);
      }
  }
  isa::TaskList tasks(chip_);
  tasks.add(made.engine, std::move(made.config), made.bands);
  const std::int64_t region = 2 * kDramBytesMax;
  RandomTask result{tasks.finish(region, region),
                    fmt::format("{}, {} rows a step", made.shape, made.bands.rows_per_step)};
  result.program.weights = std::move(made.weights);
  return result;
}

}  // namespace tessera::timing

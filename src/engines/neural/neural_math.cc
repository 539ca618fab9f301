#include "engines/neural/neural_math.h"

#include <cstring>

#include "arith/kernels/local_response.h"
#include "arith/kernels/make_product.h"
#include "arith/kernels/planar/transpose.h"
#include "engines/data_control/exceptions.h"
#include "isa/psum.h"

namespace tessera::engines {

using isa::NeuralTask;

namespace {

template <typename T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool same_bytes(const ProductVectors& a, const ProductVectors& b) {
  return same_bytes(a.bias, b.bias) && same_bytes(a.multipliers, b.multipliers) &&
         same_bytes(a.stationary_zero_points, b.stationary_zero_points);
}

// The sums of an image where they lie in PSUM.
class SumsInPsum final : public PartialSums {
 public:
  SumsInPsum(const isa::PsumLayout& layout, std::int64_t of_group, std::int64_t image,
             std::vector<std::vector<PartialSum>>& engines)
      : layout_(layout), of_group_(of_group), image_(image), engines_(engines) {
    const auto sums = static_cast<std::size_t>(layout.last() * layout.array_columns);
    if (engines_.size() < static_cast<std::size_t>(layout.engines)) {
      engines_.resize(static_cast<std::size_t>(layout.engines));
    }
    for (std::vector<PartialSum>& engine : engines_) {
      if (engine.size() < sums) engine.resize(sums);
    }
  }
  PartialSum& at(std::int64_t channel, std::int64_t row, std::int64_t column) override {
    const isa::PsumLayout::Place place =
        layout_.place(channel, of_group_, layout_.pixel(image_, row, column));
    return engines_[static_cast<std::size_t>(place.engine)][static_cast<std::size_t>(
        place.entry * layout_.array_columns + place.partition)];
  }

 private:
  const isa::PsumLayout layout_;
  const std::int64_t of_group_, image_;
  std::vector<std::vector<PartialSum>>& engines_;
};

}  // namespace

NeuralMath::NeuralMath(const ChipConfig& chip, PartitionedMemory& state_buffer,
                       PartitionedMemory& kernel_memory)
    : chip_(chip),
      state_buffer_(state_buffer),
      kernel_memory_(kernel_memory),
      workspace_(make_product_workspace()) {}

void NeuralMath::forget() {
  kept_.clear();
  product_.reset();
  part_.reset();
  psum_.clear();
}

std::string NeuralMath::exception(const isa::TaskDescriptor& task, std::int64_t step,
                                  std::uint8_t traps, const arith::StickyFlags& flags) {
  const std::string met = exception_in_product(flags, traps);
  return met.empty() ? exception_in_results(state_buffer_, task, step, traps) : met;
}

StepValues NeuralMath::values(const isa::TaskDescriptor& task, std::int64_t step) {
  return {extent_of_results(state_buffer_, task, step), take_step_flags()};
}

void NeuralMath::run_step(const NeuralStep& step) {
  take_step_flags();  // those of the step before
  const auto& task = std::get<NeuralTask>(step.descriptor.config);
  const isa::Bands& bands = step.descriptor.bands;
  const std::int64_t image = bands.image(step.step);
  const RowRange rows = bands.range(step.step);
  if (task.transpose) {
    transpose(task, image, rows);
    return;
  }
  if (task.psum.in_parts()) {
    run_part(step, task);
    return;
  }
  if (task.dynamic) {
    if (rows.first == 0) prepare_dynamic(task, image);
  } else if (step.step == 0) {
    prepare(step, task);
  }
  const Surface output = state_buffer_.surface(task.output, image);
  product_->run(moving_surface(task, image, rows), output, task.output_channel_first, rows,
                *workspace_);
  if (!task.product.local_response.enabled()) return;
  const KernelImageShape& shape = task.product.image;
  const std::int64_t first = task.output_channel_first;
  local_response(task.product.local_response, output,
                 {first, first + shape.groups * shape.output_channels}, rows);
}

Surface NeuralMath::moving_surface(const NeuralTask& task, std::int64_t image, RowRange rows) {
  return shifted(
      task.moving, image,
      {task.moving_channel_first, task.product.image.groups * task.product.image.channels,
       input_rows_needed(task.product, task.moving.rows, rows)});
}

Surface NeuralMath::shifted(const isa::BufferSurface& surface, std::int64_t image,
                            const Window& window) {
  const std::int64_t first = window.first;
  const std::int64_t count = window.count;
  const std::int64_t partitions = state_buffer_.partitions();
  Surface moving = state_buffer_.surface(surface, image, first);
  moving.channels = count;
  if (first % partitions == 0 || first % partitions + count <= partitions) return moving;
  const Surface all = state_buffer_.surface(surface, image);
  const std::int64_t element = format_bytes(all.format);
  const std::int64_t row_bytes = all.columns * element;
  shifted_.resize(static_cast<std::size_t>(count * all.rows * row_bytes));
  moving.base = shifted_.data();
  moving.partitions = count;
  moving.partition_pitch = all.rows * row_bytes;
  moving.block_pitch = 0;
  moving.row_pitch = row_bytes;
  moving.column_pitch = element;
  moving.row_origin = 0;
  moving.ring_rows = all.rows;
  for (std::int64_t channel = 0; channel < count; ++channel) {
    for (std::int64_t row = window.rows.first; row < window.rows.last; ++row) {
      for (std::int64_t column = 0; column < all.columns; ++column) {
        std::memcpy(moving.at(channel, row, column), all.at(first + channel, row, column),
                    static_cast<std::size_t>(element));
      }
    }
  }
  return moving;
}

void NeuralMath::prepare(const NeuralStep& step, const NeuralTask& task) {
  if (kept_.size() <= step.network) kept_.resize(step.network + 1);
  std::vector<Kept>& kept = kept_[step.network];
  if (kept.size() <= step.descriptor.id) kept.resize(step.descriptor.id + 1);
  Kept& entry = kept[step.descriptor.id];
  const ProductVectors vectors = read_vectors(task);
  if (entry.descriptor != &step.descriptor || !same_bytes(entry.vectors, vectors) ||
      !holds_kernel(task, entry.kernel)) {
    // Where memory ends, what was kept stays with what it was made of.
    ProductConfig product = task.product;
    product.moving_format = task.moving.format;
    Kept made{&step.descriptor, kernel_bytes(task), vectors,
              make_product(product, kernel_memory_.image(task.kernel_offset), vectors)};
    entry = std::move(made);
  }
  product_ = entry.product;
}

kernels::PlainWeights NeuralMath::stationary_of(const NeuralTask& task, std::int64_t image) {
  if (!task.dynamic) {
    return kernels::plain_weights(task.product.image, kernel_memory_.image(task.kernel_offset));
  }
  const Window window{
      task.stationary_channel_first, task.product.image.channels, {0, task.stationary.rows}};
  return kernels::plain_weights(task.product.image, shifted(task.stationary, image, window));
}

void NeuralMath::run_part(const NeuralStep& step, const NeuralTask& task) {
  const isa::Bands& bands = step.descriptor.bands;
  const std::int64_t image = bands.image(step.step);
  const RowRange rows = bands.range(step.step);
  if (task.dynamic ? rows.first == 0 : step.step == 0) {
    part_ = std::make_shared<PartialProduct>(task.product, stationary_of(task, image),
                                             read_vectors(task));
  }
  SumsInPsum sums(isa::psum_layout(step.descriptor, chip_), task.product.image.output_channels,
                  image, psum_);
  const PartialProduct::Pixels pixels{rows, task.output.columns};
  const Surface moving = moving_surface(task, image, rows);
  part_->add(moving, pixels, !task.psum.continues, sums, workspace_->flags);
  if (task.psum.keeps) return;
  part_->finish(sums, pixels, moving.format, state_buffer_.surface(task.output, image),
                task.output_channel_first, workspace_->flags);
}

void NeuralMath::prepare_dynamic(const NeuralTask& task, std::int64_t image) {
  const Surface stationary = shifted(
      task.stationary, image,
      {task.stationary_channel_first, task.product.image.channels, {0, task.stationary.rows}});
  product_ = make_product(task.product, stationary, read_vectors(task));
}

std::vector<std::byte> NeuralMath::read_vector(std::uint32_t offset, std::int64_t count,
                                               std::int64_t element, std::int64_t rows) const {
  std::vector<std::byte> values(static_cast<std::size_t>(count * element));
  for (std::int64_t o = 0; o < count; ++o) {
    std::memcpy(values.data() + o * element,
                kernel_memory_.at(o % rows, offset + (o / rows) * element),
                static_cast<std::size_t>(element));
  }
  return values;
}

ProductVectors NeuralMath::read_vectors(const NeuralTask& task) const {
  const KernelImageShape& image = task.product.image;
  const std::int64_t outputs = image.groups * image.output_channels;
  ProductVectors vectors;
  if (task.product.has_bias) {
    vectors.bias =
        read_vector(task.bias_offset, outputs, format_bytes(task.product.bias_format), image.rows);
  }
  const auto read_words = [&](std::uint32_t offset, std::uint32_t count, auto& words) {
    const std::vector<std::byte> bytes = read_vector(offset, count, 4, image.rows);
    words.resize(count);
    if (count != 0) std::memcpy(words.data(), bytes.data(), bytes.size());
  };
  if (task.product.requantise) {
    read_words(task.multiplier_offset, task.multiplier_count, vectors.multipliers);
  }
  read_words(task.zero_point_offset, task.zero_point_count, vectors.stationary_zero_points);
  return vectors;
}

std::vector<std::byte> NeuralMath::kernel_bytes(const NeuralTask& task) const {
  const KernelImageShape& image = task.product.image;
  const auto bytes = static_cast<std::size_t>(image.bytes_per_partition());
  std::vector<std::byte> all(bytes * static_cast<std::size_t>(image.rows));
  for (std::int64_t p = 0; p < image.rows; ++p) {
    std::memcpy(all.data() + static_cast<std::size_t>(p) * bytes,
                kernel_memory_.at(p, task.kernel_offset), bytes);
  }
  return all;
}

bool NeuralMath::holds_kernel(const NeuralTask& task, const std::vector<std::byte>& kernel) const {
  const KernelImageShape& image = task.product.image;
  const auto bytes = static_cast<std::size_t>(image.bytes_per_partition());
  if (kernel.size() != bytes * static_cast<std::size_t>(image.rows)) return false;
  for (std::int64_t p = 0; p < image.rows; ++p) {
    const std::byte* there = kernel_memory_.at(p, task.kernel_offset);
    if (std::memcmp(kernel.data() + static_cast<std::size_t>(p) * bytes, there, bytes) != 0) {
      return false;
    }
  }
  return true;
}

void NeuralMath::transpose(const NeuralTask& task, std::int64_t image, RowRange rows) {
  const std::int64_t first = task.moving_channel_first;
  tessera::transpose(state_buffer_.surface(task.moving, image),
                     state_buffer_.surface(task.output, image),
                     {.channels = {first, first + task.output.columns},
                      .output_first = task.output_channel_first,
                      .output_count = task.moving.columns,
                      .rows = rows});
}

}  // namespace tessera::engines

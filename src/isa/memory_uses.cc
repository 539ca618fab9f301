#include "isa/memory_uses.h"

#include <algorithm>

#include "isa/descriptor_check.h"
#include "isa/psum.h"

namespace tessera::isa {
namespace {

class UseList {
 public:
  explicit UseList(const ChipConfig& chip) : chip_(chip) {}

  void add(NeuralTask& task) {
    surface(task.moving);
    surface(task.output);
    if (task.transpose) return;
    const KernelImageShape& image = task.product.image;
    if (task.dynamic) {
      surface(task.stationary);
    } else {
      kernel(task.kernel_offset, image.bytes_per_partition());
    }
    const std::int64_t outputs = image.groups * image.output_channels;
    const auto vector_bytes = [&](std::int64_t count, std::int64_t element) {
      return ceil_div(count, std::max<std::int64_t>(image.rows, 1)) * element;
    };
    if (task.product.has_bias) {
      kernel(task.bias_offset, vector_bytes(outputs, format_bytes(task.product.bias_format)));
    }
    if (task.product.requantise) {
      kernel(task.multiplier_offset, vector_bytes(task.multiplier_count, 4));
    }
    if (task.zero_point_count > 0) {
      kernel(task.zero_point_offset, vector_bytes(task.zero_point_count, 4));
    }
  }

  void add(PlanarTask& task) {
    for (int i = 0; i < std::min<int>(task.input_count, kPlanarInputsMax); ++i)
      surface(task.inputs[i]);
    uses_.push_back(
        {MemoryKind::kStateBuffer, &task.output.offset, last_of(surface_of_results(task))});
    if (task.in_parts()) {
      uses_.push_back(
          {MemoryKind::kStateBuffer, &task.accumulator_offset, last_of(accumulator_surface(task))});
    }
  }

  void add(TransferTask& task) { surface(task.buffer); }
  void add(CopyTask&) {}
  void add(KernelTask& task) { kernel(task.kernel_offset, task.bytes_per_partition); }
  void add(MessageTask& task) {
    if (task.kind == MessageKind::kVector) return add(task.transfer);
    kernel(task.kernel_offset, task.image.bytes_per_partition());
  }

  std::vector<MemoryUse> take() { return std::move(uses_); }

 private:
  std::int64_t last_of(const BufferSurface& surface) const {
    return surface_span(surface, chip_.state_buffer.partitions).last;
  }
  void surface(BufferSurface& surface) {
    uses_.push_back({MemoryKind::kStateBuffer, &surface.offset, last_of(surface)});
  }
  void kernel(std::uint32_t& offset, std::int64_t bytes) {
    uses_.push_back({MemoryKind::kKernelMemory, &offset, std::int64_t{offset} + bytes});
  }

  const ChipConfig& chip_;
  std::vector<MemoryUse> uses_;
};

}  // namespace

std::vector<MemoryUse> memory_uses(TaskDescriptor& task, const ChipConfig& chip) {
  UseList uses(chip);
  std::visit([&uses](auto& config) { uses.add(config); }, task.config);
  std::vector<MemoryUse> found = uses.take();
  auto* neural = std::get_if<NeuralTask>(&task.config);
  if (neural != nullptr && neural->psum.in_parts()) {
    found.push_back({MemoryKind::kPsum, &neural->psum.first, psum_layout(task, chip).last()});
  }
  return found;
}

MemoryNeed memory_need(const std::vector<TaskDescriptor>& tasks, const ChipConfig& chip) {
  MemoryNeed need;
  for (TaskDescriptor task : tasks) {
    for (const MemoryUse& use : memory_uses(task, chip)) {
      if (use.memory == MemoryKind::kPsum) continue;
      std::int64_t& bytes =
          use.memory == MemoryKind::kStateBuffer ? need.state_buffer : need.kernel_memory;
      bytes = std::max(bytes, use.last);
    }
  }
  return need;
}

}  // namespace tessera::isa

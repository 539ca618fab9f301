#include "concord/lift/message_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/quantity.h"
#include "isa/registers.h"
#include "isa/step_order.h"

namespace tessera::concord {
namespace {

using isa::BufferSurface;
using isa::MessageKind;
using isa::MessageTask;
using isa::NeuralTask;
using isa::TaskDescriptor;

constexpr std::int64_t kAlignment = 64;

const MessageTask* matrix_of(const TaskDescriptor& task) {
  const auto* message = std::get_if<MessageTask>(&task.config);
  return message != nullptr && message->kind == MessageKind::kMatrix ? message : nullptr;
}

// Channels are the matrix's columns, a column of the surface is one of its rows.
BufferSurface surface_of(const MessageTask& matrix, std::int64_t offset) {
  const KernelImageShape& image = matrix.image;
  BufferSurface surface;
  surface.offset = static_cast<std::uint32_t>(offset);
  surface.format = image.format;
  surface.channels = static_cast<std::uint32_t>(image.channels);
  surface.columns = static_cast<std::uint32_t>(image.output_channels);
  surface.column_pitch = static_cast<std::uint32_t>(format_bytes(image.format));
  surface.row_pitch = surface.column_pitch * surface.columns;
  surface.block_pitch = surface.row_pitch;
  return surface;
}

// Vectors of the surface's columns, so that moving them is moving the matrix.
void move_to(const BufferSurface& surface, MessageTask& message) {
  const std::int64_t element = surface.column_pitch;
  message.kind = MessageKind::kVector;
  message.transfer.buffer = surface;
  message.transfer.channel_count = surface.channels;
  message.transfer.dram.strides = {0, element, 0, element * surface.channels};
}

// Follows what lies in kernel memory, in an order in which the steps may run.
class Rewriter {
 public:
  Rewriter(const isa::Program& program, const ChipConfig& chip)
      : program_(program),
        chip_(chip),
        made_{.program = program, .chip = chip},
        next_(round_up(chip.state_buffer.bytes_per_partition, kAlignment)) {}

  Result<SurfacesForMatrices> run() {
    for (const isa::Segment& segment : program_.segments) {
      TESSERA_RETURN_IF_ERROR(isa::for_each_step(
          program_, chip_, segment, [this](isa::TaskId id, std::int64_t step) -> Status {
            return step == 0 ? task(id) : Status();
          }));
    }
    if (next_ > std::numeric_limits<std::int32_t>::max()) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("the program's messages bring matrices of {} bytes a partition; "
                               "layers can be read back out of a program with less than {}",
                               next_, std::numeric_limits<std::int32_t>::max())};
    }
    made_.chip.state_buffer.bytes_per_partition = static_cast<std::int32_t>(next_);
    return std::move(made_);
  }

 private:
  // A matrix that a message brought to bytes [first, last) of a kernel memory partition.
  struct Matrix {
    std::int64_t first = 0, last = 0;
    std::vector<std::uint32_t> image;  // its registers
    BufferSurface surface;
  };

  static std::vector<std::uint32_t> registers_of(const KernelImageShape& image) {
    return isa::to_registers(image);
  }
  static auto overlaps(std::int64_t first, std::int64_t last) {
    return [=](const Matrix& matrix) { return matrix.first < last && first < matrix.last; };
  }

  Status task(isa::TaskId id) {
    TaskDescriptor& task = made_.program.tasks[id];
    if (auto* neural = std::get_if<NeuralTask>(&task.config)) return product(id, *neural);
    if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
      std::erase_if(matrices_, overlaps(kernel->kernel_offset, std::int64_t{kernel->kernel_offset} +
                                                                   kernel->bytes_per_partition));
    } else if (const MessageTask* matrix = matrix_of(task); matrix != nullptr) {
      const BufferSurface surface = surface_of(*matrix, next_);
      next_ += round_up(ceil_div(surface.channels, chip_.state_buffer.partitions) *
                            std::int64_t{surface.block_pitch},
                        kAlignment);
      Matrix lying{.first = matrix->kernel_offset,
                   .last = matrix->kernel_offset + matrix->image.bytes_per_partition(),
                   .image = registers_of(matrix->image),
                   .surface = surface};
      std::erase_if(matrices_, overlaps(lying.first, lying.last));
      matrices_.push_back(std::move(lying));
      move_to(surface, std::get<MessageTask>(task.config));
    }
    return {};
  }

  Status product(isa::TaskId id, NeuralTask& neural) {
    if (neural.dynamic || neural.transpose) return {};
    const std::int64_t first = neural.kernel_offset;
    const std::int64_t last = first + neural.product.image.bytes_per_partition();
    const auto found = std::ranges::find_if(matrices_, overlaps(first, last));
    if (found == matrices_.end()) return {};
    if (found->first != first || found->image != registers_of(neural.product.image)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("{} takes a part of a matrix that came as a message, or more than "
                               "it; a lifted product takes it as it came",
                               isa::describe_task(program_, id))};
    }
    neural.dynamic = true;
    neural.stationary = found->surface;
    return {};
  }

  const isa::Program& program_;
  const ChipConfig& chip_;
  SurfacesForMatrices made_;
  std::int64_t next_;
  std::vector<Matrix> matrices_;
};

}  // namespace

Result<std::optional<SurfacesForMatrices>> surfaces_for_matrices(const isa::Program& program,
                                                                 const ChipConfig& chip) {
  const auto is_matrix = [](const TaskDescriptor& task) { return matrix_of(task) != nullptr; };
  if (std::ranges::none_of(program.tasks, is_matrix)) return std::optional<SurfacesForMatrices>();
  TESSERA_TRY(SurfacesForMatrices made, Rewriter(program, chip).run());
  return std::optional(std::move(made));
}

}  // namespace tessera::concord

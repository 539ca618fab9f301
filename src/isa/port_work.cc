#include "isa/port_work.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "base/quantity.h"
#include "base/ratio.h"
#include "isa/accesses.h"
#include "isa/planar_modes.h"
#include "isa/rows_read.h"

namespace tessera::isa {
namespace {

class StepPorts {
 public:
  StepPorts(const ChipConfig& chip, std::vector<PortDemand>& demands)
      : chip_(chip),
        bank_bytes_(ceil_div(chip.state_buffer.bytes_per_partition, chip.state_buffer.banks)),
        demands_(demands) {}

  // Each element of the box once.
  void once(const BufferSurface& surface, const SurfaceBox& box, bool write) {
    take(surface, box, write, words(surface, box));
  }
  // As `once`, or `cycles_wanted` of the port if that is more.
  void at_least(const BufferSurface& surface, const SurfaceBox& box, Cycles cycles_wanted) {
    take(surface, box, false, std::max(words(surface, box), cycles_wanted));
  }
  // Cycles of a port for `elements` elements of the surface.
  Cycles words(const BufferSurface& surface, std::int64_t elements) const {
    const std::int64_t element = format_bytes(surface.format);
    if (surface.column_pitch != element) return elements;
    return ceil_div(elements * element, chip_.state_buffer.port_bytes);
  }

 private:
  Cycles words(const BufferSurface& surface, const SurfaceBox& box) const {
    const std::int64_t rows = surface.broadcast_rows ? 1 : box.rows.last - box.rows.first;
    const std::int64_t partitions = chip_.state_buffer.partitions;
    const std::int64_t blocks = surface.broadcast_channels
                                    ? 1
                                    : (box.channel_first + box.channel_count - 1) / partitions -
                                          box.channel_first / partitions + 1;
    return rows * blocks * words(surface, std::int64_t{surface.columns});
  }

  // Of each bank what part of the box's bytes lies there.
  void take(const BufferSurface& surface, const SurfaceBox& box, bool write, Cycles cycles) {
    if (cycles <= 0 || box.rows.last <= box.rows.first || box.channel_count <= 0) return;
    accesses_.clear();
    surface_accesses(surface, box, chip_.state_buffer.partitions, write, accesses_);
    std::int64_t bytes = 0;
    for (const Access& access : accesses_) bytes += access.last - access.first;
    if (bytes == 0) return;
    in_bank_.assign(static_cast<std::size_t>(chip_.state_buffer.banks), 0);
    for (const Access& access : accesses_) {
      for (std::int64_t first = access.first; first < access.last;) {
        const std::int64_t bank = first / bank_bytes_;
        const std::int64_t last = std::min(access.last, (bank + 1) * bank_bytes_);
        in_bank_[static_cast<std::size_t>(bank)] += last - first;
        first = last;
      }
    }
    for (std::size_t bank = 0; bank < in_bank_.size(); ++bank) {
      if (in_bank_[bank] == 0) continue;
      const Cycles part = Ratio(in_bank_[bank], bytes).ceil_of(cycles);
      demands_.push_back({.bank = static_cast<std::int32_t>(bank),
                          .reads = write ? 0 : part,
                          .writes = write ? part : 0});
    }
  }

  const ChipConfig& chip_;
  const std::int64_t bank_bytes_;
  std::vector<PortDemand>& demands_;
  std::vector<Access> accesses_;
  std::vector<std::int64_t> in_bank_;
};

// Elements that the moving operand's partition delivers while the array streams for `occupancy`.
std::int64_t moving_elements(const NeuralTask& task, const ChipConfig& chip, RowRange rows,
                             Cycles occupancy) {
  const ProductConfig& product = task.product;
  const std::int64_t port = chip.state_buffer.port_elements;
  const std::int64_t taps = std::int64_t{product.kernel_h} * product.kernel_w;
  if (product.image.cut == BlockCut::kIm2col) {
    // Those taps of a column that the column before had are in the shifter.
    const std::int64_t arriving =
        std::int64_t{std::min(product.stride_w, product.kernel_w)} * product.kernel_h;
    return occupancy * std::min(port, arriving);
  }
  if (product.image.channel_wise) {
    const std::int64_t pixels = (rows.last - rows.first) * task.output.columns;
    const std::int64_t blocks = ceil_div(product.image.groups, chip.state_buffer.partitions);
    return std::min(occupancy * port, pixels * taps * blocks);
  }
  return occupancy;
}

// `moving`: elements of the moving operand that a partition delivers, at least.
void neural_ports(const NeuralTask& task, std::int64_t image, RowRange rows, std::int64_t moving,
                  StepPorts& ports) {
  if (task.transpose) {
    ports.once(task.moving, {task.moving_channel_first, task.output.columns, image, rows}, false);
    ports.once(task.output, {task.output_channel_first, task.moving.columns, image, rows}, true);
    return;
  }
  const KernelImageShape& shape = task.product.image;
  const RowRange read = product_rows_read(task.product, task.moving.rows, rows);
  ports.at_least(task.moving,
                 {task.moving_channel_first, shape.groups * shape.channels, image, read},
                 ports.words(task.moving, moving));
  if (task.dynamic) {
    ports.once(task.stationary,
               {task.stationary_channel_first, shape.channels, image, {0, task.stationary.rows}},
               false);
  }
  ports.once(task.output,
             {task.output_channel_first, shape.groups * shape.output_channels, image, rows}, true);
}

void planar_ports(const PlanarTask& task, std::int64_t image, RowRange rows, StepPorts& ports) {
  for (int i = 0; i < task.input_count; ++i) {
    const BufferSurface& input = task.inputs[i];
    ports.once(input, {0, input.channels, image, planar_rows_read(task, i, rows)}, false);
  }
  const SurfaceBox results{0, task.output.channels, image, rows};
  if (task.in_parts()) {
    const BufferSurface accumulators = accumulator_surface(task);
    if (task.continues) ports.once(accumulators, results, false);
    if (task.keeps) ports.once(accumulators, results, true);
  }
  if (!task.keeps) ports.once(task.output, results, true);
}

}  // namespace

void port_work(const TaskDescriptor& task, const ChipConfig& chip, std::int64_t step,
               Cycles occupancy, std::int64_t readers, std::vector<PortDemand>& demands) {
  if (chip.state_buffer.banks == 0) return;
  StepPorts ports(chip, demands);
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  if (const auto* neural = std::get_if<NeuralTask>(&task.config)) {
    // The planar engine has its inputs in line buffers.
    const std::int64_t moving = task.engine == EngineKind::kPlanar
                                    ? 0
                                    : readers * moving_elements(*neural, chip, rows, occupancy);
    neural_ports(*neural, image, rows, moving, ports);
  } else if (const auto* planar = std::get_if<PlanarTask>(&task.config)) {
    planar_ports(*planar, image, rows, ports);
  } else if (const TransferTask* transfer = transfer_of(task.config)) {
    ports.once(transfer->buffer, {transfer->channel_first, transfer->channel_count, image, rows},
               task.engine == EngineKind::kLoad || task.engine == EngineKind::kMessageIn);
  }
}

}  // namespace tessera::isa

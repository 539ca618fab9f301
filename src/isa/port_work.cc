#include "isa/port_work.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/quantity.h"
#include "base/ratio.h"
#include "isa/accesses.h"
#include "isa/planar_modes.h"
#include "isa/rows_read.h"

namespace tessera::isa {

// The demands of one step.
class PortWork::Step {
 public:
  explicit Step(PortWork& work) : work_(work), chip_(work.chip_) {}

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
    if (surface.column_pitch == 0) return elements;
    const std::int64_t span = elements * std::int64_t{surface.column_pitch};
    return std::min(elements, ceil_div(span, chip_.state_buffer.port_bytes));
  }

 private:
  Cycles words(const BufferSurface& surface, const SurfaceBox& box) const {
    std::int64_t rows = surface.broadcast_rows ? 1 : box.rows.last - box.rows.first;
    std::int64_t columns = surface.column_pitch == 0 ? 1 : std::int64_t{surface.columns};
    const std::int64_t row_bytes = columns * format_bytes(surface.format);
    if (surface.column_pitch == format_bytes(surface.format) && surface.row_pitch == row_bytes) {
      columns *= std::exchange(rows, 1);
    }
    const std::int64_t partitions = chip_.state_buffer.partitions;
    const std::int64_t blocks = surface.broadcast_channels
                                    ? 1
                                    : (box.channel_first + box.channel_count - 1) / partitions -
                                          box.channel_first / partitions + 1;
    return rows * blocks * words(surface, columns);
  }

  // Of each bank what part of the box's bytes lies there. A surface that is larger than the buffer, of a
  // task that is only weighed, goes round.
  void take(const BufferSurface& surface, const SurfaceBox& box, bool write, Cycles cycles) {
    if (cycles <= 0 || box.rows.last <= box.rows.first || box.channel_count <= 0) return;
    std::vector<Access>& accesses = work_.accesses_;
    accesses.clear();
    surface_accesses(surface, box, chip_.state_buffer.partitions, write, accesses);
    if (accesses.empty()) return;
    const std::int64_t banks = chip_.state_buffer.banks;
    const auto bank_of = [this](std::int64_t byte) { return byte / work_.bank_bytes_; };
    std::int64_t low = accesses[0].first, high = accesses[0].last, bytes = 0;
    for (const Access& access : accesses) {
      low = std::min(low, access.first);
      high = std::max(high, access.last);
      bytes += access.last - access.first;
    }
    if (bank_of(low) == bank_of(high - 1)) return add(bank_of(low) % banks, write, cycles);
    std::vector<std::int64_t>& in_bank = work_.in_bank_;
    in_bank.assign(static_cast<std::size_t>(banks), 0);
    for (const Access& access : accesses) {
      for (std::int64_t first = access.first; first < access.last;) {
        const std::int64_t bank = bank_of(first);
        const std::int64_t last = std::min(access.last, (bank + 1) * work_.bank_bytes_);
        in_bank[static_cast<std::size_t>(bank % banks)] += last - first;
        first = last;
      }
    }
    for (std::size_t bank = 0; bank < in_bank.size(); ++bank) {
      if (in_bank[bank] == 0) continue;
      add(static_cast<std::int64_t>(bank), write, Ratio(in_bank[bank], bytes).ceil_of(cycles));
    }
  }

  void add(std::int64_t bank, bool write, Cycles cycles) {
    work_.demands_.push_back({.bank = static_cast<std::int32_t>(bank),
                              .reads = write ? 0 : cycles,
                              .writes = write ? cycles : 0});
  }

  PortWork& work_;
  const ChipConfig& chip_;
};

namespace {

// Elements that the moving operand's partition delivers.
std::int64_t moving_elements(const NeuralTask& task, const ChipConfig& chip, RowRange rows,
                             const ArrayStep& alone) {
  const ProductConfig& product = task.product;
  if (!product.image.channel_wise) return alone.moving_elements;
  const std::int64_t taps = std::int64_t{product.kernel_h} * product.kernel_w;
  const std::int64_t pixels = (rows.last - rows.first) * task.output.columns;
  const std::int64_t blocks = ceil_div(product.image.groups, chip.state_buffer.partitions);
  return std::min(alone.cycles * chip.state_buffer.port_elements, pixels * taps * blocks);
}

// `moving`: elements of the moving operand that a partition delivers, at least.
template <typename Ports>
void neural_ports(const NeuralTask& task, std::int64_t image, RowRange rows, std::int64_t moving,
                  Ports& ports) {
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
  if (task.psum.keeps) return;
  ports.once(task.output,
             {task.output_channel_first, shape.groups * shape.output_channels, image, rows}, true);
}

template <typename Ports>
void planar_ports(const PlanarTask& task, std::int64_t image, RowRange rows, Ports& ports) {
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
  if (task.keeps) return;
  ports.once(task.output, {task.output_channel_first, task.output.channels, image, rows}, true);
}

}  // namespace

PortWork::PortWork(const ChipConfig& chip)
    : chip_(chip),
      bank_bytes_(
          ceil_div(chip.state_buffer.bytes_per_partition, std::max(1, chip.state_buffer.banks))) {}

std::span<const PortDemand> PortWork::of(const TaskDescriptor& task, std::int64_t step,
                                         const ArrayStep& alone, std::int64_t readers) {
  demands_.clear();
  if (chip_.state_buffer.banks == 0) return demands_;
  Step ports(*this);
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  if (const auto* neural = std::get_if<NeuralTask>(&task.config)) {
    // The planar engine has its inputs in line buffers.
    const std::int64_t moving = task.engine == EngineKind::kPlanar
                                    ? 0
                                    : readers * moving_elements(*neural, chip_, rows, alone);
    neural_ports(*neural, image, rows, moving, ports);
  } else if (const auto* planar = std::get_if<PlanarTask>(&task.config)) {
    planar_ports(*planar, image, rows, ports);
  } else if (const TransferTask* transfer = transfer_of(task.config)) {
    ports.once(transfer->buffer, {transfer->channel_first, transfer->channel_count, image, rows},
               task.engine == EngineKind::kLoad || task.engine == EngineKind::kMessageIn);
  }
  return demands_;
}

}  // namespace tessera::isa

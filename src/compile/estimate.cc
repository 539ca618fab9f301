#include "compile/estimate.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "arch/dram_config.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using namespace isa;  // descriptors

Cycles neural_cycles(const NeuralTask& task, const Bands& bands, const ChipConfig& chip) {
  return neural_task_cycles(chip.neural, product_work(task, chip),
                            {bands.images, bands.rows, bands.rows_per_step});
}

Cycles planar_task_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  Cycles cycles = chip.planar.task_start_cycles;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    cycles += planar_cycles(chip.planar, planar_work(task.config, task.bands.range(step)));
  }
  return cycles;
}

Cycles dram_cycles(std::int64_t bytes, const ChipConfig& chip) {
  const DramCosts dram = dram_costs(chip);
  return chip.dma.task_start_cycles + dram.latency + dram.cycles(bytes);
}

}  // namespace

Cycles estimate_task(const TaskDescriptor& task, const ChipConfig& chip) {
  return std::visit(
      [&](const auto& config) -> Cycles {
        using T = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<T, NeuralTask>) {
          return task.engine == EngineKind::kPlanar ? planar_task_cycles(task, chip)
                                                    : neural_cycles(config, task.bands, chip);
        } else if constexpr (std::is_same_v<T, PlanarTask>) {
          return planar_task_cycles(task, chip);
        } else if constexpr (std::is_same_v<T, TransferTask>) {
          const BufferSurface& b = config.buffer;
          return dram_cycles(std::int64_t{task.bands.images} * task.bands.rows * b.columns *
                                 config.channel_count * format_bytes(b.format),
                             chip);
        } else if constexpr (std::is_same_v<T, CopyTask>) {
          std::int64_t bytes = config.element_bytes;
          for (const std::int64_t extent : config.extents) bytes *= extent;
          return dram_cycles(config.fill ? bytes : 2 * bytes, chip);
        } else {
          return dram_cycles(config.stored_bytes(), chip);
        }
      },
      task.config);
}

Cycles estimate_frame(const Frame& frame, const ChipConfig& chip) {
  isa::ByEngine<Cycles> sums{};
  for (const FrameTask& task : frame.tasks) {
    sums[task.descriptor.engine] += estimate_task(task.descriptor, chip);
  }
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace tessera::compile

#include "compile/estimate.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "arch/dram_config.h"
#include "arch/port_schedule.h"
#include "isa/dma_time.h"
#include "isa/dma_work.h"
#include "isa/message_work.h"
#include "isa/port_work.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using namespace isa;  // descriptors

// What the ports of the state buffer make of the steps of a task that nobody is in the way of.
class PortsAlone {
 public:
  PortsAlone(const TaskDescriptor& task, const ChipConfig& chip)
      : task_(task), ports_(PortSchedule::of(chip)), work_(chip) {}

  Cycles of(std::int64_t step, const ArrayStep& alone, std::int64_t readers = 1) {
    if (!ports_ || alone.cycles == 0) return alone.cycles;
    return ports_->alone(alone.cycles, work_.of(task_, step, alone, readers));
  }

 private:
  const TaskDescriptor& task_;
  std::optional<PortSchedule> ports_;
  PortWork work_;
};

// All steps behind each other from `start` on; the first one's weights are loaded first.
template <typename Occupancy>
Cycles steps_end(const TaskDescriptor& task, std::int64_t draining_max, Cycles start, Cycles drain,
                 Occupancy&& occupancy) {
  DrainingSteps draining(draining_max);
  Cycles free = start;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    free = draining.begin(free) + occupancy(step);
    draining.add(free + drain);
  }
  return free + drain;
}

Cycles neural_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  const NeuralEngineConfig& config = chip.neural;
  const ProductWork work = product_work(std::get<NeuralTask>(task.config), chip);
  const NeuralSharing sharing =
      neural_sharing(config, work, std::min(task.bands.rows, task.bands.rows_per_step));
  PortsAlone ports(task, chip);
  const std::int64_t readers = sharing == NeuralSharing::kUnicast ? config.count : 1;
  const auto occupancy_of = [&](std::int64_t step, const StepRows& rows) {
    return ports.of(step, array_step(config, work, rows, sharing), readers);
  };
  // Images are alike but for the last step of the task.
  std::vector<Cycles> of_band;
  const auto occupancy = [&](std::int64_t step) {
    const StepRows rows = step_rows(task, step);
    if (rows.last_of_task) return occupancy_of(step, rows);
    if (step < task.bands.bands()) of_band.push_back(occupancy_of(step, rows));
    return of_band[static_cast<std::size_t>(step % task.bands.bands())];
  };
  return steps_end(task, config.psum_banks,
                   config.task_start_cycles + neural_first_load_cycles(config, work),
                   neural_drain_cycles(config, work), occupancy);
}

Cycles planar_task_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  PortsAlone ports(task, chip);
  return steps_end(
      task, kPlanarStepsDraining, chip.planar.task_start_cycles, chip.planar.latency_cycles,
      [&](std::int64_t step) {
        return ports.of(
            step, {planar_cycles(chip.planar, planar_work(task.config, task.bands.range(step)))});
      });
}

// A transfer's bytes pass the memory and the buffer's ports at the same time, but for its first request
// and its last one. Of a load what is scattered goes at its own pace, and waits for the ports besides.
Cycles transfer_cycles(const TaskDescriptor& task, const ChipConfig& chip) {
  const DmaTime time = dma_time(task, chip);
  const auto* transfer = std::get_if<TransferTask>(&task.config);
  if (transfer == nullptr || chip.state_buffer.banks == 0) return time.cycles;
  PortsAlone ports(task, chip);
  const std::int64_t row = std::int64_t{transfer->channel_count} * transfer->buffer.columns *
                           format_bytes(transfer->buffer.format);
  const std::int64_t port = chip.dma.port_bytes;
  const std::int64_t scatter = scatter_bytes(*transfer, chip);
  const bool apart = task.engine == EngineKind::kLoad && scatter != 0 && scatter < port;
  Cycles passage = 0, blocked = 0;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    const RowRange rows = task.bands.range(step);
    const std::int64_t bytes = (rows.last - rows.first) * row;
    const Cycles dense = ceil_div(bytes, port);
    blocked += ports.of(step, {.cycles = dense}) - dense;
    passage += apart ? ceil_div(bytes, scatter) : dense;
  }
  const std::int64_t requests = std::max<std::int64_t>(1, time.requests);
  return std::max(time.cycles + blocked / requests,
                  time.first + passage - passage / requests + blocked);
}

}  // namespace

Cycles estimate_task(const TaskDescriptor& task, const ChipConfig& chip) {
  constexpr Cycles kSeen = 1;  // the engine sees it in the next cycle
  if (task.engine == EngineKind::kPlanar) return kSeen + planar_task_cycles(task, chip);
  if (task.engine == EngineKind::kNeural) return kSeen + neural_cycles(task, chip);
  if (isa::is_message_engine(task.engine)) return kSeen + isa::message_task_cycles(task, chip);
  return transfer_cycles(task, chip);
}

Cycles estimate_occupancy(const TaskDescriptor& task, const ChipConfig& chip) {
  Cycles beside = 1;
  if (task.engine == EngineKind::kPlanar) {
    beside += chip.planar.task_start_cycles;
  } else if (task.engine == EngineKind::kNeural) {
    const ProductWork work = product_work(std::get<NeuralTask>(task.config), chip);
    beside += chip.neural.task_start_cycles + neural_first_load_cycles(chip.neural, work) +
              neural_drain_cycles(chip.neural, work);
  } else {
    return 0;
  }
  return estimate_task(task, chip) - beside;
}

Cycles estimate_frame(const Frame& frame, const ChipConfig& chip) {
  isa::ByEngine<Cycles> sums{};
  for (const FrameTask& task : frame.tasks) {
    sums[task.descriptor.engine] += estimate_task(task.descriptor, chip);
  }
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace tessera::compile

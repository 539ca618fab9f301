#include "compile/engine_choice.h"

#include <algorithm>
#include <variant>

#include "isa/descriptor_check.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using namespace isa;  // descriptors

Sharing explicit_sharing(StepSharing sharing) {
  return sharing == StepSharing::kUnicast ? Sharing::kUnicast : Sharing::kBroadcast;
}

void choose_neural(const ChipConfig& chip, TaskDescriptor& task) {
  const auto& neural = std::get<NeuralTask>(task.config);
  if (chip.neural.count == 1 || neural.transpose) return;
  if (neural.psum.in_parts()) {  // each engine keeps the sums of its own channel blocks
    task.header.sharing = Sharing::kBroadcast;
    return;
  }
  const std::int64_t rows = std::min(task.bands.rows, task.bands.rows_per_step);
  task.header.sharing =
      explicit_sharing(neural_sharing(chip.neural, product_work(neural, chip), rows));
}

// Of all steps on `engines` engines, behind each other.
Cycles planar_sum(const ChipConfig& chip, const TaskDescriptor& task, Sharing sharing,
                  std::int64_t engines) {
  Cycles cycles = 0;
  for (std::int64_t step = 0; step < task.steps(); ++step) {
    cycles += planar_cycles(chip.planar, planar_work(task.config, task.bands.range(step)), sharing,
                            {.index = 0, .count = engines});
  }
  return cycles;
}

// One way for all steps, unless steps of different sizes are best shared in different ways.
Sharing planar_choice(const ChipConfig& chip, const TaskDescriptor& task, std::int64_t engines) {
  if (engines == 1) return Sharing::kAutomatic;
  const Cycles best = planar_sum(chip, task, Sharing::kAutomatic, engines);
  for (const Sharing sharing : {Sharing::kBroadcast, Sharing::kUnicast}) {
    if (planar_sum(chip, task, sharing, engines) == best) return sharing;
  }
  return Sharing::kAutomatic;
}

struct Surfaces {
  const BufferSurface* inputs[2] = {nullptr, nullptr};
  const BufferSurface* output = nullptr;
};

// Nothing of a task with accumulators, or of another engine.
Surfaces surfaces_of(const TaskDescriptor& task) {
  if (const auto* planar = std::get_if<PlanarTask>(&task.config)) {
    if (planar->in_parts()) return {};
    return {{&planar->inputs[0], planar->input_count > 1 ? &planar->inputs[1] : nullptr},
            &planar->output};
  }
  const auto* filter = std::get_if<NeuralTask>(&task.config);
  if (filter == nullptr || task.engine != EngineKind::kPlanar) return {};
  return {{&filter->moving, nullptr}, &filter->output};
}

bool are_independent(const ChipConfig& chip, const TaskDescriptor& a, const TaskDescriptor& b) {
  const Surfaces first = surfaces_of(a);
  const Surfaces second = surfaces_of(b);
  if (first.output == nullptr || second.output == nullptr) return false;
  const auto touch = [&](const BufferSurface* x, const BufferSurface* y) {
    const std::int64_t partitions = chip.state_buffer.partitions;
    return x != nullptr && y != nullptr &&
           surface_span(*x, partitions).overlaps(surface_span(*y, partitions));
  };
  if (touch(first.output, second.output)) return false;
  for (int i = 0; i < 2; ++i) {
    if (touch(first.inputs[i], second.output) || touch(second.inputs[i], first.output)) {
      return false;
    }
  }
  return true;
}

// Half of the engines each, side by side, where all of them for one after the other take longer.
// The configuration of the second task is hidden, so steps alone count.
bool split_pair(const ChipConfig& chip, TaskDescriptor& a, TaskDescriptor& b) {
  const std::int64_t engines = chip.planar.count;
  const std::int64_t half = engines / 2;
  if (half == 0 || !are_independent(chip, a, b)) return false;
  const Cycles in_turn = planar_sum(chip, a, Sharing::kAutomatic, engines) +
                         planar_sum(chip, b, Sharing::kAutomatic, engines);
  const Cycles at_once = std::max(planar_sum(chip, a, Sharing::kAutomatic, half),
                                  planar_sum(chip, b, Sharing::kAutomatic, engines - half));
  if (at_once >= in_turn) return false;
  a.header.engines = {0, static_cast<std::uint8_t>(half)};
  b.header.engines = {static_cast<std::uint8_t>(half), static_cast<std::uint8_t>(engines - half)};
  a.header.sharing = planar_choice(chip, a, half);
  b.header.sharing = planar_choice(chip, b, engines - half);
  return true;
}

}  // namespace

void choose_engines(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                    std::vector<TaskDescriptor>& tasks) {
  if (chip.neural.count == 1 && chip.planar.count == 1) return;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    TaskDescriptor& task = tasks[i];
    if (task.engine == EngineKind::kNeural) choose_neural(chip, task);
    if (task.engine != EngineKind::kPlanar || chip.planar.count == 1) continue;
    if (i + 1 < tasks.size() && tasks[i + 1].engine == EngineKind::kPlanar &&
        segments[i] == segments[i + 1] && split_pair(chip, task, tasks[i + 1])) {
      ++i;
      continue;
    }
    task.header.sharing = planar_choice(chip, task, chip.planar.count);
  }
}

}  // namespace tessera::compile

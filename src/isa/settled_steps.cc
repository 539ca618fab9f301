#include "isa/settled_steps.h"

#include <variant>

namespace tessera::isa {
namespace {

bool loads_kernels(const TaskDescriptor& task) {
  const auto* kernel = std::get_if<KernelTask>(&task.config);
  return kernel != nullptr && kernel->source.base == BaseIndex::kWeights;
}

}  // namespace

SettledSteps::SettledSteps(const Program& program, const StepClocks& clocks, const Segment& segment)
    : program_(program),
      clocks_(clocks),
      first_(segment.task_first),
      queues_(clocks.groups().size()),
      taken_(segment.task_last - segment.task_first, 0) {
  for (TaskId id = segment.task_first; id < segment.task_last; ++id) {
    Queue& queue = queues_[clocks_.group(id)];
    queue.tasks.push_back(id);
    queue.kernels_only = queue.kernels_only && loads_kernels(program_.tasks[id]);
  }
}

void SettledSteps::take(const StepRef& step) {
  Queue& queue = queues_[clocks_.group(step.task)];
  queue.latest = step;
  ++taken_[step.task - first_];
  if (++queue.step < program_.tasks[step.task].steps()) return;
  queue.step = 0;
  ++queue.at;
}

bool SettledSteps::is_taken(const StepRef& step) const {
  return step.step < taken_[step.task - first_];
}

StepClock SettledSteps::known_to_next(const Queue& queue) const {
  StepClock clock = clocks_.nothing();
  if (queue.latest.valid()) clocks_.know(queue.latest, clock);
  const TaskDescriptor& task = program_.tasks[queue.tasks[queue.at]];
  for (const Dependency& dependency : task.dependencies) {
    if (dependency.task < first_ || dependency.task - first_ >= taken_.size()) continue;
    const std::int64_t needed =
        steps_needed(dependency, queue.step + 1, program_.tasks[dependency.task].steps());
    if (needed <= 0) continue;
    const StepRef awaited{dependency.task, needed - 1};
    if (is_taken(awaited)) {
      clocks_.learn(awaited, clock);
      continue;
    }
    // It comes behind what has begun in its own queue, which is finished when it is.
    const StepRef& before = queues_[clocks_.group(dependency.task)].latest;
    if (before.valid()) clocks_.learn(before, clock);
  }
  return clock;
}

StepClock SettledSteps::known() const { return known(/*beside_kernels=*/false); }
StepClock SettledSteps::known_beside_kernels() const { return known(/*beside_kernels=*/true); }

StepClock SettledSteps::known(bool beside_kernels) const {
  StepClock common = clocks_.everything();
  for (const Queue& queue : queues_) {
    if (queue.at == queue.tasks.size() || (beside_kernels && queue.kernels_only)) continue;
    clocks_.keep_common(known_to_next(queue), common);
  }
  return common;
}

}  // namespace tessera::isa

#include "link/redundant_dependencies.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "isa/descriptor_check.h"
#include "isa/engine_groups.h"
#include "isa/step_clocks.h"

namespace tessera::link {
namespace {

using isa::Dependency;
using isa::Segment;
using isa::StepClock;
using isa::TaskDescriptor;
using isa::TaskId;

class Reducer {
 public:
  explicit Reducer(std::vector<TaskDescriptor>& tasks) : tasks_(tasks) {}

  Result<std::int64_t> run(const std::vector<Segment>& segments) {
    TESSERA_RETURN_IF_ERROR(number_steps());
    std::int64_t dropped = 0;
    for (const Segment& segment : segments) {
      segment_first_ = segment.task_first;
      for (TaskId id = segment.task_first; id < segment.task_last; ++id) dropped += take(id);
    }
    return dropped;
  }

 private:
  Status number_steps() {
    std::int64_t total = 0;
    for (const TaskDescriptor& task : tasks_) {
      const isa::Bands& bands = task.bands;
      if (bands.images == 0 || bands.rows == 0 || bands.rows_per_step == 0 ||
          bands.bands() > isa::kStepsMax / bands.images || total + task.steps() > isa::kStepsMax) {
        return Error{
            ErrorCode::kInvalidModel,
            fmt::format("package: task {}: {} images of {} rows, {} a step: allowed are 1 "
                        "to {} steps in all tasks",
                        task.id, bands.images, bands.rows, bands.rows_per_step, isa::kStepsMax)};
      }
      total += task.steps();
    }
    clocks_.emplace(tasks_);
    // Each step may learn of all groups.
    constexpr std::int64_t kEntriesMax = isa::kStepsMax * isa::kCommonEngineKindCount;
    if (total * static_cast<std::int64_t>(clocks_->groups().size()) > kEntriesMax) {
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("package: {} steps in all tasks and {} sets of engines to be "
                               "followed; allowed is a product of {}",
                               total, clocks_->groups().size(), kEntriesMax)};
    }
    clocks_->allocate();
    return {};
  }

  // Adds what step j (1-based) learns by waiting for `line`.
  void learn(const TaskDescriptor& task, const Dependency& line, std::int64_t j,
             StepClock& clock) const {
    if (line.task > task.id || line.task < segment_first_) return;
    const std::int64_t needed = isa::steps_needed(line, j, tasks_[line.task].steps());
    if (needed == 0) return;
    // What earlier steps of the task knew, the queue has passed on.
    if (line.task != task.id) {
      clocks_->learn({line.task, needed - 1}, clock);
    } else {
      clocks_->note({line.task, needed - 1}, clock);
    }
  }

  bool is_redundant(const TaskDescriptor& task, std::size_t index,
                    const std::vector<bool>& kept) const {
    const Dependency& line = task.dependencies[index];
    if (line.task > task.id) return false;
    if (line.task < segment_first_) return true;  // finished before the segment began
    const TaskDescriptor& other = tasks_[line.task];
    if (line.task != task.id && clocks_->in_order(line.task, task.id)) return true;
    StepClock clock;
    clocks_->begin({task.id, 0}, clock);
    for (std::int64_t j = 1; j <= task.steps(); ++j) {
      const std::int64_t needed = isa::steps_needed(line, j, other.steps());
      if (needed == 0) continue;
      // What earlier steps learned they keep, so the others are asked only where it matters.
      for (std::size_t k = 0; k < kept.size(); ++k) {
        if (kept[k] && k != index) learn(task, task.dependencies[k], j, clock);
      }
      if (!clocks_->knows(clock, {line.task, needed - 1})) return false;
    }
    return true;
  }

  std::int64_t take(TaskId id) {
    TaskDescriptor& task = tasks_[id];
    std::vector<bool> kept(task.dependencies.size(), true);
    const auto lines = static_cast<std::int64_t>(kept.size());
    if (task.steps() <= kComparisonsMax / std::max<std::int64_t>(1, lines * lines)) {
      // The oldest first: what lies further back follows from what lies nearer.
      std::vector<std::size_t> order(kept.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return task.dependencies[a].task < task.dependencies[b].task;
      });
      for (const std::size_t index : order) kept[index] = !is_redundant(task, index, kept);
    }
    std::size_t left = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i]) task.dependencies[left++] = task.dependencies[i];
    }
    task.dependencies.resize(left);
    StepClock clock;
    clocks_->begin({id, 0}, clock);
    for (std::int64_t j = 1; j <= task.steps(); ++j) {
      for (const Dependency& line : task.dependencies) learn(task, line, j, clock);
      clocks_->keep({id, j - 1}, clock);
    }
    return lines - static_cast<std::int64_t>(left);
  }

  std::vector<TaskDescriptor>& tasks_;
  std::optional<isa::StepClocks> clocks_;
  TaskId segment_first_ = 0;
};

}  // namespace

Result<std::int64_t> drop_redundant_dependencies(const std::vector<Segment>& segments,
                                                 std::vector<TaskDescriptor>& tasks) {
  return Reducer(tasks).run(segments);
}

}  // namespace tessera::link

#include "isa/step_order.h"

#include <fmt/format.h>

#include <array>
#include <vector>

namespace tessera::isa {
namespace {

class StepOrder {
 public:
  StepOrder(const Program& program, const ChipConfig& chip, const Segment& segment)
      : program_(program),
        chip_(chip),
        segment_(segment),
        done_(segment.task_last - segment.task_first, 0) {}

  // Runs as far as it goes, engine after engine.
  Status run(const StepVisitor& visit) {
    ByEngine<std::vector<TaskId>> queues;
    for (TaskId id = segment_.task_first; id < segment_.task_last; ++id) {
      queues[program_.tasks[id].engine].push_back(id);
    }
    ByEngine<std::size_t> at{};
    TaskId issued = segment_.task_first;
    std::int64_t in_flight = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t engine = 0; engine < queues.size(); ++engine) {
        while (at[engine] < queues[engine].size()) {
          while (in_flight < chip_.task_manager.task_buffer_entries &&
                 issued < segment_.task_last) {
            ++issued;
            ++in_flight;
          }
          const TaskId id = queues[engine][at[engine]];
          if (id >= issued || !may_step(id)) break;
          TESSERA_RETURN_IF_ERROR(visit(id, done(id)++));
          moved = true;
          if (done(id) == program_.tasks[id].steps()) {
            ++at[engine];
            --in_flight;
          }
        }
      }
    }
    for (std::size_t engine = 0; engine < queues.size(); ++engine) {
      if (at[engine] < queues[engine].size()) return deadlock(queues[engine][at[engine]], issued);
    }
    return {};
  }

 private:
  std::int64_t& done(TaskId id) { return done_[id - segment_.task_first]; }

  std::int64_t needed_steps(const Dependency& dependency, std::int64_t j) const {
    return steps_needed(dependency, j, program_.tasks[dependency.task].steps());
  }

  bool may_step(TaskId id) {
    for (const Dependency& dependency : program_.tasks[id].dependencies) {
      if (dependency.task < segment_.task_first) continue;
      if (missing(dependency, done(id) + 1)) return false;
    }
    return true;
  }

  // Of a task in a later segment no step is ever finished.
  bool missing(const Dependency& dependency, std::int64_t j) {
    const std::int64_t finished = dependency.task < segment_.task_last ? done(dependency.task) : 0;
    return needed_steps(dependency, j) > finished;
  }

  Error deadlock(TaskId id, TaskId issued) {
    std::string message = fmt::format("deadlock: {} never starts", describe_task(program_, id));
    if (id >= issued) {
      message = fmt::format("deadlock: {} does not find room in the task buffer ({} entries)",
                            describe_task(program_, id), chip_.task_manager.task_buffer_entries);
    } else {
      for (const Dependency& dependency : program_.tasks[id].dependencies) {
        if (dependency.task < segment_.task_first || !missing(dependency, done(id) + 1)) continue;
        message = fmt::format("deadlock: step {} of {} waits for step {} of {}", done(id) + 1,
                              describe_task(program_, id), needed_steps(dependency, done(id) + 1),
                              describe_task(program_, dependency.task));
        break;
      }
    }
    return {ErrorCode::kInvalidModel, std::move(message)};
  }

  const Program& program_;
  const ChipConfig& chip_;
  const Segment& segment_;
  std::vector<std::int64_t> done_;  // finished steps of each of the segment's tasks
};

}  // namespace

Status for_each_step(const Program& program, const ChipConfig& chip, const Segment& segment,
                     const StepVisitor& visit) {
  return StepOrder(program, chip, segment).run(visit);
}

std::string describe_task(const Program& program, TaskId id) {
  const TaskDescriptor& task = program.tasks[id];
  const char* layer =
      task.layer < program.hints.size() ? program.hints[task.layer].name.c_str() : "?";
  return fmt::format("task {} ({}, layer '{}')", id, engine_kind_name(task.engine), layer);
}

}  // namespace tessera::isa

#include "isa/step_order.h"

#include <fmt/format.h>

#include <vector>

#include "isa/engine_groups.h"

namespace tessera::isa {
namespace {

class StepOrder {
 public:
  StepOrder(const Program& program, const ChipConfig& chip, const Segment& segment,
            const TaskOwners& cores)
      : program_(program),
        chip_(chip),
        segment_(segment),
        cores_(cores),
        groups_(program.tasks, cores.core),
        queues_(groups_.size()),
        at_(groups_.size(), 0),
        done_(segment.task_last - segment.task_first, 0) {}

  // Runs as far as it goes, one group of engines after the other.
  Status run(const StepVisitor& visit) {
    for (TaskId id = segment_.task_first; id < segment_.task_last; ++id) {
      queues_[groups_.add(program_.tasks[id], cores_.of(id))].push_back(id);
    }
    count_tasks();
    for (bool moved = true; moved;) {
      moved = false;
      for (GroupIndex group = 0; group < queues_.size(); ++group) {
        while (at_[group] < queues_[group].size()) {
          const TaskId id = queues_[group][at_[group]];
          TaskBuffer& buffer = buffers_[cores_.of(id)];
          fill(buffer);
          if (id >= buffer.issued || !is_at_head(group, id) || !may_step(id)) break;
          TESSERA_RETURN_IF_ERROR(visit(id, done(id)++));
          moved = true;
          if (done(id) == program_.tasks[id].steps()) {
            ++at_[group];
            --buffer.in_flight;
          }
        }
      }
    }
    for (GroupIndex group = 0; group < queues_.size(); ++group) {
      if (at_[group] < queues_[group].size()) return deadlock(first_waiting());
    }
    return {};
  }

 private:
  // Of a core: its tasks lie side by side in the segment.
  struct TaskBuffer {
    TaskId issued = 0, last = 0;
    std::int64_t in_flight = 0;
  };
  void count_tasks() {
    for (TaskId id = segment_.task_first; id < segment_.task_last; ++id) {
      const std::uint32_t core = cores_.of(id);
      if (core >= buffers_.size()) buffers_.resize(core + 1);
      TaskBuffer& buffer = buffers_[core];
      if (buffer.last == 0) buffer.issued = id;
      buffer.last = id + 1;
    }
  }
  void fill(TaskBuffer& buffer) const {
    while (buffer.in_flight < chip_.task_manager.task_buffer_entries &&
           buffer.issued < buffer.last) {
      ++buffer.issued;
      ++buffer.in_flight;
    }
  }

  std::int64_t& done(TaskId id) { return done_[id - segment_.task_first]; }

  std::int64_t needed_steps(const Dependency& dependency, std::int64_t j) const {
    return steps_needed(dependency, j, program_.tasks[dependency.task].steps());
  }

  // Whether no task of another group is before it in the queues of its engines.
  bool is_at_head(GroupIndex group, TaskId id) const {
    if (queues_.size() == kCommonEngineKindCount) return true;
    for (GroupIndex other = 0; other < queues_.size(); ++other) {
      if (other == group || at_[other] == queues_[other].size()) continue;
      if (queues_[other][at_[other]] < id && groups_.overlap(group, other)) return false;
    }
    return true;
  }

  // Of the tasks that wait, the one at the head of all its queues; the first by group.
  TaskId first_waiting() const {
    for (GroupIndex group = 0; group < queues_.size(); ++group) {
      if (at_[group] == queues_[group].size()) continue;
      const TaskId id = queues_[group][at_[group]];
      if (is_at_head(group, id)) return id;
    }
    return kNoTask;  // not reached: the first task of all is at the head
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

  std::string describe(TaskId id) const { return describe_task(program_, id, cores_); }

  Error deadlock(TaskId id) {
    std::string message = fmt::format("deadlock: {} never starts", describe(id));
    if (id >= buffers_[cores_.of(id)].issued) {
      message = fmt::format("deadlock: {} does not find room in the task buffer ({} entries)",
                            describe(id), chip_.task_manager.task_buffer_entries);
    } else {
      for (const Dependency& dependency : program_.tasks[id].dependencies) {
        if (dependency.task < segment_.task_first || !missing(dependency, done(id) + 1)) continue;
        message = fmt::format("deadlock: step {} of {} waits for step {} of {}", done(id) + 1,
                              describe(id), needed_steps(dependency, done(id) + 1),
                              describe(dependency.task));
        break;
      }
    }
    return {ErrorCode::kInvalidModel, std::move(message)};
  }

  const Program& program_;
  const ChipConfig& chip_;
  const Segment& segment_;
  const TaskOwners& cores_;
  EngineGroups groups_;
  std::vector<std::vector<TaskId>> queues_;  // by group
  std::vector<std::size_t> at_;              // the task at hand, by group
  std::vector<std::int64_t> done_;           // finished steps of each of the segment's tasks
  std::vector<TaskBuffer> buffers_;          // by core
};

}  // namespace

Status for_each_step(const Program& program, const ChipConfig& chip, const Segment& segment,
                     const StepVisitor& visit, const TaskOwners& cores) {
  return StepOrder(program, chip, segment, cores).run(visit);
}

std::string describe_task(const Program& program, TaskId id, const TaskOwners& cores) {
  const TaskDescriptor& task = program.tasks[id];
  const char* layer =
      task.layer < program.hints.size() ? program.hints[task.layer].name.c_str() : "?";
  const std::string what = fmt::format("({}, layer '{}')", engine_kind_name(task.engine), layer);
  if (cores.core.empty()) return fmt::format("task {} {}", id, what);
  return fmt::format("core {} task {} {}", cores.core[id], cores.number[id], what);
}

}  // namespace tessera::isa

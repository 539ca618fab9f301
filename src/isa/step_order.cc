#include "isa/step_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
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
          if (!meets(id, moved)) break;
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

  // Whether all cores that share the load have come to its next step. One that comes is noted, and the
  // others may go on then.
  bool meets(TaskId id, bool& moved) {
    const LoadShare& share = program_.tasks[id].header.share;
    if (share.number == 0) return true;
    std::map<std::uint32_t, std::int64_t>& came = shares_[share.number];  // steps, by core
    std::int64_t& own = came[cores_.of(id)];
    if (own <= done(id)) {
      own = done(id) + 1;
      moved = true;
    }
    if (static_cast<int>(came.size()) < std::popcount(share.cores)) return false;
    return std::ranges::all_of(came, [&](const auto& one) { return one.second > done(id); });
  }
  // A core of the task's share that has not come to its next step.
  std::optional<std::uint32_t> missed(TaskId id) const {
    const LoadShare& share = program_.tasks[id].header.share;
    const auto found = shares_.find(share.number);
    if (share.number == 0 || found == shares_.end()) return std::nullopt;
    for (std::uint64_t rest = share.cores; rest != 0; rest &= rest - 1) {
      const auto core = static_cast<std::uint32_t>(std::countr_zero(rest));
      const auto came = found->second.find(core);
      if (came == found->second.end() || came->second <= done_[id - segment_.task_first]) {
        return core;
      }
    }
    return std::nullopt;
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
    } else if (const auto core = missed(id)) {
      message = fmt::format("deadlock: {} waits for core {} of its share {}", describe(id), *core,
                            program_.tasks[id].header.share.number);
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
  // By share and core: to how many of its steps the core has come.
  std::map<std::uint32_t, std::map<std::uint32_t, std::int64_t>> shares_;
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

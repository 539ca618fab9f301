#include "isa/card_program.h"

#include <fmt/format.h>

namespace tessera::isa {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

class Merger {
 public:
  explicit Merger(const CardProgram& program) : from_(program), places_(program.cores.size()) {}

  Result<MergedProgram> run() {
    if (from_.cores.empty()) return invalid("a program for no core");
    TESSERA_RETURN_IF_ERROR(check_segments());
    number_tasks();
    for (const auto& [core, id] : order_) TESSERA_RETURN_IF_ERROR(add_task(core, id));
    const Program& first = from_.cores[0];
    Program& to = merged_.program;
    to.chip_fingerprint = first.chip_fingerprint;
    to.chip_name = first.chip_name;
    to.workspace_bytes = first.workspace_bytes;
    to.input_bytes = first.input_bytes;
    to.output_bytes = first.output_bytes;
    to.inputs = first.inputs;
    to.outputs = first.outputs;
    to.hints = first.hints;
    return std::move(merged_);
  }

 private:
  Status check_segments() const {
    const Program& first = from_.cores[0];
    for (std::size_t core = 0; core < from_.cores.size(); ++core) {
      const Program& program = from_.cores[core];
      if (program.segments.size() != first.segments.size()) {
        return invalid(fmt::format("core {} has {} segments, core 0 has {}", core,
                                   program.segments.size(), first.segments.size()));
      }
      if (program.workspace_bytes != first.workspace_bytes ||
          program.input_bytes != first.input_bytes || program.output_bytes != first.output_bytes) {
        return invalid(
            fmt::format("core {} has regions of {}, {} and {} bytes, core 0 of {}, {} "
                        "and {}",
                        core, program.workspace_bytes, program.input_bytes, program.output_bytes,
                        first.workspace_bytes, first.input_bytes, first.output_bytes));
      }
      TaskId next = 0;
      for (const Segment& segment : program.segments) {
        if (segment.task_first != next || segment.task_last < next ||
            segment.task_last > program.tasks.size()) {
          return invalid(fmt::format("core {}: segments do not follow each other: tasks {} to {}",
                                     core, segment.task_first, segment.task_last));
        }
        next = segment.task_last;
      }
      if (next != program.tasks.size()) {
        return invalid(fmt::format("core {}: task {} belongs to no segment", core, next));
      }
    }
    return {};
  }

  void number_tasks() {
    for (std::size_t core = 0; core < places_.size(); ++core) {
      places_[core].resize(from_.cores[core].tasks.size());
    }
    for (std::size_t s = 0; s < from_.cores[0].segments.size(); ++s) {
      Segment segment;
      segment.host_steps = from_.cores[0].segments[s].host_steps;
      segment.task_first = static_cast<TaskId>(order_.size());
      for (std::size_t core = 0; core < places_.size(); ++core) {
        const Segment& its = from_.cores[core].segments[s];
        for (TaskId id = its.task_first; id < its.task_last; ++id) {
          places_[core][id] = static_cast<TaskId>(order_.size());
          order_.emplace_back(static_cast<std::uint32_t>(core), id);
        }
      }
      segment.task_last = static_cast<TaskId>(order_.size());
      merged_.program.segments.push_back(std::move(segment));
    }
  }

  Status add_task(std::uint32_t core, TaskId id) {
    TaskDescriptor task = from_.cores[core].tasks[id];
    const auto wrong = [&](const std::string& what) {
      return invalid(fmt::format("core {} task {}: {}", core, id, what));
    };
    if (task.id != id) return wrong(fmt::format("its id is {}", task.id));
    task.id = places_[core][id];
    for (Dependency& dependency : task.dependencies) {
      if (dependency.task >= places_[core].size()) {
        return wrong(
            fmt::format("depends on task {} of {}", dependency.task, places_[core].size()));
      }
      dependency.task = places_[core][dependency.task];
    }
    for (const RemoteDependency& remote : task.remote) {
      if (remote.core >= places_.size() || remote.core == core) {
        return wrong(fmt::format("depends on core {}; allowed are the others of {} cores",
                                 remote.core, places_.size()));
      }
      if (remote.on.task >= places_[remote.core].size()) {
        return wrong(fmt::format("depends on task {} of core {}, which has {}", remote.on.task,
                                 remote.core, places_[remote.core].size()));
      }
      task.dependencies.push_back(remote.on);
      task.dependencies.back().task = places_[remote.core][remote.on.task];
    }
    task.remote.clear();
    merged_.program.tasks.push_back(std::move(task));
    merged_.cores.core.push_back(core);
    merged_.cores.number.push_back(id);
    return {};
  }

  const CardProgram& from_;
  std::vector<std::vector<TaskId>> places_;              // of each core's tasks, in the list
  std::vector<std::pair<std::uint32_t, TaskId>> order_;  // core and task
  MergedProgram merged_;
};

}  // namespace

Result<MergedProgram> merge(const CardProgram& program) { return Merger(program).run(); }

}  // namespace tessera::isa

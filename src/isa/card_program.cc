#include "isa/card_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

namespace tessera::isa {
namespace {

Error invalid(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

Status check_memories(const CardProgram& program) {
  if (program.memory_of_core.empty()) return {};
  if (program.memory_of_core.size() != program.cores.size()) {
    return invalid(fmt::format("memories of {} cores; the program has {}",
                               program.memory_of_core.size(), program.cores.size()));
  }
  std::array<bool, kCardMemoriesMax> beside{};
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const std::uint8_t memory = program.memory_of_core[core];
    if (memory >= kCardMemoriesMax) {
      return invalid(fmt::format("core {} has memory {}, allowed 0 to {}", core, memory,
                                 kCardMemoriesMax - 1));
    }
    beside[memory] = true;
  }
  for (int memory = 0; memory < program.memories(); ++memory) {
    if (beside[static_cast<std::size_t>(memory)]) continue;
    return invalid(fmt::format("memory {} of {} is beside no core", memory, program.memories()));
  }
  return {};
}

// Segments of `core`, as many as of the first.
Status check_segments(const CardProgram& card, std::size_t core) {
  const Program& first = card.cores[0];
  const Program& program = card.cores[core];
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
      return invalid(fmt::format("core {}: segments do not follow each other: tasks {} to {}", core,
                                 segment.task_first, segment.task_last));
    }
    next = segment.task_last;
  }
  if (next == program.tasks.size()) return {};
  return invalid(fmt::format("core {}: task {} belongs to no segment", core, next));
}

Status check_counts(const CardProgram& program) {
  if (program.cores.empty()) return invalid("a program for no core");
  if (program.cores.size() > kSharingCoresMax) {
    return invalid(fmt::format("a program for {} cores, allowed 1 to {}", program.cores.size(),
                               kSharingCoresMax));
  }
  const auto cores = static_cast<int>(program.cores.size());
  if (program.cards < 1 || program.cards > cores) {
    return invalid(
        fmt::format("{} cores on {} cards, allowed 1 to {}", cores, program.cards, cores));
  }
  const auto images = static_cast<std::size_t>(program.images);
  if (program.images < 1 || cores % program.images != 0) {
    return invalid(fmt::format("{} images of {} cores, allowed are divisors of the cores",
                               program.images, cores));
  }
  for (const auto& slots : {&program.cores[0].inputs, &program.cores[0].outputs}) {
    if (slots->size() % images == 0) continue;
    return invalid(fmt::format("{} inputs and {} outputs of {} images, which have as many each",
                               program.cores[0].inputs.size(), program.cores[0].outputs.size(),
                               images));
  }
  return {};
}

class Merger {
 public:
  explicit Merger(const CardProgram& program) : from_(program), places_(program.cores.size()) {}

  Result<MergedProgram> run() {
    TESSERA_RETURN_IF_ERROR(check_cores(from_));
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
    merged_.cores.memory = from_.memory_of_core;
    return std::move(merged_);
  }

 private:
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

int CardProgram::memories() const {
  if (memory_of_core.empty()) return 1;
  return 1 + *std::max_element(memory_of_core.begin(), memory_of_core.end());
}

std::size_t CardProgram::task_count() const {
  std::size_t count = 0;
  for (const Program& core : cores) count += core.tasks.size();
  return count;
}

std::int64_t CardProgram::dependency_count() const {
  std::int64_t count = 0;
  for (const Program& core : cores) count += core.dependency_count();
  return count;
}

std::int64_t CardProgram::remote_dependency_count() const {
  std::int64_t count = 0;
  for (const Program& core : cores) {
    for (const TaskDescriptor& task : core.tasks) count += std::ssize(task.remote);
  }
  return count;
}

std::int64_t CardProgram::share_count() const {
  std::set<std::uint32_t> numbers;
  for (const Program& core : cores) {
    for (const TaskDescriptor& task : core.tasks) numbers.insert(task.header.share.number);
  }
  numbers.erase(0);
  return std::ssize(numbers);
}

bool operator==(const Program& a, const Program& b) {
  const auto parts = [](const Program& of) {
    return std::tie(of.chip_fingerprint, of.chip_name, of.stream, of.segments, of.weights,
                    of.weights_file, of.workspace_bytes, of.input_bytes, of.output_bytes, of.region,
                    of.inputs, of.outputs, of.hints, of.pieces, of.dependencies_dropped);
  };
  return parts(a) == parts(b);
}

Status check_cores(const CardProgram& program) {
  TESSERA_RETURN_IF_ERROR(check_counts(program));
  TESSERA_RETURN_IF_ERROR(check_memories(program));
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    TESSERA_RETURN_IF_ERROR(check_segments(program, core));
  }
  return {};
}

Result<MergedProgram> merge(const CardProgram& program) { return Merger(program).run(); }

}  // namespace tessera::isa

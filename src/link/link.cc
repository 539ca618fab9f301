#include "link/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "arch/architecture_file.h"
#include "isa/encoding.h"
#include "isa/header_operands.h"
#include "link/redundant_dependencies.h"
#include "link/relocate.h"

namespace tessera::link {
namespace {

using isa::Dependency;
using isa::Frame;
using isa::FrameTask;
using isa::Program;
using isa::TaskDescriptor;
using isa::TaskId;
using isa::Unlinked;

// Keeps numerator * step + offset within 64 bits.
constexpr std::int64_t kOffsetMax = std::int64_t{1} << 61;

// Frames become one list of tasks; dependencies get task ids.
class Linker {
 public:
  // `consumed`: the package, if its frames are not needed any more; or null.
  Linker(const Unlinked& package, Unlinked* consumed, const LinkOptions& options)
      : package_(package), consumed_(consumed), options_(options) {}

  Result<Program> run() {
    number_tasks();
    for (std::size_t f = 0; f < package_.frames.size(); ++f) {
      const Frame& frame = package_.frames[f];
      if (frame.segment >= package_.segments ||
          (f > 0 && frame.segment < package_.frames[f - 1].segment)) {
        return broken(f, fmt::format("segment {} of {}", frame.segment, package_.segments));
      }
      TESSERA_RETURN_IF_ERROR(add_tasks(f));
    }
    add_segments();
    if (options_.serial) {
      make_serial();
    } else if (!options_.keep_redundant) {
      TESSERA_TRY(const std::int64_t dropped,
                  drop_redundant_dependencies(program_.segments, program_.tasks));
      program_.dependencies_dropped = package_.dependencies_dropped + dropped;
    }
    encode_stream();
    program_.chip_fingerprint = package_.chip_fingerprint;
    program_.chip_name = package_.chip_name;
    program_.weights = package_.weights;
    program_.workspace_bytes = package_.workspace_bytes;
    program_.input_bytes = package_.input_bytes;
    program_.output_bytes = package_.output_bytes;
    program_.inputs = package_.inputs;
    program_.outputs = package_.outputs;
    program_.hints = package_.hints;
    return std::move(program_);
  }

 private:
  static Error broken(std::size_t frame, const std::string& what) {
    return {ErrorCode::kInvalidModel, fmt::format("package: frame {}: {}", frame, what)};
  }

  void number_tasks() {
    TaskId next = 0;
    for (const Frame& frame : package_.frames) {
      first_task_.push_back(next);
      next += static_cast<TaskId>(frame.tasks.size());
    }
    first_task_.push_back(next);
    program_.tasks.reserve(next);
    program_.pieces.reserve(next);
  }
  TaskId tasks_of(std::size_t frame) const { return first_task_[frame + 1] - first_task_[frame]; }

  // In one memory are the tasks of frames to come and those of the program.
  Status add_tasks(std::size_t frame) {
    if (consumed_ == nullptr) {
      for (const FrameTask& task : package_.frames[frame].tasks) {
        TESSERA_RETURN_IF_ERROR(add_task(frame, task, task.descriptor));
      }
      return {};
    }
    for (FrameTask& task : consumed_->frames[frame].tasks) {
      TESSERA_RETURN_IF_ERROR(add_task(frame, task, std::move(task.descriptor)));
    }
    std::vector<FrameTask>().swap(consumed_->frames[frame].tasks);  // {} would keep the memory
    return {};
  }

  Status add_task(std::size_t frame, const FrameTask& framed, TaskDescriptor task) {
    task.id = static_cast<TaskId>(program_.tasks.size());
    task.layer = package_.frames[frame].layer;
    task.dependencies.clear();
    for (const isa::FrameDependency& d : framed.dependencies) {
      if (d.frame >= package_.frames.size() || d.task >= tasks_of(d.frame) || d.denominator <= 0) {
        return broken(frame, fmt::format("depends on task {} of frame {}", d.task, d.frame));
      }
      if (d.offset > kOffsetMax || d.offset < -kOffsetMax) {
        return broken(frame, fmt::format("a dependency's offset is {}, allowed {} to {}", d.offset,
                                         -kOffsetMax, kOffsetMax));
      }
      add_dependency({first_task_[d.frame] + d.task, d.numerator, d.denominator, d.offset}, task);
    }
    program_.tasks.push_back(std::move(task));
    program_.pieces.push_back(framed.piece);
    return {};
  }

  // Equal slopes on the same task: the higher line holds for both.
  static void add_dependency(const Dependency& dependency, TaskDescriptor& task) {
    for (Dependency& other : task.dependencies) {
      if (other.task == dependency.task && other.numerator == dependency.numerator &&
          other.denominator == dependency.denominator) {
        other.offset = std::max(other.offset, dependency.offset);
        return;
      }
    }
    task.dependencies.push_back(dependency);
  }

  void add_segments() {
    program_.segments.resize(package_.segments);
    std::size_t f = 0;
    for (std::uint32_t s = 0; s < package_.segments; ++s) {
      isa::Segment& segment = program_.segments[s];
      segment.task_first = first_task_[f];
      while (f < package_.frames.size() && package_.frames[f].segment == s) ++f;
      segment.task_last = first_task_[f];
      if (s >= package_.host_steps.size()) continue;
      segment.host_steps.push_back(package_.host_steps[s]);
    }
    merge_empty_segments();
  }

  // Host steps with no task between them follow one segment.
  void merge_empty_segments() {
    std::vector<isa::Segment> merged;
    for (isa::Segment& segment : program_.segments) {
      if (!merged.empty() && segment.task_first == segment.task_last) {
        for (auto& step : segment.host_steps) merged.back().host_steps.push_back(std::move(step));
      } else {
        merged.push_back(std::move(segment));
      }
    }
    program_.segments = std::move(merged);
  }

  // Every task waits for the one before it in its segment, and for its own steps as before.
  void make_serial() {
    for (const isa::Segment& segment : program_.segments) {
      for (TaskId id = segment.task_first; id < segment.task_last; ++id) {
        TaskDescriptor& task = program_.tasks[id];
        std::erase_if(task.dependencies, [&](const Dependency& line) { return line.task != id; });
        if (id == segment.task_first) continue;
        task.dependencies.push_back({id - 1, 0, 1, program_.tasks[id - 1].steps()});
      }
    }
  }

  void encode_stream() {
    if (options_.name_operands) {
      for (TaskDescriptor& task : program_.tasks) isa::name_operands(task);
    }
    isa::encode_stream(program_);
  }

  const Unlinked& package_;
  Unlinked* const consumed_;
  const LinkOptions& options_;
  std::vector<TaskId> first_task_;  // of each frame, and the count
  Program program_;
};

Result<Program> link_package(const Unlinked& package, Unlinked* consumed, const ChipConfig& chip,
                             const LinkOptions& options) {
  if (package.chip_fingerprint != fingerprint(chip)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the package was compiled for chip '{}' (fingerprint {:016x}), this "
                    "chip is '{}' ({:016x}); compile the model for it",
                    package.chip_name, package.chip_fingerprint, chip.name, fingerprint(chip))};
  }
  TESSERA_TRY(Program program, Linker(package, consumed, options).run());
  if (options.region) TESSERA_RETURN_IF_ERROR(relocate(program, chip, *options.region));
  return program;
}

}  // namespace

Result<Program> link(const Unlinked& package, const ChipConfig& chip, const LinkOptions& options) {
  return link_package(package, nullptr, chip, options);
}

Result<Program> link(Unlinked&& package, const ChipConfig& chip, const LinkOptions& options) {
  Unlinked consumed = std::move(package);
  return link_package(consumed, &consumed, chip, options);
}

}  // namespace tessera::link

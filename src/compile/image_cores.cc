#include "compile/image_cores.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "base/quantity.h"
#include "compile/share_memories.h"
#include "compile/surface_conventions.h"
#include "isa/encoding.h"

namespace tessera::compile {
namespace {

using isa::BaseIndex;
using isa::DramAddress;
using isa::Program;
using isa::TaskDescriptor;

class ImageCores {
 public:
  ImageCores(const isa::CardProgram& team, const std::vector<std::uint8_t>& memory_of_core)
      : team_(team),
        first_(team.cores.front()),
        memory_of_core_(memory_of_core),
        images_(memory_of_core.size() / team.cores.size()) {
    strides_[BaseIndex::kWorkspace] = round_up(first_.workspace_bytes, kAlignmentBytes);
    strides_[BaseIndex::kInput] = round_up(first_.input_bytes, kAlignmentBytes);
    strides_[BaseIndex::kOutput] = round_up(first_.output_bytes, kAlignmentBytes);
  }

  Result<isa::CardProgram> run(bool share) {
    for (const Program& core : team_.cores) TESSERA_RETURN_IF_ERROR(check(core));
    for (std::size_t image = 0; image < images_; ++image) {
      for (std::size_t core = 0; core < team_.cores.size(); ++core) add_tasks(image, core);
    }
    if (share && tasks_.size() > 1) share_loads(memory_of_core_, tasks_);
    isa::CardProgram card;
    card.memory_of_core = memory_of_core_;
    for (std::size_t core = 0; core < tasks_.size(); ++core) {
      card.cores.push_back(
          program_of(team_.cores[core % team_.cores.size()], std::move(tasks_[core])));
    }
    add_slots(card.cores.front());
    return card;
  }

 private:
  static Status check(const Program& core) {
    for (const TaskDescriptor& task : core.tasks) {
      if (!isa::is_message_engine(task.engine)) continue;
      return Error{ErrorCode::kUnsupported,
                   fmt::format("an image a core: task {} is of the network edge, of which there is "
                               "one; run it on one core",
                               task.id)};
    }
    return {};
  }

  void move(DramAddress& address, std::size_t image) const {
    address.offset += image * static_cast<std::uint64_t>(strides_[address.base]);
  }

  // A memory of the team, named by a task of one of its cores, where its image is.
  std::uint8_t memory_at(std::uint8_t memory, std::size_t image) const {
    if (memory == isa::TaskMemories::kOwn) return memory;
    std::size_t core = 0;
    while (team_.memory_of(core) != memory) ++core;
    return memory_of_core_[image * team_.cores.size() + core];
  }

  void add_tasks(std::size_t image, std::size_t core) {
    isa::CoreTasks result;
    const Program& one = team_.cores[core];
    for (std::size_t s = 0; s < one.segments.size(); ++s) {
      result.segments.resize(one.segments[s].task_last, static_cast<std::uint32_t>(s));
    }
    result.tasks = one.tasks;
    for (TaskDescriptor& task : result.tasks) {
      if (auto* transfer = std::get_if<isa::TransferTask>(&task.config)) {
        move(transfer->dram.address, image);
      } else if (auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
        move(copy->source, image);
        move(copy->destination, image);
      }
      for (isa::RemoteDependency& remote : task.remote) {
        remote.core += static_cast<std::uint32_t>(image * team_.cores.size());
      }
      task.header.share = {};
      isa::TaskMemories& memories = task.header.memories;
      memories = {memory_at(memories.source, image), memory_at(memories.destination, image)};
    }
    tasks_.push_back(std::move(result));
  }

  Program program_of(const Program& one, isa::CoreTasks tasks) const {
    const auto images = static_cast<std::int64_t>(images_);
    Program program;
    program.chip_fingerprint = one.chip_fingerprint;
    program.chip_name = one.chip_name;
    program.tasks = std::move(tasks.tasks);
    for (const isa::Segment& segment : one.segments) {
      program.segments.push_back({segment.task_first, segment.task_last, {}});
    }
    program.workspace_bytes = images * strides_[BaseIndex::kWorkspace];
    program.input_bytes = images * strides_[BaseIndex::kInput];
    program.output_bytes = images * strides_[BaseIndex::kOutput];
    program.pieces = one.pieces;
    isa::encode_stream(program);
    return program;
  }

  // What the first core's program says for all of them.
  void add_slots(Program& first) const {
    first.weights = first_.weights;
    first.hints = first_.hints;
    const auto add = [this](const std::vector<isa::TensorSlot>& slots, std::size_t image,
                            std::vector<isa::TensorSlot>& to) {
      for (isa::TensorSlot slot : slots) {
        move(slot.address, image);
        to.push_back(std::move(slot));
      }
    };
    for (std::size_t image = 0; image < images_; ++image) {
      add(first_.inputs, image, first.inputs);
      add(first_.outputs, image, first.outputs);
      for (std::size_t s = 0; s < first_.segments.size(); ++s) {
        for (const isa::HostStep& step : first_.segments[s].host_steps) {
          isa::HostStep moved{step.node, {}, {}, step.body, step.constants};
          add(step.inputs, image, moved.inputs);
          add(step.outputs, image, moved.outputs);
          first.segments[s].host_steps.push_back(std::move(moved));
        }
      }
    }
  }

  const isa::CardProgram& team_;
  const Program& first_;
  const std::vector<std::uint8_t>& memory_of_core_;
  const std::size_t images_;
  isa::ByBase<std::int64_t> strides_{};  // from an image's region to the next; weights: none
  std::vector<isa::CoreTasks> tasks_;
};

}  // namespace

Result<isa::CardProgram> repeat_for_images(const isa::CardProgram& team,
                                           const std::vector<std::uint8_t>& memory_of_core,
                                           bool share_loads) {
  TESSERA_CHECK(!team.cores.empty() && memory_of_core.size() % team.cores.size() == 0,
                "{} cores for teams of {}", memory_of_core.size(), team.cores.size());
  return ImageCores(team, memory_of_core).run(share_loads);
}

}  // namespace tessera::compile

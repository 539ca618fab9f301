#include "firmware/chain_tasks.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "firmware/chain_memory.h"
#include "firmware/program_text.h"
#include "firmware/task_emitter.h"
#include "isa/dependencies.h"
#include "isa/descriptor_check.h"
#include "isa/engine_groups.h"
#include "isa/verify.h"

namespace tessera::firmware {
namespace {

using isa::Program;
using isa::TaskDescriptor;

constexpr std::int64_t kStepsMax = std::int64_t{1} << 20;  // of all tasks

class ProgramBuilder {
 public:
  ProgramBuilder(const ChainProgram& chains, const ChipConfig& chip, const Lexer& text,
                 const AssembleOptions& options)
      : chains_(chains),
        chip_(chip),
        text_(text),
        options_(options),
        memory_(chains, chip),
        emitter_(chains, chip, text, memory_) {}

  Result<Program> run() {
    if (const Status status = memory_.lay_out(); !status.ok()) {
      return Error{status.error().code, text_.error({1, 1}, status.error().message).message};
    }
    program_.hints.push_back(
        {.name = "contents", .kind = "Contents", .origins = {}, .output_dims = {}});
    emitter_.emit_contents();
    TESSERA_RETURN_IF_ERROR(emit_chains());
    program_.chip_name = chip_.name;
    program_.chip_fingerprint = fingerprint(chip_);
    program_.weights = memory_.take_weights();
    TESSERA_RETURN_IF_ERROR(collect_tasks());
    add_slots();
    const auto& regions = memory_.region_bytes();
    program_.workspace_bytes = regions[isa::BaseIndex::kWorkspace];
    program_.input_bytes = regions[isa::BaseIndex::kInput];
    program_.output_bytes = regions[isa::BaseIndex::kOutput];
    const Status proved = isa::verify_program(program_, chip_);
    if (!proved.ok()) {
      return text_.error({1, 1}, "the program is not proved: " + proved.error().message);
    }
    return std::move(program_);
  }

 private:
  Status emit_chains() {
    bool loop_over = false;
    for (const Chain& chain : chains_.chains) {
      if (options_.streaming) {
        if (!chain.in_time_loop && chains_before_ != SIZE_MAX) loop_over = true;
        if (loop_over) {
          return text_.error(chain.place,
                             "a chain behind the time loop; "
                             "streaming has no end to run it at");
        }
        if (!chain.in_time_loop && uses_queue(chain)) {
          return text_.error(chain.place,
                             "a queue in front of the time loop; "
                             "streaming passes vectors inside "
                             "it only");
        }
      }
      if (chain.in_time_loop && chains_before_ == SIZE_MAX) {
        chains_before_ = emitter_.tasks().size();
      }
      const auto layer = static_cast<std::uint32_t>(program_.hints.size());
      TESSERA_RETURN_IF_ERROR(emitter_.emit(chain, layer));
      program_.hints.push_back({.name = chain.name,
                                .kind = chain.task ? "Task" : "Chain",
                                .origins = {},
                                .output_dims = shape_of(chain),
                                .macs = emitter_.macs()});
    }
    return {};
  }

  bool uses_queue(const Chain& chain) const {
    return chain.source.memory == ChainMemoryKind::kQueueIn ||
           std::ranges::any_of(chain.writes, [](const VectorView& write) {
             return write.memory == ChainMemoryKind::kQueueOut;
           });
  }

  // The logical shape of what the chain writes.
  static Shape shape_of(const Chain& chain) {
    if (!chain.shape.empty() || chain.writes.empty()) return chain.shape;
    Shape shape;
    for (const std::int64_t count : chain.iterations) {
      if (count > 1 || !shape.empty()) shape.push_back(count);
    }
    shape.push_back(chain.writes[0].length);
    return shape;
  }

  // Contents first, then the chains in their order; streaming splits in front
  // of the time loop.
  Status collect_tasks() {
    std::vector<TaskDescriptor> tasks = emitter_.take_prologue();
    const std::size_t contents = tasks.size();
    std::ranges::move(emitter_.tasks(), std::back_inserter(tasks));
    std::size_t split = tasks.size();
    if (options_.streaming && chains_before_ != SIZE_MAX) split = contents + chains_before_;
    std::vector<std::uint32_t> segments(tasks.size(), 0);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].id = static_cast<isa::TaskId>(i);
      if (i >= split) segments[i] = 1;
    }
    TESSERA_RETURN_IF_ERROR(check_tasks(tasks));
    program_.dependencies_dropped = isa::derive_dependencies(chip_, segments, tasks);
    for (TaskDescriptor& task : tasks) append_task(program_, std::move(task), {});
    const auto count = static_cast<std::uint32_t>(program_.tasks.size());
    const auto first = static_cast<std::uint32_t>(split);
    program_.segments.push_back({.task_first = 0, .task_last = first, .host_steps = {}});
    if (first < count) {
      program_.segments.push_back({.task_first = first, .task_last = count, .host_steps = {}});
    }
    return {};
  }

  // Addresses and extents of every task, so that its accesses can be followed.
  Status check_tasks(const std::vector<TaskDescriptor>& tasks) const {
    isa::ByBase<std::int64_t> regions = memory_.region_bytes();
    regions[isa::BaseIndex::kWeights] = static_cast<std::int64_t>(program_.weights.size());
    std::int64_t steps = 0;
    for (const TaskDescriptor& task : tasks) {
      const Place place = task.layer == 0 ? Place{} : chains_.chains[task.layer - 1].place;
      const Status status =
          check_descriptor(task, {.chip = chip_,
                                  .region_bytes = regions,
                                  .expected = task.id,
                                  .task_count = static_cast<isa::TaskId>(tasks.size())});
      if (!status.ok()) {
        return text_.error(place,
                           fmt::format("this comes to a {} task that cannot be: {}",
                                       engine_kind_name(task.engine), status.error().message));
      }
      steps += task.steps();
      if (steps > kStepsMax) {
        return text_.error(place,
                           fmt::format("the tasks have more than {} steps together", kStepsMax));
      }
    }
    // Each step is followed for each set of engines.
    const std::size_t groups = isa::EngineGroups(tasks).size();
    if (steps > isa::kStepsMax / static_cast<std::int64_t>(groups)) {
      return text_.error(Place{},
                         fmt::format("{} steps of tasks with {} sets of engines: more than "
                                     "can be followed; name fewer sets of engines",
                                     steps, groups - isa::kCommonEngineKindCount));
    }
    return {};
  }

  void add_slots() {
    for (std::size_t i = 0; i < chains_.symbols.size(); ++i) {
      const Symbol& symbol = chains_.symbols[i];
      const isa::BaseIndex base = base_of(symbol);
      const bool input = base == isa::BaseIndex::kInput;
      if (!input && base != isa::BaseIndex::kOutput) continue;
      isa::TensorSlot slot;
      slot.name = symbol.name;
      slot.format = chip_.formats.vector;
      if (symbol.memory != ChainMemoryKind::kDram) {
        if (symbol.transfers == 0) continue;
        slot.dims.push_back(symbol.transfers);
      }
      for (int axis = kAxes - symbol.axes; axis < kAxes; ++axis) {
        slot.dims.push_back(symbol.extents[static_cast<std::size_t>(axis)]);
      }
      slot.dims.push_back(symbol.length);
      slot.address = memory_.address_of(i);
      (input ? program_.inputs : program_.outputs).push_back(std::move(slot));
    }
  }

  const ChainProgram& chains_;
  const ChipConfig& chip_;
  const Lexer& text_;
  const AssembleOptions& options_;
  ChainMemory memory_;
  TaskEmitter emitter_;
  Program program_;
  std::size_t chains_before_ = SIZE_MAX;  // tasks of the chains in front of the time loop
};

}  // namespace

Result<Program> chain_program(const ChainProgram& chains, const ChipConfig& chip, const Lexer& text,
                              const AssembleOptions& options) {
  return ProgramBuilder(chains, chip, text, options).run();
}

}  // namespace tessera::firmware

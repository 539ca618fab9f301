#include "isa/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>

#include "arith/block_layout.h"
#include "isa/access_map.h"
#include "isa/accesses.h"
#include "isa/descriptor_check.h"
#include "isa/engine_groups.h"
#include "isa/load_shares.h"
#include "isa/psum.h"
#include "isa/settled_steps.h"
#include "isa/step_clocks.h"
#include "isa/step_order.h"

namespace tessera::isa {
namespace {

// What the host writes between segments counts as written by this task, which everything follows.
constexpr TaskId kHostTask = kNoTask - 1;
// Most accesses that are followed; far more than any network has, few enough to end.
constexpr std::int64_t kAccessesMax = std::int64_t{1} << 28;
// Segments of bytes whose accesses are kept before those are forgotten that can race no more.
constexpr std::size_t kSegmentsLeast = 2048;
// Of the steps' clocks (isa/step_clocks.h): memory for foreign programs.
constexpr std::int64_t kClockNumbersMax = kStepsMax * kCommonEngineKindCount;

const char* memory_name(const Access& access) {
  switch (access.memory) {
    case MemoryKind::kStateBuffer:
      return "state buffer";
    case MemoryKind::kKernelMemory:
      return "kernel memory";
    case MemoryKind::kPsum:
      return "PSUM";
    case MemoryKind::kDram:
      break;
  }
  constexpr ByBase<const char*> kNames = std::array{"weights", "workspace", "inputs", "outputs"};
  return kNames[access.base];
}

Error invalid(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

class Verifier {
 public:
  Verifier(const Program& program, const ChipConfig& chip)
      : Verifier(program, chip, program.weights, {}) {}
  // Of several cores' tasks in one list (isa/card_program.h).
  Verifier(const Program& program, const ChipConfig& chip, const Weights& weights,
           const TaskOwners& cores)
      : program_(program),
        chip_(chip),
        weights_(weights),
        cores_(cores),
        memories_(cores.memory.empty()
                      ? 1
                      : 1 + *std::max_element(cores.memory.begin(), cores.memory.end())) {
    const std::size_t count =
        cores_.core.empty() ? 1 : *std::max_element(cores_.core.begin(), cores_.core.end()) + 1;
    state_buffers_.resize(count);
    kernel_memories_.resize(count);
  }

  Status check() const {
    if (program_.region) TESSERA_RETURN_IF_ERROR(check_core_region(*program_.region, chip_));
    TESSERA_RETURN_IF_ERROR(check_tasks());
    TESSERA_RETURN_IF_ERROR(check_all_slots());
    TaskId expected = 0;
    for (const Segment& segment : program_.segments) {
      if (segment.task_first != expected || segment.task_last < segment.task_first ||
          segment.task_last > program_.tasks.size()) {
        return invalid(fmt::format("segments do not follow each other: tasks {} to {}",
                                   segment.task_first, segment.task_last));
      }
      expected = segment.task_last;
    }
    if (expected != program_.tasks.size()) {
      return invalid(fmt::format("task {} belongs to no segment", expected));
    }
    return {};
  }

  Status run() {
    TESSERA_RETURN_IF_ERROR(check());
    TESSERA_RETURN_IF_ERROR(number_steps());
    for (const TensorSlot& slot : program_.inputs) host_writes(slot);
    for (const Segment& segment : program_.segments) {
      TESSERA_RETURN_IF_ERROR(run_segment(segment));
      for (const HostStep& step : segment.host_steps) {
        for (const TensorSlot& slot : step.outputs) host_writes(slot);
      }
    }
    return {};
  }

 private:
  std::string describe(TaskId id) const { return describe_task(program_, id, cores_); }

  Status check_tasks() const {
    if (program_.tasks.size() > static_cast<std::size_t>(kStepsMax)) {
      return invalid(fmt::format("{} tasks, allowed 0..{}", program_.tasks.size(), kStepsMax));
    }
    const ByBase<std::int64_t> regions =
        std::array{static_cast<std::int64_t>(weights_.size()), program_.workspace_bytes,
                   program_.input_bytes, program_.output_bytes};
    const auto count = static_cast<TaskId>(program_.tasks.size());
    const auto cores = static_cast<std::uint32_t>(state_buffers_.size());
    std::int64_t steps = 0;
    for (TaskId id = 0; id < count; ++id) {
      const Status status = check_descriptor(program_.tasks[id], {.chip = chip_,
                                                                  .region_bytes = regions,
                                                                  .expected = id,
                                                                  .task_count = count,
                                                                  .region = program_.region,
                                                                  .core = cores_.of(id),
                                                                  .cores = cores,
                                                                  .memories = memories_});
      if (!status.ok()) return invalid(describe(id) + ": " + status.error().message);
      if (weights_.held()) {
        const Status kernel = check_kernel_bytes(program_.tasks[id], weights_);
        if (!kernel.ok()) return invalid(describe(id) + ": " + kernel.error().message);
      }
      steps += program_.tasks[id].steps();
    }
    // A clock is kept for each step.
    if (steps > kStepsMax) {
      return invalid(fmt::format("{} steps in all tasks, allowed 0..{}", steps, kStepsMax));
    }
    return {};
  }

  Status check_slots(const std::vector<TensorSlot>& slots) const {
    for (const TensorSlot& slot : slots) {
      if (!slot.dense_dims.empty()) {
        const std::string wrong = arith::broken_blocks(slot.dims, slot.dense_dims);
        if (!wrong.empty()) return invalid(fmt::format("tensor '{}': {}", slot.name, wrong));
      }
      std::int64_t bytes = format_bytes(slot.format);
      for (const std::int64_t dim : slot.dims) {
        if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) {
          return invalid(fmt::format("tensor '{}': dimension {}", slot.name, dim));
        }
      }
      const auto size = static_cast<std::uint64_t>(region_bytes(slot.address.base));
      if (slot.address.offset > size ||
          static_cast<std::uint64_t>(bytes) > size - slot.address.offset) {
        return invalid(fmt::format(
            "tensor '{}': {} bytes at {} of the {}, which holds {}", slot.name, bytes,
            slot.address.offset,
            memory_name({.memory = MemoryKind::kDram, .base = slot.address.base}), size));
      }
    }
    return {};
  }

  Status check_all_slots() const {
    for (const std::int64_t bytes :
         {program_.workspace_bytes, program_.input_bytes, program_.output_bytes}) {
      if (bytes < 0) return invalid(fmt::format("a DRAM region of {} bytes", bytes));
    }
    TESSERA_RETURN_IF_ERROR(check_written_slots(program_.inputs));
    TESSERA_RETURN_IF_ERROR(check_slots(program_.outputs));
    for (const Segment& segment : program_.segments) {
      for (const HostStep& step : segment.host_steps) {
        TESSERA_RETURN_IF_ERROR(check_written_slots(step.outputs));
      }
    }
    return {};
  }

  // The host writes them: not where the weights are.
  Status check_written_slots(const std::vector<TensorSlot>& slots) const {
    for (const TensorSlot& slot : slots) {
      if (slot.address.base != BaseIndex::kWeights) continue;
      return invalid(
          fmt::format("tensor '{}' lies in the weights, which nobody writes", slot.name));
    }
    return check_slots(slots);
  }

  Status number_steps() {
    clocks_.emplace(program_.tasks, cores_.core);
    if (clocks_->entries() > kClockNumbersMax) return too_many_clocks();
    clocks_->allocate();
    return {};
  }

  Error too_many_clocks() const {
    return invalid(
        fmt::format("{} steps in all tasks and {} sets of engines to be followed: what they know "
                    "of each other takes "
                    "{} and {} numbers, allowed are {} of each",
                    clocks_->steps(), clocks_->groups().size(), clocks_->entries(),
                    clocks_->chunk_numbers(), kClockNumbersMax));
  }

  void host_writes(const TensorSlot& slot) {
    const auto first = static_cast<std::int64_t>(slot.address.offset);
    const std::int64_t bytes = element_count(slot.dims) * format_bytes(slot.format);
    if (bytes == 0) return;
    dram_[slot.address.base].write(first, first + bytes, {kHostTask, 0}, [](StepRef) {});
  }

  Status run_segment(const Segment& segment) {
    segment_first_ = segment.task_first;
    TESSERA_RETURN_IF_ERROR(check_sums(segment));
    settled_.emplace(program_, *clocks_, segment);
    return for_each_step(
        program_, chip_, segment, [this](TaskId id, std::int64_t at) { return step(id, at); },
        cores_);
  }

  // Sums in PSUM are there for the next part, and stay until the last one takes them. The engines
  // that have them begin the tasks in this order.
  Status check_sums(const Segment& segment) const {
    for (TaskId first = segment.task_first; first < segment.task_last;) {
      TaskId last = first;
      while (last < segment.task_last && cores_.of(last) == cores_.of(first)) ++last;
      TESSERA_RETURN_IF_ERROR(check_sums_of_core(first, last));
      first = last;
    }
    return {};
  }

  Status check_sums_of_core(TaskId first, TaskId last) const {
    PsumOwners owners(chip_);
    for (TaskId id = first; id < last; ++id) {
      const TaskDescriptor& task = program_.tasks[id];
      const std::string wrong = owners.begin(task, task.network);
      if (!wrong.empty()) return invalid(describe(id) + " " + wrong);
      const TaskDescriptor* open = task.switch_allowed ? owners.open() : nullptr;
      if (open == nullptr) continue;
      return invalid(
          fmt::format("{} lets another network follow while sums of task {} are in PSUM; "
                      "no task between two parts may allow a switch",
                      describe(id), open->id));
    }
    const TaskDescriptor* open = owners.open();
    if (open == nullptr) return {};
    return invalid(
        fmt::format("{} keeps its sums in PSUM at the end of its segment; a task of the "
                    "segment has to go on with them",
                    describe(open->id)));
  }

  std::int64_t needed_steps(const Dependency& dependency, std::int64_t j) const {
    return steps_needed(dependency, j, program_.tasks[dependency.task].steps());
  }

  // Takes step `at` of `id`: its clock, its accesses.
  Status step(TaskId id, std::int64_t at) {
    const TaskDescriptor& task = program_.tasks[id];
    clocks_->begin({id, at}, clock_);
    for (const Dependency& dependency : task.dependencies) {
      const std::int64_t needed = needed_steps(dependency, at + 1);
      if (needed > 0) clocks_->learn({dependency.task, needed - 1}, clock_);
    }
    clocks_->keep({id, at}, clock_);
    if (clocks_->chunk_numbers() > kClockNumbersMax) return too_many_clocks();
    accesses_.clear();
    step_accesses(task, chip_, at, accesses_, cores_.core.empty() ? kRunsMax : kRunsMaxOfCores);
    access_count_ += static_cast<std::int64_t>(accesses_.size());
    if (access_count_ > kAccessesMax) {
      return invalid(fmt::format("{}: more than {} memory accesses", describe(id), kAccessesMax));
    }
    for (const Access& access : accesses_) {
      TESSERA_RETURN_IF_ERROR(check_bounds(id, access));
      TESSERA_RETURN_IF_ERROR(check_order({id, at}, access));
    }
    settled_->take({id, at});
    // Where a result lies tells who wrote it.
    if (memories_ == 1 && segments() > segments_max_) forget_settled();
    return {};
  }

  template <typename Visit>
  void for_each_map(Visit&& visit) {
    for (AccessMap& map : state_buffers_) visit(map);
    for (AccessMap& map : kernel_memories_) visit(map);
    for (AccessMap& map : dram_) visit(map);
  }
  std::size_t segments() {
    std::size_t count = 0;
    for_each_map([&](const AccessMap& map) { count += map.segments(); });
    return count;
  }
  void forget_settled() {
    const auto forget = [&](std::span<AccessMap> maps, const StepClock& known) {
      const auto is_settled = [&](const StepRef& step) {
        return is_before_segment(step) || clocks_->knows(known, step);
      };
      for (AccessMap& map : maps) map.forget({kHostTask, 0}, is_settled);
    };
    const StepClock known = settled_->known_beside_kernels();
    forget(kernel_memories_, settled_->known());
    forget(state_buffers_, known);
    forget({dram_.begin(), dram_.end()}, known);
    segments_max_ = std::max(kSegmentsLeast, 2 * segments());
  }

  std::int64_t limit(const Access& access) const {
    if (access.memory == MemoryKind::kStateBuffer) return chip_.state_buffer.bytes_per_partition;
    if (access.memory == MemoryKind::kKernelMemory) return chip_.neural.kernel_bytes_per_partition;
    if (access.memory == MemoryKind::kPsum) return psum_entries(chip_);
    return region_bytes(access.base);
  }

  std::int64_t region_bytes(BaseIndex base) const {
    switch (base) {
      case BaseIndex::kWeights:
        return static_cast<std::int64_t>(weights_.size());
      case BaseIndex::kWorkspace:
        return program_.workspace_bytes;
      case BaseIndex::kInput:
        return program_.input_bytes;
      case BaseIndex::kOutput:
        break;
    }
    return program_.output_bytes;
  }

  Status check_bounds(TaskId id, const Access& access) const {
    if (access.first < 0 || access.last > limit(access)) {
      return invalid(fmt::format("{}: bytes {} to {} of the {}, which holds {}", describe(id),
                                 access.first, access.last, memory_name(access), limit(access)));
    }
    if (access.write && access.memory == MemoryKind::kDram && access.base == BaseIndex::kWeights) {
      return invalid(fmt::format("{}: writes the weights", describe(id)));
    }
    return {};
  }

  AccessMap& map_of(const Access& access, TaskId task) {
    const std::uint32_t core = cores_.of(task);
    if (access.memory == MemoryKind::kStateBuffer) return state_buffers_[core];
    if (access.memory == MemoryKind::kKernelMemory) return kernel_memories_[core];
    return dram_[access.base];
  }

  bool is_before_segment(const StepRef& step) const {
    return step.task == kHostTask || step.task < segment_first_;
  }

  // Whether `earlier` is done with its bytes when `self` touches them. Of the same engines: by their
  // queues, and because a task that reads what the one before it wrote waits until that one is
  // finished.
  bool comes_before(const StepRef& earlier, const StepRef& self, bool write) const {
    if (is_before_segment(earlier)) return true;
    if (clocks_->in_order(earlier.task, self.task) && !reads_own_result(self, write, earlier)) {
      return true;
    }
    return clocks_->knows(clock_, earlier);
  }

  Error race(const StepRef& racing, const StepRef& self, const Access& access) const {
    if (racing.task == self.task) {
      return invalid(fmt::format(
          "race: step {} of {} reads bytes {} to {} of the {} before step {} of the same task has "
          "written them; a dependency of the task on itself has to order them (after task {}: (1 j "
          "- {}) / 1 steps)",
          self.step + 1, describe(self.task), access.first, access.last, memory_name(access),
          racing.step + 1, self.task, self.step - racing.step));
    }
    return invalid(fmt::format(
        "race: step {} of {} and step {} of {} both touch bytes {} to {} of the {}, and nothing "
        "orders them",
        racing.step + 1, describe(racing.task), self.step + 1, describe(self.task), access.first,
        access.last, memory_name(access)));
  }

  // Where the bytes of DRAM are that the task reads or writes.
  std::uint8_t memory_of(TaskId id, bool write) const {
    const TaskMemories& memories = program_.tasks[id].header.memories;
    const std::uint8_t named = write ? memories.destination : memories.source;
    return named == TaskMemories::kOwn ? cores_.memory_of(id) : named;
  }
  // Whether `self` reads from one memory what `earlier` wrote into another. What the host writes all
  // have.
  bool lies_elsewhere(const StepRef& earlier, const StepRef& self, const Access& access) const {
    if (access.memory != MemoryKind::kDram || access.write || memories_ == 1) return false;
    return earlier.task != kHostTask &&
           memory_of(earlier.task, true) != memory_of(self.task, false);
  }
  Error misplaced(const StepRef& earlier, const StepRef& self, const Access& access) const {
    return invalid(
        fmt::format("step {} of {} reads bytes {} to {} of the {} from memory {}; step {} of {} "
                    "wrote them into "
                    "memory {}",
                    self.step + 1, describe(self.task), access.first, access.last,
                    memory_name(access), memory_of(self.task, false), earlier.step + 1,
                    describe(earlier.task), memory_of(earlier.task, true)));
  }

  Status check_order(const StepRef& self, const Access& access) {
    if (access.memory == MemoryKind::kDram && access.base == BaseIndex::kWeights) return {};
    if (access.memory == MemoryKind::kPsum) return {};  // check_sums()
    std::optional<StepRef> racing, elsewhere;
    bool unwritten = false;
    const auto visit = [&](const StepRef& earlier) {
      if (!earlier.valid()) {
        unwritten |= !access.gaps;
      } else if (!comes_before(earlier, self, access.write)) {
        racing = earlier;
      } else if (lies_elsewhere(earlier, self, access)) {
        elsewhere = earlier;
      }
    };
    if (access.write) {
      map_of(access, self.task).write(access.first, access.last, self, visit);
    } else {
      map_of(access, self.task)
          .read(access.first, access.last, self, clocks_->group(self.task), visit);
    }
    if (racing) return race(*racing, self, access);
    if (elsewhere) return misplaced(*elsewhere, self, access);
    if (unwritten) {
      return invalid(fmt::format(
          "step {} of {} reads bytes {} to {} of the {} before anything "
          "wrote them",
          self.step + 1, describe(self.task), access.first, access.last, memory_name(access)));
    }
    return {};
  }

  const Program& program_;
  const ChipConfig& chip_;
  const Weights& weights_;
  const TaskOwners cores_;
  const int memories_;
  std::optional<StepClocks> clocks_;
  StepClock clock_;  // of the step at hand
  TaskId segment_first_ = 0;
  std::vector<AccessMap> state_buffers_, kernel_memories_;  // of each core
  ByBase<AccessMap> dram_;
  std::optional<SettledSteps> settled_;  // of the segment at hand
  std::size_t segments_max_ = kSegmentsLeast;
  std::vector<Access> accesses_;   // of the current step
  std::int64_t access_count_ = 0;  // of all steps so far
};

}  // namespace

Status check_program(const Program& program, const ChipConfig& chip) {
  return Verifier(program, chip).check();
}

Status verify_program(const Program& program, const ChipConfig& chip) {
  return Verifier(program, chip).run();
}

Status check_card_program(const CardProgram& program, const ChipConfig& chip) {
  TESSERA_TRY(const MergedProgram merged, merge(program));
  TESSERA_RETURN_IF_ERROR(check_shares(program));
  return Verifier(merged.program, chip, program.cores[0].weights, merged.cores).check();
}

Status verify_card_program(const CardProgram& program, const ChipConfig& chip) {
  TESSERA_TRY(const MergedProgram merged, merge(program));
  TESSERA_RETURN_IF_ERROR(check_shares(program));
  return Verifier(merged.program, chip, program.cores[0].weights, merged.cores).run();
}

}  // namespace tessera::isa

#include "card_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "isa/accesses.h"
#include "isa/encoding.h"
#include "isa/verify.h"

namespace tessera::agreement {
namespace {

using isa::Access;
using isa::Dependency;
using isa::TaskDescriptor;
using isa::TaskId;

// Steps of all cores in an order that the queues and the dependencies allow, each with what is
// finished before it begins: for each queue of each core, how many of its steps.
class Knowledge {
 public:
  Knowledge(const isa::CardProgram& card, std::size_t segment) : card_(card), segment_(segment) {
    for (const isa::Program& core : card.cores) {
      std::vector<std::int64_t> steps(isa::kEngineKindCount, 0);
      std::vector<std::int64_t> firsts;
      for (const TaskDescriptor& task : core.tasks) {
        std::int64_t& of_queue = steps[static_cast<std::size_t>(task.engine)];
        firsts.push_back(of_queue);
        of_queue += task.steps();
      }
      first_steps_.push_back(std::move(firsts));
    }
    for (std::size_t core = 0; core < card.cores.size(); ++core) {
      const isa::Segment& of = card.cores[core].segments[segment];
      clocks_.emplace_back(card.cores[core].tasks.size());
      for (TaskId id = of.task_first; id < of.task_last; ++id) {
        clocks_[core][id].resize(static_cast<std::size_t>(card.cores[core].tasks[id].steps()));
      }
    }
  }

  // Of a step: empty until it is known.
  const std::vector<std::int64_t>& clock(std::size_t core, TaskId task, std::int64_t step) const {
    return clocks_[core][task][static_cast<std::size_t>(step)];
  }
  bool knows(std::size_t core, TaskId task, std::int64_t step, std::size_t other_core, TaskId other,
             std::int64_t other_step) const {
    const auto& known = clock(core, task, step);
    return known[queue(other_core, other)] >= first_steps_[other_core][other] + other_step + 1;
  }

  bool one_queue(std::size_t core, TaskId task, std::size_t other_core, TaskId other) const {
    return queue(core, task) == queue(other_core, other);
  }

  // False if some step never begins.
  bool learn_all() {
    std::size_t left = 0;
    for (const auto& core : clocks_) {
      for (const auto& task : core) left += task.size();
    }
    for (bool moved = true; moved && left > 0;) {
      moved = false;
      for (std::size_t core = 0; core < card_.cores.size(); ++core) {
        const isa::Segment& of = card_.cores[core].segments[segment_];
        for (TaskId id = of.task_first; id < of.task_last; ++id) {
          for (std::size_t step = 0; step < clocks_[core][id].size(); ++step) {
            if (!clocks_[core][id][step].empty()) continue;
            if (!learn(core, id, static_cast<std::int64_t>(step))) break;
            moved = true;
            --left;
          }
        }
      }
    }
    return left == 0;
  }

 private:
  std::size_t queue(std::size_t core, TaskId task) const {
    return core * isa::kEngineKindCount +
           static_cast<std::size_t>(card_.cores[core].tasks[task].engine);
  }

  bool learn(std::size_t core, TaskId id, std::int64_t step) {
    const TaskDescriptor& task = card_.cores[core].tasks[id];
    std::vector<std::int64_t> known(card_.cores.size() * isa::kEngineKindCount, 0);
    const auto merge = [&](std::size_t other_core, TaskId other, std::int64_t other_step,
                           bool finished) {
      const auto& clock = clocks_[other_core][other][static_cast<std::size_t>(other_step)];
      if (clock.empty()) return false;
      for (std::size_t i = 0; i < known.size(); ++i) known[i] = std::max(known[i], clock[i]);
      std::int64_t& at = known[queue(other_core, other)];
      const std::int64_t number = first_steps_[other_core][other] + other_step;
      at = std::max(at, finished ? number + 1 : number);
      return true;
    };
    const auto merge_line = [&](std::size_t other_core, const Dependency& line) {
      const TaskDescriptor& other = card_.cores[other_core].tasks[line.task];
      const std::int64_t needed = isa::steps_needed(line, step + 1, other.steps());
      if (needed == 0 || clocks_[other_core][line.task].empty()) return true;
      return merge(other_core, line.task, needed - 1, true);
    };
    if (step > 0) {
      if (!merge(core, id, step - 1, false)) return false;
    } else if (const TaskId before = previous(core, id); before != isa::kNoTask) {
      if (!merge(core, before, card_.cores[core].tasks[before].steps() - 1, false)) return false;
    }
    for (const Dependency& line : task.dependencies) {
      if (!merge_line(core, line)) return false;
    }
    for (const isa::RemoteDependency& remote : task.remote) {
      if (!merge_line(remote.core, remote.on)) return false;
    }
    clocks_[core][id][static_cast<std::size_t>(step)] = std::move(known);
    return true;
  }

  TaskId previous(std::size_t core, TaskId id) const {
    const auto& tasks = card_.cores[core].tasks;
    const TaskId first = card_.cores[core].segments[segment_].task_first;
    for (TaskId other = id; other > first; --other) {
      if (tasks[other - 1].engine == tasks[id].engine) return other - 1;
    }
    return isa::kNoTask;
  }

  const isa::CardProgram& card_;
  const std::size_t segment_;
  std::vector<std::vector<std::int64_t>> first_steps_;
  std::vector<std::vector<std::vector<std::vector<std::int64_t>>>> clocks_;
};

struct StepAccess {
  std::size_t core = 0;
  TaskId task = 0;
  std::int64_t step = 0;
  Access access;
};

std::vector<StepAccess> accesses_of(const isa::CardProgram& card, std::size_t segment) {
  std::vector<StepAccess> all;
  std::vector<Access> of_step;
  for (std::size_t core = 0; core < card.cores.size(); ++core) {
    const isa::Segment& of = card.cores[core].segments[segment];
    for (TaskId id = of.task_first; id < of.task_last; ++id) {
      const TaskDescriptor& task = card.cores[core].tasks[id];
      for (std::int64_t step = 0; step < task.steps(); ++step) {
        of_step.clear();
        isa::step_dram_accesses(task, step, std::int64_t{1} << 20, of_step);
        for (const Access& access : of_step) {
          if (access.base != isa::BaseIndex::kWeights) all.push_back({core, id, step, access});
        }
      }
    }
  }
  return all;
}

std::string race_in_segment(const isa::CardProgram& card, std::size_t segment) {
  Knowledge knowledge(card, segment);
  if (!knowledge.learn_all()) return "the cores wait for each other for ever";
  std::vector<StepAccess> all = accesses_of(card, segment);
  const auto begin = [](const StepAccess& a) { return std::pair{a.access.base, a.access.first}; };
  std::sort(all.begin(), all.end(),
            [&](const StepAccess& a, const StepAccess& b) { return begin(a) < begin(b); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    const StepAccess& a = all[i];
    // All that begin within the bytes of `a`.
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      const StepAccess& b = all[k];
      if (b.access.base != a.access.base || b.access.first >= a.access.last) break;
      if (knowledge.one_queue(a.core, a.task, b.core, b.task) ||
          !(a.access.write || b.access.write) ||
          knowledge.knows(a.core, a.task, a.step, b.core, b.task, b.step) ||
          knowledge.knows(b.core, b.task, b.step, a.core, a.task, a.step)) {
        continue;
      }
      return fmt::format("core {} task {} step {} and core {} task {} step {}, one of them writing",
                         a.core, a.task, a.step, b.core, b.task, b.step);
    }
  }
  return {};
}

}  // namespace

namespace {

void read_as_input(isa::DramAddress& address) {
  if (address.base == isa::BaseIndex::kWeights) return;
  address.base = isa::BaseIndex::kInput;
}

}  // namespace

Status prove_core(const isa::CardProgram& card, std::size_t core, const ChipConfig& chip) {
  isa::Program program = card.cores[core];
  program.weights = card.cores.front().weights;
  program.input_bytes =
      std::max({program.input_bytes, program.workspace_bytes, program.output_bytes});
  isa::TensorSlot all;
  all.format = Format::kI8;
  all.dims = {program.input_bytes};
  all.address.base = isa::BaseIndex::kInput;
  program.inputs = {all};
  program.outputs.clear();
  for (TaskDescriptor& task : program.tasks) {
    task.remote.clear();
    auto* load = std::get_if<isa::TransferTask>(&task.config);
    if (load != nullptr && task.engine == isa::EngineKind::kLoad) {
      read_as_input(load->dram.address);
    }
    if (auto* copy = std::get_if<isa::CopyTask>(&task.config); copy != nullptr && !copy->fill) {
      read_as_input(copy->source);
    }
  }
  program.stream.clear();
  program.stream_offsets.clear();
  isa::encode_stream(program);
  return isa::verify_program(program, chip);
}

std::string find_race(const isa::CardProgram& card) {
  for (std::size_t s = 0; s < card.cores.front().segments.size(); ++s) {
    std::string race = race_in_segment(card, s);
    if (!race.empty()) return race;
  }
  return {};
}

}  // namespace tessera::agreement

// The hazard check: a shadow of the accesses of each byte, and what each step knows to be finished.
//
// A step knows, through its dependencies, the steps it was granted after, with all that those knew (a
// clock of a counter for each set of engines), and what the steps before it on its engines knew. A read must know its
// bytes' last writer, a write also their readers since then. If not, the two tasks race, whatever
// their cycles, and the check names them and the bytes. Steps of its own engines are in order by their
// queues (isa/engine_groups.h), except that a read of what an earlier step of the same task wrote must know that step
// (isa::reads_own_result). A read of unwritten bytes is reported too; what the package and the host
// supply, and what earlier segments left, is written.
// Nothing orders the tasks of two networks, so bytes that both touch are a race at once. Several cores
// that run one network share the check: its DRAM is one, the other memories are each core's, and what
// orders their tasks are dependencies on tasks of other cores.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "arch/chip_config.h"
#include "engines/data_control/run_network.h"
#include "engines/data_control/written_bytes.h"
#include "isa/access_map.h"
#include "isa/accesses.h"
#include "isa/engine_groups.h"
#include "isa/psum.h"

namespace tessera::engines {

struct HazardStep {
  std::uint32_t id = 0;    // position in the run; of several cores: in the core's
  std::uint32_t core = 0;  // of several
  const isa::TaskDescriptor* descriptor = nullptr;
  const RunNetwork* network = nullptr;
  std::int64_t step = 0;
};

class HazardCheck {
 public:
  // `tasks` of the run, of `networks`; what was written before it.
  HazardCheck(const ChipConfig& chip, std::size_t tasks, const WrittenBytes& written,
              std::size_t networks = 1);

  // Of several cores that run one network, before the first step: their tasks, in a run with all of
  // them one behind the other, and the base-address index of the one whose regions all use.
  void share(std::vector<RunNetwork> cores);

  void begin_step(HazardStep step);
  // What the host writes between two segments of the run.
  void host_writes(const MemoryKey& memory, std::int64_t first, std::int64_t last);
  // The races found, one for two tasks and a memory, in the order of finding: at most kRacesMax.
  static constexpr std::size_t kRacesMax = 16;
  const std::vector<std::string>& races() const { return races_; }
  // Adds what the run wrote.
  void add_written(WrittenBytes& written) const;

 private:
  // Steps of each group of engines, the step's own included, known to be finished when a step
  // begins, counted in the group's order. Groups that came later are not in it: 0.
  using Clock = std::vector<std::int64_t>;
  struct TaskRecord {
    const isa::TaskDescriptor* descriptor = nullptr;
    const RunNetwork* network = nullptr;
    std::uint32_t core = 0;
    isa::GroupIndex group = 0;
    std::int64_t first_sequence = 0;  // of its step 0 in its group
    std::vector<Clock> clocks;        // of its steps begun so far
  };
  // Its record, made with its first step.
  TaskRecord& record_of(const HazardStep& step);
  Clock clock_of(const HazardStep& step, isa::GroupIndex group) const;
  // Adds what steps of a task of `network` knew, as many as the dependency asks for.
  void learn(const isa::Dependency& dependency, const RunNetwork& network, std::int64_t step,
             Clock& clock) const;
  void check(const HazardStep& step, const isa::Access& access, const Clock& clock,
             const isa::StepRef& other);
  // Whether step `other` of the same network is over when `step` begins.
  bool in_order(const HazardStep& step, const isa::Access& access, const Clock& clock,
                const isa::StepRef& other) const;
  // Keeps `race`, the first of the step's task and task `other` (of the run; or isa::kNoTask).
  void report(const HazardStep& step, const isa::Access& access, isa::TaskId other,
              std::string race);
  isa::AccessMap& shadow(const HazardStep& step, const isa::Access& access);

  std::string step_text(const TaskRecord& record, std::int64_t step) const;
  std::string step_text(const HazardStep& step) const {
    return step_text(records_[step.id], step.step);
  }
  // Whether the access lies in the network's part of the memory.
  void check_region(const HazardStep& step, const isa::Access& access);

  const ChipConfig& chip_;
  const bool several_networks_;
  std::vector<TaskRecord> records_;
  isa::EngineGroups groups_;
  std::vector<Clock> last_clocks_;   // of the step begun last, by group
  std::vector<std::int64_t> begun_;  // steps, by group
  std::map<MemoryKey, isa::AccessMap> shadows_;
  std::vector<RunNetwork> cores_;      // of several
  std::vector<isa::PsumOwners> psum_;  // by core
  std::vector<isa::Access> accesses_;
  std::vector<std::string> races_;
  std::set<std::tuple<std::uint32_t, isa::TaskId, isa::MemoryKind>> known_;  // of races_
};

}  // namespace tessera::engines

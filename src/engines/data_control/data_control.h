// Data control: one entry per task in flight, access granted by progress.
//
//   task manager ─enter─► [ entry: configuration, dependencies, finished steps ] ─retire─► gone
//                                       ▲ grants                 ▲ finish_step
//                                       └────── engines ─────────┘
//
// Step j of a task may start when every dependency's producer (or reader) has finished the steps it
// needs; the task may be the step's own. A step that finishes in one cycle counts in the next. Tasks
// of earlier segments count as complete; tasks that did not yet enter have finished nothing. An
// engine that is refused is woken when the counter it waits for gets there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engines/data_control/hazard_check.h"
#include "engines/data_control/remote_news.h"
#include "engines/data_control/run_network.h"
#include "engines/time_account.h"
#include "engines/wake_table.h"
#include "isa/descriptor.h"

namespace tessera::engines {

struct RunTask {
  const isa::TaskDescriptor* descriptor = nullptr;  // null until it enters
  std::uint32_t network = 0;                        // index into the run's networks
  std::int64_t steps = 0;
  std::int64_t finished = 0;         // including those of cycle changed_at
  std::int64_t finished_before = 0;  // before cycle changed_at
  Cycles changed_at = -1;
  Cycles entered_at = -1;
};

// What a run asks for beside its results.
struct RunOptions {
  HazardCheck* hazards = nullptr;  // outlives the run
  bool trace = false;
  std::uint8_t traps = 0;        // isa::Traps of all tasks, beside their own
  std::uint64_t delay_seed = 0;  // != 0: grants come later, by a number of cycles drawn from it
  // Of one core of several, which run one network together: its place, and what they tell each other.
  std::uint32_t core = 0;
  RemoteNews* news = nullptr;  // outlives the run
};

// What stops a network while one of its tasks runs.
struct TaskException {
  isa::TaskId task = 0;
  std::string reason;
};

// Entries of the task buffer.
struct TaskEntries {
  std::int32_t count = 1;
  std::int32_t guaranteed = 0;  // to each of several networks
};

class DataControl {
 public:
  DataControl(const TaskEntries& entries, const BoxLayout& layout, WakeTable& wakes);

  // Forgets everything; storage for the tasks of `networks` is allocated here.
  void reset(const std::vector<RunNetwork>& networks, const RunOptions& options);

  // ---- task manager ----
  // Whether the network may take an entry. `guaranteed` ones are kept for each of the others that
  // has tasks left, as far as it has not got them.
  bool entry_free(std::uint32_t network, Cycles now) const;
  void enter(RunTaskId id, const isa::TaskDescriptor& descriptor, Cycles now);

  // ---- several networks ----
  // The segment that begins at task `first` runs now; the tasks before it have ended.
  void begin_segment(std::uint32_t network, isa::TaskId first);
  // Network 0 runs on several cores, which begin their segments at these tasks.
  void begin_segments(const std::vector<isa::TaskId>& first_of_cores);
  std::uint32_t core() const { return options_.core; }
  std::uint32_t cores() const {  // that run the network
    return others_.empty() ? 1 : static_cast<std::uint32_t>(others_.size());
  }
  // What another core tells; engines that wait for it are woken in this cycle. Called when no box is
  // being stepped.
  void hear(const News& news);
  // No more tasks of the network come. From the next cycle on those that are here run out: every
  // step is granted, and computes nothing. Called when no box is being stepped.
  void stop(std::uint32_t network, Cycles now);
  bool stopped(RunTaskId id) const { return shares_[tasks_[id].network].stopped; }
  // The first exception of each network, or none.
  const std::vector<std::optional<TaskException>>& exceptions() const { return exceptions_; }
  std::size_t retired_of(std::uint32_t network) const { return shares_[network].retired; }
  // Networks with a task that waits for one that did not enter: at a deadlock they are at fault.
  std::vector<std::uint32_t> waiting_for_absent() const;

  // ---- engines ----
  const RunTask& task(RunTaskId id) const { return tasks_[id]; }
  const RunNetwork& network_of(RunTaskId id) const { return networks_[tasks_[id].network]; }
  EngineTaskTimes& times(RunTaskId id) { return times_[id]; }
  const BoxLayout& layout() const { return layout_; }
  // Whether step `step` (0-based) may start at `now`, as far as engine `box` is concerned: what it
  // waits for is finished. Once it may it always may.
  bool ready(RunTaskId id, std::int64_t step, Box box, Cycles now);
  // The step begins on all engines of its task.
  void begin(RunTaskId id, std::int64_t step, Cycles now);
  // Both, for a task of one engine.
  bool grant(RunTaskId id, std::int64_t step, Box box, Cycles now) {
    if (!ready(id, step, box, now)) return false;
    begin(id, step, now);
    return true;
  }
  // What the task traps; meets one of them, and its network is to be stopped.
  std::uint8_t traps(RunTaskId id) const {
    return options_.traps | tasks_[id].descriptor->header.traps;
  }
  void raise(RunTaskId id, std::string reason);
  // From which cycle on the dependencies of a task's first step are met, or only those on the
  // kernel DMA; they are. A counter that went on since then counts by its last change.
  Cycles first_step_met_at(RunTaskId id, bool kernels_only) const;
  // What a refused engine waits for: busy memory, another engine or another core.
  Doing blocked_by(Box engine, Cycles now) const;
  // Step `step` is done on all engines and its results are in memory; with the last one the entry
  // is dropped.
  void finish_step(RunTaskId id, std::int64_t step, Cycles now);
  // What an engine did of a step, if a trace is asked for, of all tasks or by its descriptor.
  void trace_step(const TraceRecord& record) {
    const isa::TaskHeader& header = tasks_[record.task].descriptor->header;
    if (options_.trace || (header.debug & isa::TaskDebug::kTrace) != 0) trace_.push_back(record);
  }

  std::size_t retired() const { return retired_; }
  const std::vector<TraceRecord>& trace() const { return trace_; }
  std::vector<TraceRecord> take_trace() { return std::move(trace_); }
  const std::vector<EngineTaskTimes>& all_times() const { return times_; }
  std::string describe_wait(Box engine) const;
  std::string name(
      RunTaskId id) const;  // "task 7", with "network 1 " in front if there are several

 private:
  struct Wait {
    bool waiting = false;
    bool never = false;  // depends on a task that is not of this run
    RunTaskId task = 0;
    isa::TaskId named = 0;
    std::int64_t needed = 0;
    bool remote = false;     // `named` is a task of another core
    std::uint32_t core = 0;  // that one
  };
  // Of a task of another core; as if complete if it is of an earlier segment.
  const RemoteProgress& heard_of(const isa::RemoteDependency& dependency) const;
  std::optional<Wait> unmet_elsewhere(const RunTask& task, std::int64_t step) const;
  std::int64_t visible(const RunTask& task, Cycles now) const {
    return task.changed_at == now ? task.finished_before : task.finished;
  }
  // Wakes the engines that wait for the task, if `met` says so.
  template <typename Met>
  void wake_waiting(RunTaskId id, Cycles now, Met met);
  // The first dependency that is not met.
  std::optional<Wait> unmet(const RunTask& task, std::int64_t step, Cycles now) const;
  // A step whose dependencies are met and that is held back all the same (delay_seed).
  struct Hold {
    RunTaskId task = 0;
    std::int64_t step = -1;
    Cycles until = 0;
  };
  bool held_back(RunTaskId id, std::int64_t step, Box box, Cycles now);

  // What a network has of the task buffer.
  struct Share {
    std::int32_t used = 0;
    std::int32_t dropped_now = 0;  // entries dropped in cycle dropped_at_
    std::size_t entered = 0, retired = 0;
    bool stopped = false;
  };
  bool has_tasks_left(std::uint32_t network) const;

  const TaskEntries entries_;
  const BoxLayout layout_;
  WakeTable& wakes_;
  std::vector<RunNetwork> networks_;
  std::vector<RunTask> tasks_;
  std::vector<EngineTaskTimes> times_;
  std::vector<TraceRecord> trace_;
  RunOptions options_;
  std::vector<Share> shares_;                             // by network
  std::vector<std::optional<TaskException>> exceptions_;  // likewise
  Table<Box, Wait> waits_;
  Table<Box, RunTaskId> waiting_;  // the task that waits, where one does
  Table<Box, Hold> holds_;
  // Of each core: its segment's first task, and what is known of the tasks from there on.
  struct OtherCore {
    isa::TaskId first = 0;
    std::vector<RemoteProgress> tasks;
  };
  std::vector<OtherCore> others_;
  std::int32_t used_ = 0;
  std::int32_t dropped_now_ = 0;  // entries dropped in cycle dropped_at_
  Cycles dropped_at_ = -1;
  std::size_t retired_ = 0;
};

}  // namespace tessera::engines

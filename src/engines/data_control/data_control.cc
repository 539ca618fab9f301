#include "engines/data_control/data_control.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tessera::engines {

using isa::EngineKind;

namespace {

// The bits of a seed, mixed (splitmix64).
std::uint64_t scrambled(std::uint64_t bits) {
  bits += 0x9E3779B97F4A7C15;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
  return bits ^ bits >> 31;
}

}  // namespace

DataControl::DataControl(const TaskEntries& entries, const BoxLayout& layout, WakeTable& wakes)
    : entries_(entries), layout_(layout), wakes_(wakes) {}

void DataControl::reset(const std::vector<RunNetwork>& networks, const RunOptions& options) {
  networks_ = networks;
  options_ = options;
  std::size_t count = 0;
  for (const RunNetwork& network : networks) count += network.last - network.first;
  tasks_.assign(count, RunTask{});
  for (std::size_t n = 0; n < networks.size(); ++n) {
    for (isa::TaskId id = networks[n].first; id < networks[n].last; ++id) {
      tasks_[networks[n].position + (id - networks[n].first)].network =
          static_cast<std::uint32_t>(n);
    }
  }
  times_.assign(count, EngineTaskTimes{});
  trace_.clear();
  shares_.assign(networks.size(), Share{});
  const auto boxes = static_cast<std::size_t>(layout_.count());
  waits_.assign(boxes, Wait{});
  waiting_.assign(boxes, 0);
  holds_.assign(boxes, Hold{});
  others_.clear();
  exceptions_.assign(networks.size(), std::nullopt);
  used_ = dropped_now_ = 0;
  dropped_at_ = -1;
  retired_ = 0;
}

bool DataControl::has_tasks_left(std::uint32_t network) const {
  const RunNetwork& range = networks_[network];
  return !shares_[network].stopped && shares_[network].entered < range.last - range.first;
}

bool DataControl::entry_free(std::uint32_t network, Cycles now) const {
  // An entry that is dropped in this cycle is free in the next.
  std::int64_t taken = used_ + (dropped_at_ == now ? dropped_now_ : 0);
  const std::int64_t guaranteed =
      std::min<std::int64_t>(entries_.guaranteed, entries_.count / std::ssize(networks_));
  for (std::uint32_t other = 0; guaranteed > 0 && other < networks_.size(); ++other) {
    if (other == network || !has_tasks_left(other)) continue;
    const Share& share = shares_[other];
    const std::int64_t has = share.used + (dropped_at_ == now ? share.dropped_now : 0);
    taken += std::max<std::int64_t>(guaranteed - has, 0);
  }
  return taken < entries_.count;
}

void DataControl::begin_segment(std::uint32_t network, isa::TaskId first) {
  networks_[network].segment_first = first;
}

void DataControl::begin_segments(const std::vector<isa::TaskId>& first_of_cores) {
  others_.assign(first_of_cores.size(), {});
  for (std::size_t core = 0; core < first_of_cores.size(); ++core) {
    others_[core].first = first_of_cores[core];
  }
}

void DataControl::hear(const News& news) {
  OtherCore& other = others_[news.from];
  const std::size_t place = news.task - other.first;
  if (place >= other.tasks.size()) other.tasks.resize(place + 1);
  other.tasks[place] = news.progress;
  for (int engine = 0; engine < layout_.count(); ++engine) {
    const Wait& wait = waits_[engine];
    if (wait.waiting && wait.remote && wait.core == news.from && wait.named == news.task) {
      wakes_.wake(static_cast<Box>(engine), news.at);
    }
  }
}

const RemoteProgress& DataControl::heard_of(const isa::RemoteDependency& dependency) const {
  static constexpr RemoteProgress kNothing{}, kAll{.finished = 0, .all = true, .heard_at = -1};
  const OtherCore& other = others_[dependency.core];
  if (dependency.on.task < other.first) return kAll;
  const std::size_t place = dependency.on.task - other.first;
  return place < other.tasks.size() ? other.tasks[place] : kNothing;
}

std::optional<DataControl::Wait> DataControl::unmet_elsewhere(const RunTask& task,
                                                              std::int64_t step) const {
  for (const isa::RemoteDependency& dependency : task.descriptor->remote) {
    const RemoteProgress& progress = heard_of(dependency);
    const std::int64_t needed = isa::steps_needed(dependency.on, step + 1, INT64_MAX);
    if (progress.all || progress.finished >= needed) continue;
    return Wait{.waiting = true,
                .named = dependency.on.task,
                .needed = needed,
                .remote = true,
                .core = dependency.core};
  }
  return std::nullopt;
}

void DataControl::stop(std::uint32_t network, Cycles now) {
  shares_[network].stopped = true;
  for (int engine = 0; engine < layout_.count(); ++engine) {
    if (waits_[engine].waiting && tasks_[waiting_[engine]].network == network) {
      wakes_.wake(static_cast<Box>(engine), now + 1);
    }
  }
  wakes_.wake(Box::kTaskManager, now + 1);  // entries that were kept for it are free
}

std::vector<std::uint32_t> DataControl::waiting_for_absent() const {
  std::vector<std::uint32_t> found;
  for (int engine = 0; engine < layout_.count(); ++engine) {
    const Wait& wait = waits_[engine];
    if (!wait.waiting || wait.remote) continue;
    if (!wait.never && tasks_[wait.task].descriptor != nullptr) continue;
    const std::uint32_t network = tasks_[waiting_[engine]].network;
    if (std::find(found.begin(), found.end(), network) == found.end()) found.push_back(network);
  }
  return found;
}

template <typename Met>
void DataControl::wake_waiting(RunTaskId id, Cycles now, Met met) {
  const int count = layout_.count();
  for (int engine = 0; engine < count; ++engine) {
    const Wait& wait = waits_[engine];
    if (wait.waiting && !wait.never && !wait.remote && wait.task == id && met(wait)) {
      wakes_.wake(static_cast<Box>(engine), now + 1);
    }
  }
}

void DataControl::enter(RunTaskId id, const isa::TaskDescriptor& descriptor, Cycles now) {
  RunTask& task = tasks_[id];
  TESSERA_CHECK(entry_free(task.network, now), "task buffer of {} entries is full", entries_.count);
  ++used_;
  ++shares_[task.network].used;
  ++shares_[task.network].entered;
  task.descriptor = &descriptor;
  task.steps = descriptor.steps();
  task.entered_at = now;
  times_[id].dispatched = now;
  // Its number of steps is known now, so a wait on all of them may turn out shorter.
  wake_waiting(id, now, [](const Wait&) { return true; });
}

std::optional<DataControl::Wait> DataControl::unmet(const RunTask& task, std::int64_t step,
                                                    Cycles now) const {
  const RunNetwork& network = networks_[task.network];
  for (const isa::Dependency& dependency : task.descriptor->dependencies) {
    if (dependency.task < network.first) continue;  // an earlier segment: complete
    if (dependency.task >= network.last) {
      return Wait{.waiting = true, .never = true, .task = 0, .named = dependency.task, .needed = 1};
    }
    const RunTaskId id = network.position + (dependency.task - network.first);
    const RunTask& other = tasks_[id];
    const std::int64_t steps = other.descriptor != nullptr ? other.steps : INT64_MAX;
    const std::int64_t needed = isa::steps_needed(dependency, step + 1, steps);
    if (visible(other, now) < needed) {
      return Wait{
          .waiting = true, .never = false, .task = id, .named = dependency.task, .needed = needed};
    }
  }
  return std::nullopt;
}

bool DataControl::held_back(RunTaskId id, std::int64_t step, Box box, Cycles now) {
  Hold& hold = holds_[box];
  if (hold.task != id || hold.step != step) {
    // Half of the tasks are as fast as ever, the others slower by up to some thousand cycles a
    // step.
    const std::uint64_t task_bits = scrambled(options_.delay_seed ^ std::uint64_t{id} << 32);
    const std::uint64_t step_bits = scrambled(task_bits + static_cast<std::uint64_t>(step));
    const std::uint64_t slowest =
        (task_bits & 1) == 0 ? 1 : std::uint64_t{1} << (task_bits >> 1) % 13;
    hold = {id, step, now + static_cast<Cycles>(step_bits % slowest)};
  }
  if (hold.until <= now) return false;
  wakes_.wake(box, hold.until);
  return true;
}

bool DataControl::ready(RunTaskId id, std::int64_t step, Box box, Cycles now) {
  const RunTask& task = tasks_[id];
  Wait& wait = waits_[box];
  const bool waits = !task.descriptor->dependencies.empty() || !task.descriptor->remote.empty();
  if (waits && !shares_[task.network].stopped) {
    std::optional<Wait> found = unmet(task, step, now);
    if (!found) found = unmet_elsewhere(task, step);
    if (found) {
      wait = *found;
      waiting_[box] = id;
      // What happened in this very cycle counts in the next.
      if (!wait.never && !wait.remote &&
          (tasks_[wait.task].finished >= wait.needed || tasks_[wait.task].entered_at == now)) {
        wakes_.wake(box, now + 1);
      }
      return false;
    }
  }
  wait.waiting = false;
  return options_.delay_seed == 0 || !held_back(id, step, box, now);
}

void DataControl::begin(RunTaskId id, std::int64_t step, Cycles now) {
  const RunTask& task = tasks_[id];
  if (step == 0) times_[id].first_step_begin = now;
  if (options_.hazards != nullptr && !shares_[task.network].stopped) {
    options_.hazards->begin_step({.id = id,
                                  .core = options_.core,
                                  .descriptor = task.descriptor,
                                  .network = &networks_[task.network],
                                  .step = step});
  }
}

Cycles DataControl::first_step_met_at(RunTaskId id, bool kernels_only) const {
  const RunTask& task = tasks_[id];
  const RunNetwork& network = networks_[task.network];
  Cycles met = 0;
  for (const isa::Dependency& dependency : task.descriptor->dependencies) {
    // An earlier segment; or a task that never comes, of a network that was stopped.
    if (dependency.task < network.first || dependency.task >= network.last) continue;
    const RunTask& other = tasks_[network.position + (dependency.task - network.first)];
    if (other.descriptor == nullptr) continue;  // of which no step is needed
    if (kernels_only && !isa::brings_kernel(*other.descriptor)) continue;
    if (isa::steps_needed(dependency, 1, other.steps) > 0) {
      met = std::max(met, other.changed_at + 1);
    }
  }
  for (const isa::RemoteDependency& dependency : task.descriptor->remote) {
    if (!kernels_only) met = std::max(met, heard_of(dependency).heard_at);
  }
  return met;
}

Doing DataControl::blocked_by(Box engine, Cycles now) const {
  const Wait& wait = waits_[engine];
  if (wait.waiting && wait.remote) {
    return {Activity::kBlockedDependency, static_cast<std::int32_t>(wait.core)};
  }
  if (!wait.waiting || wait.never) return Activity::kBlockedDependency;
  const isa::TaskDescriptor* other = tasks_[wait.task].descriptor;
  if (other == nullptr || tasks_[wait.task].entered_at == now) return Activity::kBlockedDependency;
  if (isa::is_message_engine(other->engine)) return Activity::kBlockedMessage;
  const bool memory = other->engine != EngineKind::kNeural && other->engine != EngineKind::kPlanar;
  return memory ? Activity::kBlockedMemory : Activity::kBlockedDependency;
}

void DataControl::finish_step(RunTaskId id, std::int64_t step, Cycles now) {
  RunTask& task = tasks_[id];
  TESSERA_CHECK(task.finished == step, "step {} finished after {}", step, task.finished);
  if (task.changed_at != now) {
    task.finished_before = task.finished;
    task.changed_at = now;
  }
  ++task.finished;
  wake_waiting(id, now, [&task](const Wait& wait) { return task.finished >= wait.needed; });
  if (options_.news != nullptr) {
    const RunNetwork& network = networks_[task.network];
    options_.news->finished(options_.core, network.first + (id - network.position),
                            {.finished = task.finished, .all = task.finished == task.steps}, now);
  }
  if (task.finished < task.steps) return;
  if ((task.descriptor->header.debug & isa::TaskDebug::kStop) != 0 && !stopped(id)) {
    raise(id, "stopped behind it, as its descriptor asks");
  }
  times_[id].end = now;
  if (dropped_at_ != now) {
    dropped_at_ = now;
    dropped_now_ = 0;
    for (Share& share : shares_) share.dropped_now = 0;
  }
  ++dropped_now_;
  --used_;
  Share& share = shares_[task.network];
  ++share.dropped_now;
  --share.used;
  ++share.retired;
  ++retired_;
  wakes_.wake(Box::kTaskManager, now + 1);
}

void DataControl::raise(RunTaskId id, std::string reason) {
  const RunTask& task = tasks_[id];
  std::optional<TaskException>& exception = exceptions_[task.network];
  if (exception) return;
  const RunNetwork& network = networks_[task.network];
  if (task.descriptor->header.tag != 0) {
    reason += fmt::format(" (tag {})", task.descriptor->header.tag);
  }
  exception = {network.first + (id - network.position), std::move(reason)};
}

std::string DataControl::name(RunTaskId id) const {
  const RunNetwork& network = networks_[tasks_[id].network];
  const isa::TaskId task = network.first + (id - network.position);
  if (networks_.size() == 1) return fmt::format("task {}", task);
  return fmt::format("network {} task {}", tasks_[id].network, task);
}

std::string DataControl::describe_wait(Box engine) const {
  const Wait& wait = waits_[engine];
  if (!wait.waiting) return "waits for nothing";
  if (wait.remote) {
    return fmt::format("waits for step {} of task {} of core {}", wait.needed, wait.named,
                       wait.core);
  }
  if (wait.never) return fmt::format("waits for task {}, which is not of this run", wait.named);
  const RunTask& other = tasks_[wait.task];
  if (other.descriptor == nullptr) {
    return fmt::format("waits for {} of {}, which has not entered the task buffer",
                       wait.needed == INT64_MAX ? "all steps" : fmt::format("step {}", wait.needed),
                       name(wait.task));
  }
  return fmt::format("waits for step {} of {}, which has finished {} of {}", wait.needed,
                     name(wait.task), other.finished, other.steps);
}

}  // namespace tessera::engines

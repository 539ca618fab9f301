#include "report/layer_time.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "arith/format.h"

namespace tessera::report {
namespace {

using isa::Dependency;
using isa::EngineKind;
using isa::Program;
using isa::TaskDescriptor;

Cause cause_of(EngineKind engine) {
  switch (engine) {
    case EngineKind::kNeural:
      return Cause::kDependency;
    case EngineKind::kPlanar:
      return Cause::kPlanar;
    case EngineKind::kKernel:
      return Cause::kWeights;
    case EngineKind::kLoad:
    case EngineKind::kStore:
    case EngineKind::kMessageIn:
    case EngineKind::kMessageOut:
      return Cause::kTransfers;
  }
  return Cause::kStartUp;
}

class Attribution {
 public:
  Attribution(const Program& program, const RunResult& run)
      : program_(program), run_(run), times_(run.layers.size()) {}

  std::vector<LayerTime> run() {
    for (const TaskDescriptor& task : program_.tasks) {
      if (task.layer < times_.size()) times_[task.layer].dram_bytes += task_dram_bytes(task);
    }
    index_events();
    std::int64_t done = 0;  // every cycle before is attributed
    const std::vector<std::int32_t>& steps = queues_[index(EngineKind::kNeural)];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const TimelineEvent& step = event(steps[i]);
      if (step.begin > done) explain_gap(done, step.begin, steps[i]);
      // The end is that of the results; the array is free before, for its next step.
      const auto same =
          std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
                       [&](std::int32_t other) { return event(other).engine == step.engine; });
      const std::int64_t next = same != steps.end() ? event(*same).begin : step.end;
      const std::int64_t end = std::min(step.end, next);
      const std::int64_t begin = std::max(done, step.begin);
      const std::int64_t works =
          std::clamp(step.begin + step.blocked_ports, begin, std::max(begin, end));
      charge(steps[i], Cause::kPorts, begin, works);
      charge(steps[i], Cause::kArray, works, end);
      done = std::max(done, end);
    }
    if (done < run_.cycles) explain_gap(done, run_.cycles, -1);
    return std::move(times_);
  }

 private:
  static std::size_t index(EngineKind engine) { return static_cast<std::size_t>(engine); }
  const TimelineEvent& event(std::int32_t at) const {
    return run_.timeline[static_cast<std::size_t>(at)];
  }
  const TaskDescriptor& task_of(std::int32_t at) const {
    return program_.tasks[static_cast<std::size_t>(event(at).task)];
  }

  // Steps of each task and of each kind of engine, in the order of time. Of the bars of a step that
  // several engines share, the longest stands for it.
  void index_events() {
    events_.resize(program_.tasks.size());
    position_.resize(run_.timeline.size());
    for (std::size_t i = 0; i < events_.size(); ++i) {
      events_[i].assign(static_cast<std::size_t>(program_.tasks[i].steps()), -1);
    }
    for (std::size_t i = 0; i < run_.timeline.size(); ++i) {
      const TimelineEvent& e = run_.timeline[i];
      const auto at = static_cast<std::int32_t>(i);
      std::int32_t& longest =
          events_[static_cast<std::size_t>(e.task)][static_cast<std::size_t>(e.step)];
      if (longest < 0 || e.end > event(longest).end) longest = at;
    }
    for (const std::vector<std::int32_t>& steps : events_) {
      for (const std::int32_t at : steps) {
        if (at >= 0) queues_[index(task_of(at).engine)].push_back(at);
      }
    }
    for (std::vector<std::int32_t>& queue : queues_) {
      std::stable_sort(queue.begin(), queue.end(), [&](std::int32_t a, std::int32_t b) {
        return std::pair{event(a).begin, event(a).task} < std::pair{event(b).begin, event(b).task};
      });
      for (std::size_t i = 0; i < queue.size(); ++i) {
        position_[static_cast<std::size_t>(queue[i])] = i;
      }
    }
  }

  void charge(std::int32_t at, Cause cause, std::int64_t begin, std::int64_t end) {
    const std::uint32_t layer = at < 0 ? 0 : task_of(at).layer;
    if (end <= begin || layer >= times_.size()) return;
    times_[layer].cycles[cause] += end - begin;
  }

  // What let this step begin: of all it had to wait for, what ended last. -1: nothing.
  std::int32_t released_by(std::int32_t at) const {
    const TimelineEvent& step = event(at);
    std::int32_t last = -1;
    const auto consider = [&](std::int32_t other) {
      if (other < 0 || event(other).begin >= step.begin) return;
      if (last < 0 || event(other).end > event(last).end) last = other;
    };
    for (const Dependency& dependency : task_of(at).dependencies) {
      const auto& steps = events_[dependency.task];
      const std::int64_t needed =
          isa::steps_needed(dependency, step.step + 1, static_cast<std::int64_t>(steps.size()));
      if (needed > 0) consider(steps[static_cast<std::size_t>(needed) - 1]);
    }
    const std::size_t position = position_[static_cast<std::size_t>(at)];
    if (position > 0) consider(queues_[index(task_of(at).engine)][position - 1]);
    return last;
  }

  std::int32_t last_event() const {
    std::int32_t last = -1;
    for (std::size_t i = 0; i < run_.timeline.size(); ++i) {
      if (last < 0 || run_.timeline[i].end > event(last).end) last = static_cast<std::int32_t>(i);
    }
    return last;
  }

  // Cycles [begin, end) without a neural step; `step` (-1: the run's end) follows them.
  void explain_gap(std::int64_t begin, std::int64_t end, std::int32_t step) {
    std::int64_t cursor = end;
    while (cursor > begin) {
      const std::int32_t before = step < 0 ? last_event() : released_by(step);
      if (before < 0) {
        charge(step, Cause::kStartUp, begin, cursor);
        return;
      }
      const TimelineEvent& e = event(before);
      const std::int64_t free = std::clamp(e.end, begin, cursor);
      charge(step < 0 ? before : step, Cause::kStartUp, free, cursor);
      const std::int64_t from = std::clamp(e.begin, begin, free);
      charge(before, cause_of(task_of(before).engine), from, free);
      cursor = from;
      step = before;
    }
  }

  const Program& program_;
  const RunResult& run_;
  std::vector<LayerTime> times_;
  std::vector<std::vector<std::int32_t>> events_;  // of each task, by step
  std::array<std::vector<std::int32_t>, isa::kEngineKindCount> queues_;
  std::vector<std::size_t> position_;  // of each event in its queue
};

}  // namespace

const char* cause_name(Cause cause) {
  constexpr std::array kNames = {"array",      "planar",   "weights", "transfers",
                                 "dependency", "start-up", "ports"};
  static_assert(kNames.size() == kCauseCount);
  return kNames[static_cast<std::size_t>(cause)];
}

std::int64_t LayerTime::total() const {
  return std::accumulate(cycles.begin(), cycles.end(), std::int64_t{0});
}

Cause LayerTime::bound() const {
  return static_cast<Cause>(std::max_element(cycles.begin(), cycles.end()) - cycles.begin());
}

Cause LayerTime::idle_cause() const {
  static_assert(static_cast<int>(Cause::kArray) == 0);
  return static_cast<Cause>(std::max_element(cycles.begin() + 1, cycles.end()) - cycles.begin());
}

std::int64_t task_dram_bytes(const TaskDescriptor& task) {
  if (const auto* transfer = std::get_if<isa::TransferTask>(&task.config)) {
    return std::int64_t{task.bands.images} * task.bands.rows * transfer->buffer.columns *
           transfer->channel_count * format_bytes(transfer->buffer.format);
  }
  if (const auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
    std::int64_t bytes = copy->element_bytes;
    for (const std::int64_t extent : copy->extents) bytes *= extent;
    return copy->fill ? bytes : 2 * bytes;
  }
  if (const auto* kernel = std::get_if<isa::KernelTask>(&task.config)) {
    return kernel->stored_bytes();
  }
  return 0;
}

std::vector<LayerTime> layer_times(const Program& program, const RunResult& run) {
  return Attribution(program, run).run();
}

}  // namespace tessera::report

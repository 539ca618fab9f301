#include "compile/timeline.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <queue>
#include <span>

#include "arch/cost.h"
#include "arch/dram_config.h"
#include "arch/message_link.h"
#include "arch/port_schedule.h"
#include "base/ratio.h"
#include "compile/channel_time.h"
#include "isa/descriptor_check.h"
#include "isa/dma_time.h"
#include "isa/message_work.h"
#include "isa/port_work.h"
#include "isa/task_hazard.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using namespace isa;  // descriptors

// Words of a descriptor, about.
constexpr std::int64_t kTransferWords = 28, kComputeWords = 46;
// Until a closed row is open.
constexpr Cycles kRowCycles = 30;

// A DMA engine's requests in flight.
class Requests {
 public:
  explicit Requests(std::int64_t most = 1) : most_(most) {}

  // From `at` on: when another one can be made.
  Cycles place(Cycles at) {
    while (!in_flight_.empty() && (in_flight_.front().done <= at || count_ == most_)) {
      at = std::max(at, in_flight_.front().done);
      count_ -= in_flight_.front().count;
      in_flight_.pop_front();
    }
    return at;
  }

  // So many more, the last of them answered at `end`, and all in the `cycles` before. When the last one
  // is made, if all could be at once but for their number.
  Cycles add(std::int64_t requests, Cycles end, Cycles cycles) {
    if (requests < most_ - count_) {
      in_flight_.push_back({end, requests});
      count_ += requests;
      return 0;
    }
    in_flight_.clear();
    const Cycles last =
        end - cycles * std::min(requests, most_) / std::max<std::int64_t>(requests, 1);
    in_flight_.push_back({last, count_ = most_});
    return last;
  }

 private:
  struct Answered {
    Cycles done = 0;
    std::int64_t count = 0;
  };
  std::int64_t most_, count_ = 0;
  std::deque<Answered> in_flight_;
};

// Bytes that a row of a transfer moves through the buffer's port; 0 for a task without the buffer.
std::int64_t buffer_bytes_of_row(const TaskDescriptor& task) {
  const auto* transfer = std::get_if<TransferTask>(&task.config);
  if (transfer == nullptr) return 0;
  return std::int64_t{transfer->channel_count} * transfer->buffer.columns *
         format_bytes(transfer->buffer.format);
}

class Predictor {
 public:
  Predictor(const ChipConfig& chip, const std::vector<TaskDescriptor>& tasks, Cycles answer_cycles)
      : chip_(chip),
        tasks_(tasks),
        answer_cycles_(answer_cycles),
        ports_(PortSchedule::of(chip)),
        port_work_(chip),
        kernels_accepted_(static_cast<Cycles>(static_cast<double>(dram_pieces(chip).bytes) /
                                              dram_sustained_bytes_per_cycle(chip))),
        refreshed_(dram_costs(chip).peak.value() / dram_sustained_bytes_per_cycle(chip)) {
    for (std::vector<Engine>& engines : engines_) engines.resize(1);
    engines_[EngineKind::kNeural].resize(static_cast<std::size_t>(chip.neural.count));
    engines_[EngineKind::kPlanar].resize(static_cast<std::size_t>(chip.planar.count));
    for (const EngineKind kind : {EngineKind::kMessageIn, EngineKind::kMessageOut}) {
      engines_[kind].resize(static_cast<std::size_t>(chip.message.ports));
    }
    std::size_t steps = 0;
    for (const TaskDescriptor& task : tasks) {
      first_step_.push_back(steps);
      steps += static_cast<std::size_t>(task.steps());
    }
    step_ends_.resize(steps);
  }

  // A segment of so many tasks on a quiet core, which waits for the first of its descriptors.
  void begin_segment(std::int64_t tasks) {
    const Cycles now = timeline_.cycles + first_fetch(tasks);
    for (std::vector<Engine>& engines : engines_) {
      for (Engine& engine : engines) {
        engine = {};
        engine.free_at = engine.drained_at = now;
      }
    }
    for (Engine& engine : engines_[EngineKind::kNeural]) {
      engine.draining = DrainingSteps(chip_.neural.psum_banks);
    }
    for (Engine& engine : engines_[EngineKind::kPlanar]) {
      engine.draining = DrainingSteps(kPlanarStepsDraining);
    }
    dispatched_at_ = now;
    in_flight_ = {};
    channel_.clear();
    for (Requests& requests : requests_) requests = Requests(chip_.dma.outstanding_requests);
    if (ports_) ports_->reset();
  }

  void run(const TaskDescriptor& task) {
    const std::span<Engine> shared = engines_of(task);
    Engine engine = together(shared, task);
    const Cycles entered = enter(task);
    engine.free_at = std::max(engine.free_at, entered);
    engine.entered = entered;
    end_ = entered;
    switch (task.engine) {
      case EngineKind::kNeural:
        run_neural(task, engine);
        break;
      case EngineKind::kPlanar:
        run_planar(task, engine);
        break;
      case EngineKind::kMessageIn:
      case EngineKind::kMessageOut:
        run_message(task, engine);
        break;
      default:
        run_transfer(task, engine);
    }
    engine.previous = &task;
    std::ranges::fill(shared, engine);
    in_flight_.push(end_);
    timeline_.ends.push_back(end_);
    timeline_.cycles = std::max(timeline_.cycles, end_);
  }

  void run_all(const std::vector<std::uint32_t>& segments) {
    std::size_t segment_end = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (i == segment_end) {
        while (segment_end < tasks_.size() && segments[segment_end] == segments[i]) ++segment_end;
        begin_segment(static_cast<std::int64_t>(segment_end - i));
      }
      run(tasks_[i]);
    }
  }

  // When kernels are on their way, as a run before has found: they are dispatched ahead of data that
  // come before them in the order of the tasks.
  void expect(ChannelTime kernels) { expected_ = std::move(kernels); }
  ChannelTime take_kernels() { return std::move(kernels_); }
  Timeline take() { return std::move(timeline_); }

 private:
  struct Engine {
    Cycles free_at = 0;     // it can take the next step
    Cycles drained_at = 0;  // its results so far are there
    Cycles entered = 0;     // the task, in the engine's queue
    Cycles begun = 0;       // the task before took its registers
    Cycles configured = 0;  // the task
    Cycles shadow = 0;      // begin of the last pass of the task before
    Cycles spaced = 0;      // no task begins behind that pass before
    const TaskDescriptor* previous = nullptr;
    DrainingSteps draining{1};
  };

  // A request of the task manager.
  Cycles first_fetch(std::int64_t tasks) const {
    const std::int64_t request = descriptor_request_bytes(chip_);
    const DramCosts costs = dram_costs(chip_);
    return kRowCycles + costs.latency +
           costs.cycles(std::min(tasks * (kTransferWords + kComputeWords) * 2, request)) +
           answer_cycles_;
  }

  // Those that share the task, which begin its steps together.
  std::span<Engine> engines_of(const TaskDescriptor& task) {
    const EngineSet& set = task.header.engines;
    const std::span<Engine> all(engines_[task.engine]);
    return set.all() ? all : all.subspan(set.first, set.count);
  }

  // The engines as one that is as far as the last of them.
  Engine together(std::span<const Engine> engines, const TaskDescriptor& task) const {
    Engine all = engines[0];
    for (const Engine& engine : engines.subspan(1)) {
      all.free_at = std::max(all.free_at, engine.free_at);
      all.drained_at = std::max(all.drained_at, engine.drained_at);
      all.begun = std::max(all.begun, engine.begun);
      all.shadow = std::max(all.shadow, engine.shadow);
      all.spaced = std::max(all.spaced, engine.spaced);
      // Of the tasks before, one that this one reads.
      if (engine.previous != nullptr && engine.previous != all.previous &&
          reads_results_of(task, *engine.previous, chip_.state_buffer.partitions)) {
        all.previous = engine.previous;
      }
    }
    return all;
  }

  // A place in the task buffer.
  Cycles enter(const TaskDescriptor& task) {
    const TaskManagerConfig& manager = chip_.task_manager;
    const bool computes = task.engine == EngineKind::kNeural || task.engine == EngineKind::kPlanar;
    const Cycles fetched =
        ceil_div(computes ? kComputeWords : kTransferWords, manager.configuration_words_per_cycle);
    dispatched_at_ += std::max<Cycles>(fetched, manager.dispatch_cycles);
    if (std::ssize(in_flight_) >= manager.task_buffer_entries) {
      dispatched_at_ = std::max(dispatched_at_, in_flight_.top());
      in_flight_.pop();
    }
    return dispatched_at_;
  }

  // When the steps are done that step `step` (0-based) waits for, or only those of the kernel DMA.
  Cycles granted(const TaskDescriptor& task, std::int64_t step, bool kernels_only = false) const {
    Cycles at = 0;
    for (const Dependency& dependency : task.dependencies) {
      if (kernels_only && !isa::brings_kernel(tasks_[dependency.task])) continue;
      const std::int64_t needed =
          steps_needed(dependency, step + 1, tasks_[dependency.task].steps());
      if (needed == 0) continue;
      at = std::max(
          at, step_ends_[first_step_[dependency.task] + static_cast<std::size_t>(needed) - 1]);
    }
    return at;
  }

  void finish_step(const TaskDescriptor& task, std::int64_t step, Cycles end) {
    end_ = std::max(end_, end);
    step_ends_[first_step_[task.id] + static_cast<std::size_t>(step)] = end_;
  }

  // The end of a step that begins at `at` or later and takes the cycles of `alone` where no ports are
  // in its way. No task to come begins before the one dispatched last.
  Cycles occupy(const TaskDescriptor& task, std::int64_t step, Cycles at, const ArrayStep& alone,
                std::int64_t readers = 1) {
    if (!ports_ || alone.cycles == 0) return at + alone.cycles;
    const auto demands = port_work_.of(task, step, alone, readers);
    return ports_->reserve(dispatched_at_, alone.cycles, demands, at - dispatched_at_).end;
  }

  bool two_register_sets() const { return chip_.task_manager.configuration_sets > 1; }

  void begin_task(const TaskDescriptor& task, Engine& engine, Cycles start, bool two_sets) const {
    engine.configured =
        (two_sets ? std::max(engine.entered, engine.begun) : engine.free_at) + start;
    const Cycles ready = engine.begun = std::max(engine.free_at, engine.configured);
    const bool waits = engine.previous != nullptr &&
                       reads_results_of(task, *engine.previous, chip_.state_buffer.partitions);
    engine.free_at = waits ? std::max(ready, engine.drained_at) : ready;
  }

  // From `at` on, or when the first weights are there, behind the task before if they may be.
  Cycles weights_loaded(const TaskDescriptor& task, const Engine& engine, Cycles first,
                        Cycles at) const {
    const auto& neural = std::get<NeuralTask>(task.config);
    const bool from_kernels = !neural.dynamic && !neural.transpose;
    const Cycles from =
        std::max({engine.configured, engine.shadow, from_kernels ? granted(task, 0, true) : at});
    return std::max({at, from + first, engine.spaced});
  }

  void run_neural(const TaskDescriptor& task, Engine& engine) {
    const ProductWork work = product_work(std::get<NeuralTask>(task.config), chip_);
    const std::int64_t rows = std::min(task.bands.rows, task.bands.rows_per_step);
    // As many engines as share the task; the longest of their shares counts.
    NeuralEngineConfig config = chip_.neural;
    config.count = static_cast<std::int32_t>(engines_of(task).size());
    const StepSharing sharing = task.header.sharing == Sharing::kAutomatic
                                    ? neural_sharing(config, work, rows)
                                    : step_sharing(task.header.sharing);
    const Cycles drain = neural_drain_cycles(config, work);
    const Cycles first = neural_first_load_cycles(config, work);
    const bool behind = two_register_sets() && config.folds == Folds::kOverlapped;
    DrainingSteps& draining = engine.draining;
    begin_task(task, engine, config.task_start_cycles, behind);
    for (std::int64_t step = 0; step < task.steps(); ++step) {
      const StepRows rows_of_step = step_rows(task, step);
      Cycles at = draining.begin(std::max(engine.free_at, granted(task, step)));
      if (step == 0) at = behind ? weights_loaded(task, engine, first, at) : at + first;
      engine.free_at = occupy(task, step, at, array_step(config, work, rows_of_step, sharing),
                              sharing == StepSharing::kUnicast ? config.count : 1);
      engine.drained_at = engine.free_at + drain;
      draining.add(engine.drained_at);
      finish_step(task, step, engine.drained_at);
      if (!rows_of_step.last_of_task) continue;
      const LastPass pass = neural_last_pass(config, work, rows_of_step, sharing);
      engine.shadow = engine.free_at - pass.cycles;
      engine.spaced = engine.shadow + pass.spacing;
    }
  }

  void run_planar(const TaskDescriptor& task, Engine& engine) {
    begin_task(task, engine, chip_.planar.task_start_cycles, two_register_sets());
    DrainingSteps& draining = engine.draining;
    const EngineShare most{.index = 0, .count = std::ssize(engines_of(task))};
    for (std::int64_t step = 0; step < task.steps(); ++step) {
      const Cycles at = draining.begin(std::max(engine.free_at, granted(task, step)));
      engine.free_at = occupy(
          task, step, at,
          {.cycles = planar_cycles(chip_.planar, planar_work(task.config, task.bands.range(step)),
                                   task.header.sharing, most)});
      engine.drained_at = engine.free_at + chip_.planar.latency_cycles;
      draining.add(engine.drained_at);
      finish_step(task, step, engine.drained_at);
    }
  }

  // Each step takes its share of what the task takes alone, by its rows. The channel serves others
  // while the first request is on its way, and the engine takes its next task when all are made.
  void run_transfer(const TaskDescriptor& task, Engine& engine) {
    const DmaTime time = dma_time(task, chip_);
    const std::int64_t all_rows = std::int64_t{task.bands.images} * task.bands.rows;
    const auto moving = static_cast<double>(time.transfer() - time.lead) * refreshed_;
    const Ratio share(std::max<Cycles>(static_cast<Cycles>(moving), 1), all_rows);
    engine.free_at += time.start;
    const std::int64_t buffer_bytes = ports_ ? buffer_bytes_of_row(task) : 0;
    const auto* copy = std::get_if<CopyTask>(&task.config);
    const bool copies = copy != nullptr && !copy->fill;
    std::int64_t rows = 0;
    Cycles taken = 0;
    for (std::int64_t step = 0; step < task.steps(); ++step) {
      const RowRange range = task.bands.range(step);
      const std::int64_t requests = ceil_div(time.requests * (range.last - range.first), all_rows);
      Requests& made = requests_[task.engine];
      const Cycles at = made.place(std::max(engine.free_at, granted(task, step)));
      rows += range.last - range.first;
      const Cycles until = share.floor_of(rows), cycles = until - taken;
      taken = until;
      Cycles moved = transferred(task, at + time.lead, cycles);
      if (buffer_bytes > 0) {
        const Cycles passage =
            ceil_div((range.last - range.first) * buffer_bytes, chip_.dma.port_bytes);
        moved = std::max(moved, occupy(task, step, at + time.lead, {.cycles = passage}));
      }
      const Cycles end = moved + time.completion + answer_cycles_;
      // A copy is done before the next task of its engine makes requests.
      engine.free_at = copies ? end - time.start : std::max(at, made.add(requests, end, cycles));
      finish_step(task, step, end);
    }
  }

  // The end of `cycles` of the channel that are asked for at `at`. Data wait for the kernels that the
  // memory has accepted.
  Cycles transferred(const TaskDescriptor& task, Cycles at, Cycles cycles) {
    if (task.engine != EngineKind::kKernel) {
      return channel_.take(std::min(expected_.busy_until(at), at + kernels_accepted_), cycles);
    }
    const Cycles end = channel_.take(at, cycles);
    kernels_.take(end - cycles, cycles);
    return end;
  }

  // Nothing has come in before.
  void run_message(const TaskDescriptor& task, Engine& engine) {
    engine.free_at += chip_.dma.task_start_cycles;
    for (std::int64_t step = 0; step < task.steps(); ++step) {
      const isa::MessageStep messages = isa::message_step(task, step);
      engine.free_at = std::max(engine.free_at, granted(task, step)) +
                       message_port_cycles(chip_, messages.messages, messages.bytes);
      finish_step(task, step, engine.free_at + message_latency(chip_));
    }
  }

  const ChipConfig& chip_;
  const std::vector<TaskDescriptor>& tasks_;
  const Cycles answer_cycles_;
  std::optional<PortSchedule> ports_;
  PortWork port_work_;
  const Cycles kernels_accepted_;  // cycles of the memory
  const double refreshed_;         // what transfers take longer, since the memory is refreshed
  std::vector<std::size_t> first_step_;  // of each task
  std::vector<Cycles> step_ends_;
  isa::ByEngine<std::vector<Engine>> engines_;
  Cycles dispatched_at_ = 0;
  std::priority_queue<Cycles, std::vector<Cycles>, std::greater<>> in_flight_;  // ends
  ChannelTime channel_, kernels_, expected_;
  isa::ByEngine<Requests> requests_;
  Cycles end_ = 0;  // of the current task so far
  Timeline timeline_;
};

}  // namespace

Timeline predict_timeline(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                          const std::vector<TaskDescriptor>& tasks, Cycles answer_cycles) {
  Predictor predictor(chip, tasks, answer_cycles);
  predictor.run_all(segments);
  ChannelTime kernels = predictor.take_kernels();
  if (kernels.empty()) return predictor.take();
  Predictor again(chip, tasks, answer_cycles);
  again.expect(std::move(kernels));
  again.run_all(segments);
  return again.take();
}

}  // namespace tessera::compile

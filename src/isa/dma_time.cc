#include "isa/dma_time.h"

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "arch/clock_ratio.h"
#include "arch/dram_channel_model.h"
#include "arch/dram_config.h"
#include "arch/dram_pipe.h"
#include "arch/dram_stripes.h"
#include "base/check.h"
#include "isa/dma_work.h"

namespace tessera::isa {
namespace {

constexpr Cycles kNoCycle = INT64_MAX / 4;
// Pieces before the pace is measured, and those that it is measured over, at least.
constexpr std::int64_t kWarmPieces = 16, kPacePieces = 48;
// Fewer of them where a piece is many runs.
constexpr std::int64_t kManyRuns = 16, kPacePiecesOfManyRuns = 32;
// What regions lie apart: the same banks, other rows, also where the device is smaller than that. And
// the addresses within a region that differ in cost.
constexpr std::int64_t kRegionDistance = (std::int64_t{1} << 30) + (std::int64_t{1} << 24);
constexpr std::int64_t kAddressPeriod = std::int64_t{1} << 16;

// A memory with one requester, whose requests complete in order.
class QuietMemory {
 public:
  QuietMemory(const ChipConfig& chip, bool data)
      : pipe_(chip),
        stripes_(chip),
        way_(chip),
        queues_(QueuePace::of(chip)),
        costs_(dram_costs(chip)),
        data_(data),
        clocks_(chip.clock_hertz, clock_of(chip)) {
    const DramDevice* device = dram_device(chip);
    if (device == nullptr) return;
    for (std::int64_t i = 0; i < stripes_.channels(); ++i) {
      channels_.emplace_back(*device, dram_channel_settings(chip.dram));
    }
  }

  // From the end of a transfer to its completion.
  Cycles latency() const { return channels_.empty() ? pipe_.latency() : way_.response; }
  // Whole bursts so far.
  std::int64_t bytes() const { return bytes_; }
  // When a device begins to transfer; 0 where the memory's latency has it all.
  Cycles first_data() const { return first_data_; }

  // A request's grid outlives its completion.
  void push(const DramRequest& request, Cycles now) { waiting_.push_back({request, now + 1}); }

  // Of the oldest request that has none yet; there is one.
  Cycles take_completion() {
    while (completions_.empty()) channels_.empty() ? serve_in_pipe() : serve_in_channels();
    const Cycles at = completions_.front();
    completions_.pop_front();
    return at;
  }

 private:
  struct Waiting {
    DramRequest request;
    Cycles visible = 0;
  };
  struct Service {
    std::int64_t bursts_left = 0;
    DramCycles done_at = 0;
    Cycles not_before = 0;
  };

  static std::int64_t clock_of(const ChipConfig& chip) {
    const DramDevice* device = dram_device(chip);
    return device == nullptr ? 1000 : device->clock_ps;
  }

  Cycles queues_done(const DramRequest& request, Cycles now) {
    if (queues_.queues == 0 || !data_) return 0;
    queue_time_ = std::max(queue_time_, now * queues_.queues) + queues_.cycles(request);
    return ceil_div(queue_time_, queues_.queues);
  }

  void serve_in_pipe() {
    const Waiting next = take_waiting();
    Cycles at = next.visible;
    if (accepted_.size() == DramPipe::kAccepted) {
      at = std::max(at, accepted_.front());
      accepted_.pop_front();
    }
    bytes_ += pipe_.serve(next.request, at);
    const Cycles end = pipe_.hold(queues_done(next.request, at));
    accepted_.push_back(end);
    completions_.push_back(end + pipe_.latency());
  }

  Waiting take_waiting() {
    TESSERA_CHECK(!waiting_.empty(), "no request waits");
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

  bool room(bool write) const {
    return std::ranges::all_of(channels_, [write](const auto& c) { return c.room(write); });
  }

  // Accepts a request, or goes on to when something happens next.
  void serve_in_channels() {
    const Cycles arrival = waiting_.empty() ? kNoCycle : waiting_.front().visible + way_.request;
    if (arrival <= reached_ && room(waiting_.front().request.write)) {
      accept_in_channels(take_waiting().request);
      return;
    }
    Cycles next = arrival > reached_ ? arrival : kNoCycle;
    for (const DramChannelModel& channel : channels_) {
      if (channel.next() != kDramNever) next = std::min(next, clocks_.core(channel.next()));
    }
    TESSERA_CHECK(next != kNoCycle, "nothing happens in the channels");
    reached_ = std::max(reached_, next);
    for (DramChannelModel& channel : channels_) {
      while (channel.next() <= clocks_.dram(reached_)) finish(channel.step());
    }
  }

  void accept_in_channels(const DramRequest& request) {
    const auto number = static_cast<std::uint32_t>(first_service_ + services_.size());
    const std::int64_t bytes =
        enter_request(stripes_, request, number, clocks_.dram(reached_), channels_);
    bytes_ += bytes;
    services_.push_back({.bursts_left = bytes / stripes_.burst_bytes(),
                         .not_before = queues_done(request, reached_)});
  }

  Cycles begun(const DramTransfer& transfer) const {
    const std::int64_t bytes = transfer.bursts * stripes_.burst_bytes();
    return clocks_.core(transfer.done_at) - stripes_.channels() * costs_.whole_cycles(bytes);
  }

  void finish(const std::optional<DramTransfer>& transfer) {
    if (!transfer) return;
    if (first_data_ == 0) first_data_ = begun(*transfer);
    Service& service = services_[transfer->request - first_service_];
    service.done_at = std::max(service.done_at, transfer->done_at);
    service.bursts_left -= transfer->bursts;
    while (!services_.empty() && services_.front().bursts_left == 0) {
      const Service& done = services_.front();
      last_ =
          std::max(last_, std::max(clocks_.core(done.done_at), done.not_before) + way_.response);
      completions_.push_back(last_);
      services_.pop_front();
      ++first_service_;
    }
  }

  DramPipe pipe_;
  const DramStripes stripes_;
  const ControllerWay way_;
  const QueuePace queues_;
  const DramCosts costs_;
  const bool data_;
  const ClockRatio clocks_;
  std::vector<DramChannelModel> channels_;  // of a device
  std::deque<Waiting> waiting_;
  std::deque<Cycles> accepted_, completions_;
  std::deque<Service> services_;
  std::size_t first_service_ = 0;
  std::int64_t queue_time_ = 0, bytes_ = 0;
  Cycles reached_ = 0, last_ = 0, first_data_ = 0;
};

// About what moving `runs` runs of `bytes` takes, to weigh parts of a task against each other: whole
// bursts in the memory, or what crosses the buffer's port.
class Weight {
 public:
  explicit Weight(const ChipConfig& chip)
      : burst_(dram_burst_bytes(chip)),
        peak_(dram_costs(chip).peak.value()),
        port_bytes_(chip.dma.port_bytes) {}

  double of(const DmaStep& plan, std::int64_t runs, std::int64_t bytes) const {
    // Runs that lie within a burst share it.
    const StridedRuns& grid = plan.reads ? plan.read : plan.write;
    std::int64_t of_run = round_up(bytes, burst_);
    if (grid.axes > 0) {
      const std::int64_t pitch = grid.strides[static_cast<std::size_t>(grid.axes) - 1];
      of_run = std::min(of_run, std::max(bytes, pitch));
    }
    const auto bursts = static_cast<double>(runs * of_run);
    const auto crossing = static_cast<double>(runs * bytes * plan.expansion);
    const auto port = static_cast<double>(dma_port_width(plan, port_bytes_));
    return std::max(bursts / peak_, crossing / port);
  }
  double of(const DmaStep& plan) const { return of(plan, plan.runs, plan.run_bytes); }

 private:
  const std::int64_t burst_;
  const double peak_;
  const std::int64_t port_bytes_;
};

// Of all steps.
double weight_of_task(const TaskDescriptor& task, const DramPlaces& places,
                      const ChipConfig& chip) {
  const Weight weight(chip);
  DmaStep plan;
  plan_dma_step(task, 0, places, chip, plan);
  const std::int64_t bands = task.bands.bands();
  const double full = weight.of(plan);
  plan_dma_step(task, bands - 1, places, chip, plan);
  return task.bands.images * (static_cast<double>(bands - 1) * full + weight.of(plan));
}

// A DMA engine with this one task.
class TaskAlone {
 public:
  TaskAlone(const TaskDescriptor& task, const DramPlaces& places, const ChipConfig& chip)
      : task_(task),
        places_(places),
        chip_(chip),
        memory_(chip, task.engine != EngineKind::kKernel),
        weight_(chip),
        port_bytes_(chip.dma.port_bytes),
        outstanding_max_(chip.dma.outstanding_requests) {}

  DmaTime run() {
    const Cycles start = 1 + chip_.dma.task_start_cycles;  // it is seen in the next cycle
    issue(start);
    while (!in_flight_.empty()) {
      const Cycles now = memory_.take_completion();
      complete(now);
      issue(now);
    }
    Cycles cycles = done_at_;
    std::int64_t moved = memory_.bytes(), requests = pieces_done_;
    if (next_step_ < task_.steps() || next_piece_ < pieces_of_step_) {
      const double left = std::max(0.0, weight_of_task(task_, places_, chip_) - weight_done_);
      const double pace = static_cast<double>(done_at_ - warm_at_) / (weight_done_ - warm_weight_);
      cycles += static_cast<Cycles>(pace * left);
      const auto add_left = [&](std::int64_t& count) {
        count += static_cast<std::int64_t>(static_cast<double>(count) * left / weight_done_);
      };
      add_left(moved);
      add_left(requests);
    }
    return {.cycles = cycles,
            .start = start,
            .completion = memory_.latency(),
            .first = first_at_,
            .lead = std::clamp<Cycles>(memory_.first_data() - start, 0,
                                       cycles - start - memory_.latency()),
            .requests = requests,
            .dram_bytes = moved};
  }

 private:
  struct InFlight {
    const DmaStep* step = nullptr;
    std::int64_t piece = 0, bytes = 0;
    double weight = 0;
    bool read_of_copy = false;
  };

  void complete(Cycles now) {
    const InFlight done = in_flight_.front();
    in_flight_.pop_front();
    const DmaStep& plan = *done.step;
    if (done.read_of_copy) {
      writes_.push_back(done);
      return;
    }
    --outstanding_;
    if (pieces_done_ == 0) first_at_ = now;
    if (!(plan.reads && plan.writes)) {
      port_free_ = dma_port_free(plan, done.bytes, port_bytes_, now, port_free_);
    }
    done_at_ = std::max(now, port_free_);
    weight_done_ += done.weight;
    if (++pieces_done_ == warm_pieces()) {
      warm_at_ = done_at_;
      warm_weight_ = weight_done_;
    }
  }

  void issue(Cycles now) {
    while (true) {
      if (!writes_.empty()) {
        const InFlight write = writes_.front();
        writes_.pop_front();
        push(*write.step, write.piece, true, now);
        continue;
      }
      if (outstanding_ == outstanding_max_) return;
      if (pieces_issued_ == jump_after_) jump();
      if (next_piece_ == pieces_of_step_) {
        if (next_step_ == task_.steps() || pieces_issued_ >= pieces_wanted_) return;
        begin_step();
      }
      if (pieces_issued_ >= pieces_wanted_) return;
      ++outstanding_;
      ++pieces_issued_;
      push(steps_.back(), next_piece_++, !steps_.back().reads, now);
    }
  }

  void begin_step() {
    DmaStep& plan = steps_.emplace_back();
    plan_dma_step(task_, next_step_++, places_, chip_, plan);
    next_piece_ = 0;
    pieces_of_step_ = plan.pieces;
    // Copies wait for queues to drain, in turns.
    const bool few = plan.runs_per_piece >= kManyRuns && !(plan.reads && plan.writes);
    const std::int64_t pace = few ? kPacePiecesOfManyRuns : kPacePieces;
    pieces_wanted_ = warm_pieces() + round_up(pace, outstanding_max_);
    if (jump_after_ == 0) jump_after_ = warm_pieces() + round_up(pace / 2, outstanding_max_);
  }

  // Half of the pace is that of the middle of a long task: runs meet other banks there.
  void jump() {
    jump_after_ = -1;
    if (task_.steps() * pieces_of_step_ < 4 * pieces_wanted_) return;
    if (const std::int64_t steps = task_.steps() - next_step_; steps > 1) {
      next_step_ += steps / 2;
      begin_step();
    }
    next_piece_ += (pieces_of_step_ - next_piece_) / 2;
  }

  // As many as come back together, so that none of them are left out or counted twice.
  std::int64_t warm_pieces() const { return round_up(kWarmPieces, outstanding_max_); }

  void push(const DmaStep& step, std::int64_t piece, bool write, Cycles now) {
    const DramRequest request = dma_request(step, piece, write);
    memory_.push(request, now);
    in_flight_.push_back({&step, piece, request.runs * request.bytes,
                          weight_.of(step, request.runs, request.bytes),
                          step.reads && step.writes && !write});
  }

  const TaskDescriptor& task_;
  const DramPlaces& places_;
  const ChipConfig& chip_;
  QuietMemory memory_;
  const Weight weight_;
  const std::int64_t port_bytes_, outstanding_max_;
  std::deque<DmaStep> steps_;  // requests point into them
  std::deque<InFlight> in_flight_, writes_;
  std::int64_t next_step_ = 0, next_piece_ = 0, pieces_of_step_ = 0;
  std::int64_t pieces_issued_ = 0, pieces_wanted_ = 1, pieces_done_ = 0, outstanding_ = 0;
  std::int64_t jump_after_ = 0;  // pieces; 0: not known yet, -1: it has
  double weight_done_ = 0, warm_weight_ = 0;
  Cycles first_at_ = 0, done_at_ = 0, warm_at_ = 0, port_free_ = 0;
};

// The same place within the period, so that tasks that differ in nothing else are alike.
std::uint64_t within_period(std::uint64_t offset) {
  return offset % static_cast<std::uint64_t>(kAddressPeriod);
}

// All of a task that its time depends on.
class ShapeKey {
 public:
  explicit ShapeKey(const TaskDescriptor& task) {
    add(static_cast<std::int64_t>(task.engine));
    add(task.bands.images);
    add(task.bands.rows);
    add(task.bands.rows_per_step);
    std::visit([this](const auto& config) { add_config(config); }, task.config);
  }
  friend bool operator==(const ShapeKey&, const ShapeKey&) = default;
  std::size_t hash() const {
    std::uint64_t sum = 14695981039346656037U;
    for (std::size_t i = 0; i < size_; ++i) {
      sum = (sum ^ static_cast<std::uint64_t>(values_[i])) * 1099511628211U;
      sum ^= sum >> 29;
    }
    return sum;
  }

 private:
  static constexpr std::size_t kValuesMax = 40;

  void add(std::int64_t value) { values_[size_++] = value; }
  void add_address(const DramAddress& at) {
    add(static_cast<std::int64_t>(within_period(at.offset)));
  }
  void add_config(const TransferTask& task) {
    add_address(task.dram.address);
    for (const std::int64_t stride : task.dram.strides) add(stride);
    add(task.channel_count);
    add(task.buffer.columns);
    add(task.buffer.column_pitch);
    add(task.buffer.rows > 1 ? 1 : 0);
    add(format_bytes(task.buffer.format));
  }
  void add_config(const CopyTask& task) {
    add(task.fill ? 1 : 0);
    add(task.element_bytes);
    add_address(task.source);
    add_address(task.destination);
    for (std::size_t i = 0; i < task.extents.size(); ++i) {
      add(task.extents[i]);
      add(task.fill ? 0 : task.source_strides[i]);
      add(task.destination_strides[i]);
    }
  }
  void add_config(const KernelTask& task) {
    add_address(task.source);
    add(static_cast<std::int64_t>(task.dram_pitch));
    add(task.partitions);
    add(task.bytes_per_partition);
    add(task.stored_bytes());
    add(task.stream.compressed() ? task.stream.image_bytes : 0);
    add(task.stream.compressed() ? task.stream.element_bytes : 0);
  }
  void add_config(const NeuralTask& /*task*/) {}
  void add_config(const PlanarTask& /*task*/) {}
  void add_config(const MessageTask& /*task*/) {}

  std::array<std::int64_t, kValuesMax> values_{};
  std::size_t size_ = 0;
};

struct ShapeHash {
  std::size_t operator()(const ShapeKey& key) const { return key.hash(); }
};

// Times of tasks on one memory.
class KnownTimes {
 public:
  static KnownTimes& of_thread() {
    thread_local KnownTimes times;
    return times;
  }

  DmaTime look_up(const TaskDescriptor& task, const ChipConfig& chip) {
    if (!same_memory(chip)) {
      times_.clear();
      dram_ = chip.dram;
      custom_ = chip.dram_custom;
      dma_ = chip.dma;
      clock_hertz_ = chip.clock_hertz;
      rows_ = chip.neural.rows;
      partitions_ = chip.state_buffer.partitions;
    }
    const ShapeKey key(task);
    if (const auto known = times_.find(key); known != times_.end()) return known->second;
    if (times_.size() >= kMost) times_.clear();
    const DmaTime time = simulate(task, chip);
    times_.emplace(key, time);
    return time;
  }

 private:
  static constexpr std::size_t kMost = 8192;

  static DmaTime simulate(const TaskDescriptor& task, const ChipConfig& chip) {
    DramPlaces places;
    for (std::int64_t base = 0; base < kBaseIndexCount; ++base) {
      places.regions[base] = (base + 1) * kRegionDistance;
    }
    TaskDescriptor moved = task;
    if (auto* transfer = std::get_if<TransferTask>(&moved.config)) {
      move(transfer->dram.address);
    } else if (auto* copy = std::get_if<CopyTask>(&moved.config)) {
      move(copy->source);
      move(copy->destination);
      copy->source.base = BaseIndex::kWorkspace;
      copy->destination.base = BaseIndex::kOutput;
    } else if (auto* kernel = std::get_if<KernelTask>(&moved.config)) {
      move(kernel->source);
    }
    return TaskAlone(moved, places, chip).run();
  }
  static void move(DramAddress& at) { at.offset = within_period(at.offset); }

  bool same_memory(const ChipConfig& chip) const {
    return clock_hertz_ == chip.clock_hertz && rows_ == chip.neural.rows &&
           partitions_ == chip.state_buffer.partitions && dram_ == chip.dram &&
           custom_ == chip.dram_custom && dma_ == chip.dma;
  }

  DramConfig dram_;
  DramDevice custom_;
  DmaConfigLimits dma_;
  std::int64_t clock_hertz_ = 0, rows_ = 0, partitions_ = 0;
  std::unordered_map<ShapeKey, DmaTime, ShapeHash> times_;
};

}  // namespace

DmaTime dma_time(const TaskDescriptor& task, const ChipConfig& chip) {
  return KnownTimes::of_thread().look_up(task, chip);
}

}  // namespace tessera::isa

#include "card/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "arch/architecture_file.h"
#include "arch/port_schedule.h"
#include "base/check.h"
#include "engines/data_control/data_control.h"
#include "engines/dma/dma_engine.h"
#include "engines/memory/dram_channel.h"
#include "engines/memory/dram_memory.h"
#include "engines/memory/partitioned_memory.h"
#include "engines/message/message_engine.h"
#include "engines/neural/neural_engine.h"
#include "engines/planar/planar_engine.h"
#include "engines/task_manager/task_manager.h"
#include "isa/port_work.h"
#include "isa/step_order.h"

namespace tessera::card {
namespace {

using engines::Box;
using engines::RunTaskId;
using engines::TimeAccount;
using isa::EngineKind;
using TaskFifo = engines::Fifo<RunTaskId>;

std::size_t outstanding(const ChipConfig& chip) {
  return static_cast<std::size_t>(chip.dma.outstanding_requests);
}

// Everything of a core that has a state, in the order of construction.
struct Boxes {
  explicit Boxes(const ChipConfig& chip);
  void reset(const CoreOptions& options);
  Cycles step(Box box, Cycles now);
  // Begins the steps that all engines of their tasks have offered: planar engines first, since the
  // ports of the state buffer are given in that order.
  void settle_offers(Cycles now);
  // Whether the box asks for ports while it is stepped: load, then store, behind all others.
  bool asks(Box box) const {
    return ports.has_value() && (box == Box::kLoad || box == Box::kStore);
  }
  TimeAccount& account(Box box);
  std::string describe() const;
  engines::DramPort& port(Box box);
  // A neural or planar engine.
  engines::StepEngine& engine(Box box) { return *step_engines[index_of(box)]; }
  engines::MessageEngine& message_port(Box box) const {
    return *message_ports[static_cast<std::size_t>(static_cast<int>(box) - layout.first_port())];
  }
  static std::size_t index_of(Box box) {
    return static_cast<std::size_t>(box) - engines::kSingleBoxes;
  }

  const engines::BoxLayout layout;
  engines::WakeTable wakes;
  engines::DramMemory dram;
  engines::PartitionedMemory state_buffer, kernel_memory;
  std::optional<PortSchedule> ports;  // of the state buffer's banks, if they are counted
  isa::PortWork port_work;
  engines::DataControl control;
  Table<Box, std::unique_ptr<TaskFifo>> queues;  // null where a box has none
  engines::DramPort load_port, store_port, kernel_port, task_port;
  engines::DramChannel channel;
  // Of each neural engine, and the filters of each planar one: tasks that an engine leads.
  std::vector<std::unique_ptr<engines::NeuralMath>> products;
  engines::PlanarMath planar_math;
  engines::DmaMath dma_math;
  engines::DescriptorCache descriptors;
  engines::TaskManager task_manager;
  std::vector<std::unique_ptr<engines::StepEngine>> step_engines;      // neural, then planar
  std::vector<std::unique_ptr<engines::MessageEngine>> message_ports;  // in, then out
  engines::DmaEngine load, store, kernel;

 private:
  Table<Box, std::unique_ptr<TaskFifo>> make_queues(const ChipConfig& chip);
  void make_engines(const ChipConfig& chip);
  engines::TaskManager::Wiring task_manager_wiring();
  engines::StepEngine::Wiring step_wiring(Box box);
  engines::DmaEngine::Wiring dma_wiring(Box box);
  void settle_offer(Box first, Cycles now);
  // What the ports allow the step that the engines have offered, from `preparation` cycles on.
  engines::StepEngine::PortShare port_share(engines::BoxLayout::Range engines, Cycles preparation,
                                            Cycles now);
  bool all_offer(engines::BoxLayout::Range engines, RunTaskId task);
};

Table<Box, std::unique_ptr<TaskFifo>> Boxes::make_queues(const ChipConfig& chip) {
  Table<Box, std::unique_ptr<TaskFifo>> made(static_cast<std::size_t>(layout.count()));
  // A sub-queue takes the whole task buffer, so that no engine's queue holds up another's.
  for (std::size_t box = 0; box < made.size(); ++box) {
    const Box number = static_cast<Box>(box);
    if (number == Box::kTaskManager || number == Box::kDram) continue;
    made[box] = std::make_unique<TaskFifo>(
        static_cast<std::size_t>(chip.task_manager.task_buffer_entries) + 1);
  }
  return made;
}

void Boxes::make_engines(const ChipConfig& chip) {
  for (int box = engines::kSingleBoxes; box < layout.first_port(); ++box) {
    const auto wiring = step_wiring(static_cast<Box>(box));
    products.push_back(std::make_unique<engines::NeuralMath>(chip, state_buffer, kernel_memory));
    if (box < engines::kSingleBoxes + layout.engines(EngineKind::kNeural)) {
      step_engines.push_back(
          std::make_unique<engines::NeuralEngine>(chip, wiring, *products.back()));
    } else {
      step_engines.push_back(
          std::make_unique<engines::PlanarEngine>(chip, wiring, planar_math, *products.back()));
    }
  }
  for (int number = layout.first_port(); number < layout.count(); ++number) {
    const auto box = static_cast<Box>(number);
    message_ports.push_back(std::make_unique<engines::MessageEngine>(
        chip, engines::MessageEngine::Wiring{.box = box,
                                             .in = box < layout.first(EngineKind::kMessageOut),
                                             .tasks = queues[box].get(),
                                             .control = &control,
                                             .math = &dma_math}));
  }
}

engines::TaskManager::Wiring Boxes::task_manager_wiring() {
  engines::TaskManager::Wiring wiring{
      .control = &control, .memory = &dram, .port = &task_port, .wakes = &wakes, .engines = {}};
  for (const auto& queue : queues) wiring.engines.push_back(queue.get());
  return wiring;
}

engines::StepEngine::Wiring Boxes::step_wiring(Box box) {
  return {.box = box,
          .tasks = queues[box].get(),
          .control = &control,
          .partitions = state_buffer.partitions(),
          .ports_counted = ports.has_value()};
}

engines::DramPort& Boxes::port(Box box) {
  if (box == Box::kLoad) return load_port;
  return box == Box::kStore ? store_port : kernel_port;
}

engines::DmaEngine::Wiring Boxes::dma_wiring(Box box) {
  return {.box = box,
          .tasks = queues[box].get(),
          .control = &control,
          .port = &port(box),
          .memory = &dram,
          .math = &dma_math,
          .wakes = &wakes,
          .ports = asks(box) ? &*ports : nullptr,
          .port_work = asks(box) ? &port_work : nullptr};
}

Boxes::Boxes(const ChipConfig& chip)
    : layout(chip.neural.count, chip.planar.count, chip.message.ports),
      wakes(layout.count()),
      dram(chip.dram.bytes),
      state_buffer(chip.state_buffer.partitions, chip.state_buffer.bytes_per_partition),
      kernel_memory(chip.neural.rows, chip.neural.kernel_bytes_per_partition),
      ports(PortSchedule::of(chip)),
      port_work(chip),
      control({chip.task_manager.task_buffer_entries, chip.task_manager.guaranteed_entries}, layout,
              wakes),
      queues(make_queues(chip)),
      load_port(Box::kLoad, outstanding(chip)),
      store_port(Box::kStore, outstanding(chip)),
      kernel_port(Box::kKernel, outstanding(chip)),
      task_port(Box::kTaskManager, engines::TaskManager::kRequestsMax),
      channel(chip, {&load_port, &store_port, &kernel_port, &task_port}, wakes),
      planar_math(state_buffer),
      dma_math(dram, state_buffer, kernel_memory),
      task_manager(chip, task_manager_wiring(), descriptors),
      load(chip, dma_wiring(Box::kLoad)),
      store(chip, dma_wiring(Box::kStore)),
      kernel(chip, dma_wiring(Box::kKernel)) {
  make_engines(chip);
}

void Boxes::reset(const CoreOptions& options) {
  const bool timing_only = options.timing_only;
  wakes.reset();
  for (auto& queue : queues) {
    if (queue) queue->clear();
  }
  channel.reset();
  if (ports) ports->reset();
  for (auto& one : step_engines) one->reset(timing_only);
  for (auto& one : message_ports) {
    one->reset(timing_only, options.messages_go_on);
  }
  load.reset(timing_only);
  store.reset(timing_only);
  kernel.reset(timing_only);
}

Cycles Boxes::step(Box box, Cycles now) {
  switch (box) {
    case Box::kTaskManager:
      return task_manager.step(now);
    case Box::kDram:
      return channel.step(now);
    case Box::kLoad:
      return load.step(now);
    case Box::kStore:
      return store.step(now);
    case Box::kKernel:
      return kernel.step(now);
    case Box::kFirstEngine:
      break;
  }
  return layout.is_port(box) ? message_port(box).step(now) : engine(box).step(now);
}

bool Boxes::all_offer(engines::BoxLayout::Range engines, RunTaskId task) {
  for (int box = engines.first; box < engines.last; ++box) {
    const engines::StepEngine& one = engine(static_cast<Box>(box));
    if (!one.offers() || one.offered_task() != task) return false;
  }
  return true;
}

void Boxes::settle_offers(Cycles now) {
  const int planar = static_cast<int>(layout.first(EngineKind::kPlanar));
  for (int box = planar; box < layout.first_port(); ++box) settle_offer(static_cast<Box>(box), now);
  for (int box = engines::kSingleBoxes; box < planar; ++box) {
    settle_offer(static_cast<Box>(box), now);
  }
}

void Boxes::settle_offer(Box first, Cycles now) {
  engines::StepEngine& leader = engine(first);
  if (!leader.offers()) return;
  const RunTaskId task = leader.offered_task();
  const engines::BoxLayout::Range engines = layout.engines_of(*control.task(task).descriptor);
  if (!all_offer(engines, task)) return leader.wait_for_others(now);
  // All engines of the task: this one is the first.
  control.begin(task, leader.offered_step(), now);
  Cycles preparation = 0, due = now;
  for (int e = engines.first; e < engines.last; ++e) {
    preparation = std::max(preparation, engine(static_cast<Box>(e)).preparation(now));
  }
  const engines::StepEngine::PortShare share =
      ports ? port_share(engines, preparation, now) : engines::StepEngine::PortShare{};
  for (int e = engines.first; e < engines.last; ++e) {
    due = std::max(due, engine(static_cast<Box>(e)).take_share(now, preparation, share));
  }
  leader.lead_until(due);
  for (int e = engines.first; e < engines.last; ++e) {
    wakes.wake(static_cast<Box>(e), engine(static_cast<Box>(e)).next_event(now));
  }
}

engines::StepEngine::PortShare Boxes::port_share(engines::BoxLayout::Range engines,
                                                 Cycles preparation, Cycles now) {
  Cycles occupancy = 0;
  for (int e = engines.first; e < engines.last; ++e) {
    occupancy = std::max(occupancy, engine(static_cast<Box>(e)).occupancy());
  }
  if (occupancy == 0) return {};
  const engines::StepEngine& leader = engine(static_cast<Box>(engines.first));
  const isa::TaskDescriptor& task = *control.task(leader.offered_task()).descriptor;
  const PortSlot slot = ports->reserve(
      now, occupancy, port_work.of(task, leader.offered_step(), occupancy, leader.port_readers()),
      preparation);
  return {.wait = slot.begin - now - preparation, .longer = Ratio(slot.length(), occupancy)};
}

TimeAccount& Boxes::account(Box box) {
  switch (box) {
    case Box::kTaskManager:
      return task_manager.account();
    case Box::kDram:
      return channel.account();
    case Box::kLoad:
      return load.account();
    case Box::kStore:
      return store.account();
    case Box::kKernel:
      return kernel.account();
    case Box::kFirstEngine:
      break;
  }
  return layout.is_port(box) ? message_port(box).account() : engine(box).account();
}

std::string Boxes::describe() const {
  std::string text;
  for (const auto& one : step_engines) text += one->describe() + "\n  ";
  for (const auto& one : message_ports) text += one->describe() + "\n  ";
  return text + fmt::format("{}\n  {}\n  {}\n  {}\n  {}", load.describe(), store.describe(),
                            kernel.describe(), task_manager.describe(), channel.describe());
}

// The boxes in the order of reports: neural and planar engines, message processors, DMA, task manager,
// DRAM channel.
std::vector<Box> report_order(const engines::BoxLayout& layout) {
  std::vector<Box> order;
  for (int box = engines::kSingleBoxes; box < layout.count(); ++box) {
    order.push_back(static_cast<Box>(box));
  }
  order.insert(order.end(), {Box::kLoad, Box::kStore, Box::kKernel, Box::kTaskManager, Box::kDram});
  return order;
}

// An order of stepping within a cycle, shuffled anew every cycle.
class StepOrder {
 public:
  StepOrder(const engines::BoxLayout& layout, std::uint64_t seed)
      : state_(seed), order_(report_order(layout)) {}
  const std::vector<Box>& next() {
    for (std::size_t i = order_.size() - 1; i > 0; --i) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 7;
      state_ ^= state_ << 17;
      std::swap(order_[i], order_[state_ % (i + 1)]);
    }
    return order_;
  }

 private:
  std::uint64_t state_;
  std::vector<Box> order_;
};

TaskTiming to_timing(const engines::EngineTaskTimes& times) {
  return {.dispatched = times.dispatched,
          .first_step_begin = times.first_step_begin,
          .end = times.end,
          .busy = times.busy,
          .blocked_dependency = times.blocked_dependency,
          .blocked_memory = times.blocked_memory,
          .blocked_ports = times.blocked_ports};
}

}  // namespace

struct Core::State {
  explicit State(const ChipConfig& of) : chip(of), boxes(chip) {}

  Result<std::size_t> place(const isa::Program& program, std::span<const std::byte> weights,
                            std::optional<engines::DramRange> within = {});
  Status check_access(std::size_t network, isa::DramAddress address, std::size_t bytes) const;
  Status begin(std::span<const NetworkRun> runs, const CoreOptions& options);
  Status run_clock(const CoreOptions& options);
  // The races that the hazard check has seen, a line each.
  Status races() const;
  NetworksResult collect(std::span<const NetworkRun> runs);

  // For the hazard check: what the package and the host have supplied before the runs.
  void note_written_before(std::span<const NetworkRun> runs);
  // What the run wrote; everything, if no record was kept.
  void note_written(std::span<const NetworkRun> runs);
  void note_slots(std::size_t network, const std::vector<isa::TensorSlot>& slots);

  const ChipConfig chip;
  Boxes boxes;
  engines::WrittenBytes written;
  std::vector<const isa::Program*> programs;  // by network; null: it was removed
  // How far a network of the run has come.
  struct Progress {
    const NetworkRun* run = nullptr;
    std::size_t segment = 0;  // that runs
    Cycles end = 0;           // of the host steps so far
    Status status = {};       // why it was stopped
    bool stopped = false;
  };
  Status check_run(const NetworkRun& run) const;
  // Behind each cycle: networks that were stopped, segments that have ended.
  void settle_networks(Cycles now);
  void end_segments(std::size_t network, Cycles now);
  NetworkResult result_of(std::size_t network) const;
  void stop(std::size_t network, Status status, Cycles now);
  // Whether a deadlock was that of some networks only, which are stopped.
  bool stop_deadlocked();

  std::vector<engines::RunNetwork> networks;  // of the run
  std::vector<Progress> progress;             // of each
  std::size_t retired_seen = 0;
  std::optional<engines::HazardCheck> hazards;
  Cycles end = 0;
};

Status Core::load(const isa::Program& program, std::span<const std::byte> weights) {
  state_->programs.clear();
  state_->written.clear();
  state_->boxes.dram.clear();
  state_->boxes.descriptors.clear();
  for (auto& math : state_->boxes.products) math->forget();
  auto added = state_->place(program, weights);
  if (!added.ok()) return added.error();
  return {};
}

Status Core::bind(isa::DramAddress address, std::span<std::byte> bytes) {
  return bind(0, address, bytes);
}

Status Core::bind(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes) {
  TESSERA_RETURN_IF_ERROR(state_->check_access(network, address, bytes.size()));
  state_->boxes.dram.bind(network, address, bytes);
  return {};
}

Result<std::size_t> Core::State::place(const isa::Program& program,
                                       std::span<const std::byte> weights,
                                       std::optional<engines::DramRange> within) {
  if (program.chip_fingerprint != fingerprint(chip)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("the program was compiled for another chip configuration, '{}' "
                    "(fingerprint {:#x}); this core is '{}' ({:#x})",
                    program.chip_name, program.chip_fingerprint, chip.name, fingerprint(chip))};
  }
  TESSERA_TRY(const std::size_t network, boxes.dram.add(program, weights, within));
  if (network == programs.size()) programs.push_back(nullptr);
  programs[network] = &program;
  return network;
}

void Core::remove(std::size_t network) {
  TESSERA_CHECK(network < state_->programs.size(), "network {}", network);
  state_->boxes.dram.remove(network);
  state_->programs[network] = nullptr;
  // They know tasks by the network's number.
  state_->boxes.descriptors.clear();
  for (auto& math : state_->boxes.products) math->forget();
  for (int base = 0; base < isa::kBaseIndexCount; ++base) {
    state_->written.forget(
        engines::dram_key(static_cast<std::uint32_t>(network), static_cast<isa::BaseIndex>(base)));
  }
}

void Core::clear_region(const isa::CoreRegion& region) {
  state_->boxes.state_buffer.clear(region.state_buffer.first, region.state_buffer.bytes);
  state_->boxes.kernel_memory.clear(region.kernel_memory.first, region.kernel_memory.bytes);
}

Status Core::State::check_access(std::size_t network, isa::DramAddress address,
                                 std::size_t bytes) const {
  if (network >= programs.size() || programs[network] == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "no program is loaded"};
  }
  if (!boxes.dram.holds(network, address, static_cast<std::int64_t>(bytes))) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("bytes [{}, {}) of DRAM region {}, which has {}", address.offset,
                             address.offset + bytes, static_cast<int>(address.base),
                             boxes.dram.size(network, address.base))};
  }
  return {};
}

Status Core::write(std::size_t network, isa::DramAddress address,
                   std::span<const std::byte> bytes) {
  TESSERA_RETURN_IF_ERROR(state_->check_access(network, address, bytes.size()));
  if (!bytes.empty()) {
    std::memcpy(state_->boxes.dram.at(network, address), bytes.data(), bytes.size());
  }
  const auto first = static_cast<std::int64_t>(address.offset);
  const auto last = first + static_cast<std::int64_t>(bytes.size());
  const auto key = engines::dram_key(static_cast<std::uint32_t>(network), address.base);
  state_->written.add(key, first, last);
  if (state_->hazards) state_->hazards->host_writes(key, first, last);
  return {};
}

void Core::State::note_slots(std::size_t network, const std::vector<isa::TensorSlot>& slots) {
  for (const isa::TensorSlot& slot : slots) {
    const auto first = static_cast<std::int64_t>(slot.address.offset);
    written.add(engines::dram_key(static_cast<std::uint32_t>(network), slot.address.base), first,
                first + element_count(slot.dims) * format_bytes(slot.format));
  }
}

void Core::State::note_written_before(std::span<const NetworkRun> runs) {
  for (const NetworkRun& run : runs) {
    const isa::Program& program = *programs[run.network];
    // A new inference: what the one before left in the memories does not count.
    if (run.segment == 0 && programs.size() == 1) {
      written.forget(engines::kStateBufferKey);
      written.forget(engines::kKernelMemoryKey);
      written.forget(engines::dram_key(0, isa::BaseIndex::kWorkspace));
      written.forget(engines::dram_key(0, isa::BaseIndex::kOutput));
    }
    note_slots(run.network, program.inputs);
    for (std::size_t s = 0; s < run.segment; ++s) {
      for (const isa::HostStep& step : program.segments[s].host_steps) {
        note_slots(run.network, step.outputs);
      }
    }
  }
}

void Core::State::note_written(std::span<const NetworkRun> runs) {
  if (hazards) return hazards->add_written(written);
  written.add(engines::kStateBufferKey, 0, chip.state_buffer.bytes_per_partition);
  written.add(engines::kKernelMemoryKey, 0, chip.neural.kernel_bytes_per_partition);
  for (const NetworkRun& run : runs) {
    for (int base = 0; base < isa::kBaseIndexCount; ++base) {
      const auto index = static_cast<isa::BaseIndex>(base);
      written.add(engines::dram_key(static_cast<std::uint32_t>(run.network), index), 0,
                  boxes.dram.size(run.network, index));
    }
  }
}

Status Core::read(std::size_t network, isa::DramAddress address, std::span<std::byte> bytes) const {
  const State& state = *state_;
  TESSERA_RETURN_IF_ERROR(state.check_access(network, address, bytes.size()));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), state.boxes.dram.at(network, address), bytes.size());
  }
  return {};
}

Status Core::State::check_run(const NetworkRun& run) const {
  const bool loaded = run.network < programs.size() && programs[run.network] != nullptr;
  const std::size_t segments = loaded ? programs[run.network]->segments.size() : 0;
  if (run.segments == 0 || run.segment >= segments || run.segments > segments - run.segment) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("segment {} of network {} is not loaded",
                    run.segment + std::max<std::size_t>(run.segments, 1) - 1, run.network)};
  }
  const isa::Program& program = *programs[run.network];
  isa::TaskId first = program.segments[run.segment].task_first;
  for (std::size_t s = run.segment; s < run.segment + run.segments; ++s) {
    const isa::Segment& segment = program.segments[s];
    if (segment.task_first > segment.task_last || segment.task_first != first ||
        segment.task_last > program.stream_offsets.size()) {
      return Error{
          ErrorCode::kInvalidModel,
          fmt::format("segment {} has tasks [{}, {}), the program {}", s, segment.task_first,
                      segment.task_last, program.stream_offsets.size())};
    }
    first = segment.task_last;
  }
  return {};
}

void Core::State::stop(std::size_t network, Status status, Cycles now) {
  progress[network].stopped = true;
  progress[network].status = std::move(status);
  boxes.task_manager.drop(network);
  boxes.control.stop(static_cast<std::uint32_t>(network), now);
}

void Core::State::end_segments(std::size_t network, Cycles now) {
  Progress& at = progress[network];
  const isa::Program& program = *programs[at.run->network];
  const std::size_t last = at.run->segment + at.run->segments;
  const auto index = static_cast<std::uint32_t>(network);
  while (!at.stopped && at.segment < last &&
         boxes.control.retired_of(index) ==
             program.segments[at.segment].task_last - networks[network].first) {
    Cycles free = std::max({now + 1, at.run->arrival, at.end});
    if (at.run->host_steps) {
      const Result<Cycles> cycles = at.run->host_steps(at.segment);
      if (!cycles.ok()) return stop(network, cycles.error(), now);
      free += *cycles;
      if (*cycles > 0) at.end = free;
    }
    if (++at.segment == last) {
      if (at.run->ended) at.run->ended(result_of(network));
      return;
    }
    const isa::Segment& next = program.segments[at.segment];
    boxes.control.begin_segment(index, next.task_first);
    boxes.task_manager.extend(network, next.task_last, free);
  }
}

void Core::State::settle_networks(Cycles now) {
  const auto& faults = boxes.task_manager.faults();
  for (std::size_t n = 0; n < faults.size(); ++n) {
    if (!faults[n] || progress[n].stopped) continue;
    stop(n, faults[n]->error.with_context(fmt::format("task {}", faults[n]->task)), now);
  }
  const auto& exceptions = boxes.control.exceptions();
  for (std::size_t n = 0; n < exceptions.size(); ++n) {
    if (!exceptions[n] || progress[n].stopped) continue;
    const isa::Program& program = *programs[progress[n].run->network];
    stop(n,
         Error{ErrorCode::kInvalidModel,
               fmt::format("{}: {}", isa::describe_task(program, exceptions[n]->task),
                           exceptions[n]->reason)},
         now);
  }
  if (boxes.control.retired() == retired_seen) return;
  retired_seen = boxes.control.retired();
  for (std::size_t n = 0; n < networks.size(); ++n) end_segments(n, now);
}

bool Core::State::stop_deadlocked() {
  if (networks.size() < 2) return false;
  bool any = false;
  for (const std::uint32_t network : boxes.control.waiting_for_absent()) {
    if (progress[network].stopped) continue;
    stop(network,
         Error{ErrorCode::kInvalidModel,
               fmt::format("deadlock at cycle {}: it waits for a task that never comes\n  {}", end,
                           boxes.describe())},
         end);
    any = true;
  }
  return any;
}

Status Core::State::begin(std::span<const NetworkRun> runs, const CoreOptions& options) {
  if (runs.empty() || runs.size() > static_cast<std::size_t>(chip.task_manager.queues)) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} networks, the task manager has {} queues", runs.size(),
                             chip.task_manager.queues)};
  }
  if (options.timing_only && options.traps != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "traps: timing only computes no values that could be trapped; leave one of them "
                 "out"};
  }
  networks.clear();
  progress.clear();
  std::vector<engines::TaskQueue> queues;
  RunTaskId position = 0;
  for (const NetworkRun& run : runs) {
    TESSERA_RETURN_IF_ERROR(check_run(run));
    const isa::Program& program = *programs[run.network];
    const isa::Segment& segment = program.segments[run.segment];
    const isa::TaskId last = program.segments[run.segment + run.segments - 1].task_last;
    queues.push_back({.head = segment.task_first,
                      .tail = segment.task_last,
                      .network = static_cast<std::uint32_t>(networks.size()),
                      .base_addresses = static_cast<std::uint32_t>(run.network),
                      .priority = run.priority,
                      .arrival = run.arrival,
                      .program = &program});
    networks.push_back({.memory = static_cast<std::uint32_t>(run.network),
                        .first = segment.task_first,
                        .last = last,
                        .position = position,
                        .segment_first = segment.task_first,
                        .region = program.region});
    progress.push_back({.run = &run, .segment = run.segment});
    position += last - segment.task_first;
  }
  retired_seen = 0;
  hazards.reset();
  if (options.check_hazards) {
    note_written_before(runs);
    hazards.emplace(chip, position, written, runs.size());
  }
  boxes.control.reset(networks, {.hazards = hazards ? &*hazards : nullptr,
                                 .trace = options.trace,
                                 .traps = options.traps,
                                 .delay_seed = options.delay_seed});
  boxes.reset(options);
  boxes.task_manager.reset(std::move(queues), networks, options.timing_only);
  return {};
}

Status Core::State::run_clock(const CoreOptions& options) {
  StepOrder order(boxes.layout, options.shuffle_seed);
  const bool ports = boxes.ports.has_value();
  const bool offered = ports || boxes.layout.first_port() > engines::kSingleBoxes + 2;
  boxes.wakes.wake(Box::kTaskManager, 0);
  end = 0;
  for (std::size_t n = 0; n < networks.size(); ++n) end_segments(n, -1);  // those without a task
  while (
      !(boxes.task_manager.done() && boxes.control.retired() == boxes.task_manager.dispatched())) {
    const Cycles now = boxes.wakes.earliest();
    if (now == kNever) {
      if (stop_deadlocked()) continue;
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("deadlock at cycle {}: no box has anything to do\n  {}", end,
                               boxes.describe())};
    }
    const engines::BoxSet due = boxes.wakes.take_due(now);
    const auto step = [&](Box box) {
      const Cycles next = boxes.step(box, now);
      TESSERA_CHECK(next > now, "{} wants to be woken at {} in cycle {}", boxes.layout.name(box),
                    next, now);
      boxes.wakes.wake(box, next);
    };
    const auto step_unless_it_asks = [&](Box box) {
      if (!boxes.asks(box)) step(box);
    };
    if (options.shuffle_seed == 0) {
      ports ? due.for_each(step_unless_it_asks) : due.for_each(step);
    } else {
      for (const Box box : order.next()) {
        if (due.has(box)) step_unless_it_asks(box);
      }
    }
    if (ports && due.has(Box::kLoad)) step(Box::kLoad);
    if (ports && due.has(Box::kStore)) step(Box::kStore);
    if (offered) boxes.settle_offers(now);
    end = now;
    settle_networks(now);
  }
  for (const Progress& at : progress) end = std::max(end, at.end);
  return {};
}

Status Core::State::races() const {
  if (!hazards || hazards->races().empty()) return {};
  const std::vector<std::string>& races = hazards->races();
  std::string text = fmt::format("{}", fmt::join(races, "\n  "));
  if (races.size() == engines::HazardCheck::kRacesMax) {
    text += fmt::format("\n  no more than {} are listed", races.size());
  }
  return Error{ErrorCode::kInvalidModel, std::move(text)};
}

NetworksResult Core::State::collect(std::span<const NetworkRun> runs) {
  NetworksResult result;
  RunStatistics& statistics = result.statistics;
  statistics.cycles = end;
  for (auto& port : boxes.message_ports) port->end_run(end);
  arith::StickyFlags flags;
  for (auto& math : boxes.products) flags |= math->take_flags();
  statistics.status_flags =
      (flags.nan ? 1u : 0u) | (flags.infinity ? 2u : 0u) | (flags.accumulator_range ? 4u : 0u);
  statistics.row_misses = boxes.channel.row_misses();
  for (const Box box : report_order(boxes.layout)) {
    TimeAccount& account = boxes.account(box);
    account.settle(end);
    const engines::EngineCounters& c = account.counters;
    statistics.engines.push_back({.name = boxes.layout.name(box),
                                  .kind = boxes.layout.kind(box),
                                  .index = boxes.layout.index(box),
                                  .busy = c.busy,
                                  .blocked_dependency = c.blocked_dependency,
                                  .blocked_memory = c.blocked_memory,
                                  .blocked_message = c.blocked_message,
                                  .blocked_ports = c.blocked_ports,
                                  .idle = c.idle,
                                  .tasks = c.tasks,
                                  .steps = c.steps,
                                  .macs = c.macs,
                                  .bytes_read = c.bytes_read,
                                  .bytes_written = c.bytes_written});
  }
  for (const EngineStatistics& engine : statistics.engines) {
    if (engine.kind == "neural" || engine.kind == "planar") {
      statistics.idle_engine_cycles += engine.idle;
    }
  }
  EngineStatistics& dram = statistics.engines.back();
  for (const engines::DramPort* port :
       {&boxes.load_port, &boxes.store_port, &boxes.kernel_port, &boxes.task_port}) {
    dram.bytes_read += port->bytes_read;
    dram.bytes_written += port->bytes_written;
  }
  const auto& times = boxes.control.all_times();
  statistics.tasks.reserve(times.size());
  for (const engines::EngineTaskTimes& task : times) statistics.tasks.push_back(to_timing(task));
  for (const engines::TraceRecord& record : boxes.control.trace()) {
    const engines::RunNetwork& network = boxes.control.network_of(record.task);
    statistics.trace.push_back({.task = network.first + (record.task - network.position),
                                .engine = boxes.control.task(record.task).descriptor->engine,
                                .index = boxes.layout.index(record.engine),
                                .step = record.step,
                                .begin = record.begin,
                                .end = record.end,
                                .network = boxes.control.task(record.task).network,
                                .blocked_ports = record.blocked_ports,
                                .blocked_message = record.blocked_message});
  }
  for (std::size_t n = 0; n < runs.size(); ++n) result.networks.push_back(result_of(n));
  return result;
}

NetworkResult Core::State::result_of(std::size_t network) const {
  NetworkResult result;
  const engines::RunNetwork& range = networks[network];
  const auto& times = boxes.control.all_times();
  result.end = progress[network].end;
  for (std::size_t i = 0; i < range.last - range.first; ++i) {
    result.tasks.push_back(to_timing(times[range.position + i]));
    result.end = std::max(result.end, result.tasks.back().end);
  }
  result.status = progress[network].status;
  return result;
}

Result<NetworksResult> Core::run_networks(std::span<const NetworkRun> runs,
                                          const CoreOptions& options) {
  TESSERA_RETURN_IF_ERROR(state_->begin(runs, options));
  const Status ran = state_->run_clock(options);
  // A race says more than what came of it.
  TESSERA_RETURN_IF_ERROR(state_->races());
  TESSERA_RETURN_IF_ERROR(ran);
  state_->note_written(runs);
  return state_->collect(runs);
}

Result<RunStatistics> Core::run_segment(std::size_t segment, const CoreOptions& options) {
  const NetworkRun run{.segment = segment};
  TESSERA_TRY(NetworksResult result, run_networks({&run, 1}, options));
  TESSERA_RETURN_IF_ERROR(result.networks[0].status);
  return std::move(result.statistics);
}

Core::Core(std::unique_ptr<State> state) : state_(std::move(state)) {}
Core::~Core() = default;

Result<std::unique_ptr<Core>> Core::create(const ChipConfig& chip) {
  return std::unique_ptr<Core>(new Core(std::make_unique<State>(chip)));
}

Status Core::load(const isa::Program& program) { return load(program, {}); }

Result<std::size_t> Core::add(const isa::Program& program) { return state_->place(program, {}); }

Result<std::size_t> Core::add(const isa::Program& program, std::span<const std::byte> weights,
                              const DramPlace& place) {
  return state_->place(program, weights, engines::DramRange{place.first, place.bytes});
}

Status Core::write(isa::DramAddress address, std::span<const std::byte> bytes) {
  return write(0, address, bytes);
}

Status Core::read(isa::DramAddress address, std::span<std::byte> bytes) const {
  return read(0, address, bytes);
}

}  // namespace tessera::card

#include "card/core_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "arch/architecture_file.h"
#include "base/check.h"
#include "isa/step_order.h"

namespace tessera::card {
namespace {

using engines::TimeAccount;

TaskTiming to_timing(const engines::EngineTaskTimes& times) {
  return {.dispatched = times.dispatched,
          .first_step_begin = times.first_step_begin,
          .end = times.end,
          .busy = times.busy,
          .blocked_dependency = times.blocked_dependency,
          .blocked_memory = times.blocked_memory,
          .blocked_ports = times.blocked_ports,
          .extent = times.extent,
          .accumulator_range = times.accumulator_range};
}

}  // namespace

Result<std::size_t> CoreState::place(const isa::Program& program,
                                     std::span<const std::byte> weights,
                                     std::optional<engines::DramPart> within) {
  TESSERA_RETURN_IF_ERROR(check_fingerprint(program));
  TESSERA_TRY(const std::size_t network, boxes.dram.add(program, weights, within));
  return keep(network, program);
}

Result<std::size_t> CoreState::place_share(const isa::Program& program, std::size_t of,
                                           std::optional<engines::DramPart> within) {
  TESSERA_RETURN_IF_ERROR(check_fingerprint(program));
  TESSERA_TRY(const std::size_t network, boxes.dram.add_core(of, program, within));
  return keep(network, program);
}

void CoreState::forget_descriptors() {
  boxes.descriptors.clear();
  for (auto& math : boxes.products) math->forget();
}

std::size_t CoreState::keep(std::size_t network, const isa::Program& program) {
  if (network >= programs.size()) programs.resize(network + 1, nullptr);
  programs[network] = &program;
  return network;
}

Status CoreState::check_fingerprint(const isa::Program& program) const {
  if (program.chip_fingerprint == fingerprint(chip)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("the program was compiled for another chip configuration, '{}' "
                  "(fingerprint {:#x}); this core is '{}' ({:#x})",
                  program.chip_name, program.chip_fingerprint, chip.name, fingerprint(chip))};
}

Status CoreState::check_access(std::size_t network, isa::DramAddress address,
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

void note_slots(std::size_t network, const std::vector<isa::TensorSlot>& slots,
                engines::WrittenBytes& written) {
  for (const isa::TensorSlot& slot : slots) {
    const auto first = static_cast<std::int64_t>(slot.address.offset);
    written.add(engines::dram_key(static_cast<std::uint32_t>(network), slot.address.base), first,
                first + element_count(slot.dims) * format_bytes(slot.format));
  }
}

void CoreState::note_written_before(std::span<const NetworkRun> runs) {
  for (const NetworkRun& run : runs) {
    const isa::Program& program = *programs[run.network];
    // A new inference: what the one before left in the memories does not count.
    if (run.segment == 0 && programs.size() == 1) {
      written.forget(engines::state_buffer_key());
      written.forget(engines::kernel_memory_key());
      written.forget(engines::dram_key(0, isa::BaseIndex::kWorkspace));
      written.forget(engines::dram_key(0, isa::BaseIndex::kOutput));
    }
    note_slots(run.network, program.inputs, written);
    for (std::size_t s = 0; s < run.segment; ++s) {
      for (const isa::HostStep& step : program.segments[s].host_steps) {
        note_slots(run.network, step.outputs, written);
      }
    }
  }
}

void CoreState::note_written(std::span<const NetworkRun> runs) {
  if (hazards) return hazards->add_written(written);
  written.add(engines::state_buffer_key(), 0, chip.state_buffer.bytes_per_partition);
  written.add(engines::kernel_memory_key(), 0, chip.neural.kernel_bytes_per_partition);
  for (const NetworkRun& run : runs) {
    for (int base = 0; base < isa::kBaseIndexCount; ++base) {
      const auto index = static_cast<isa::BaseIndex>(base);
      written.add(engines::dram_key(static_cast<std::uint32_t>(run.network), index), 0,
                  boxes.dram.size(run.network, index));
    }
  }
}

Status CoreState::check_run(const NetworkRun& run) const {
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

void CoreState::stop(std::size_t network, Status status, Cycles now) {
  progress[network].stopped = has_stopped = true;
  progress[network].status = std::move(status);
  boxes.task_manager.drop(network);
  boxes.control.stop(static_cast<std::uint32_t>(network), now);
}

void CoreState::end_segments(std::size_t network, Cycles now) {
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

void CoreState::settle_networks(Cycles now) {
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

bool CoreState::stop_deadlocked() {
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

Status CoreState::begin(std::span<const NetworkRun> runs, const CoreOptions& options,
                        const OnCard& on_card) {
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
  has_stopped = false;
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
  boxes.control.reset(networks, {.hazards = hazards ? &*hazards : on_card.hazards,
                                 .trace = options.trace,
                                 .traps = options.traps,
                                 .delay_seed = options.delay_seed,
                                 .core = on_card.core,
                                 .news = on_card.news});
  boxes.reset(options);
  boxes.task_manager.reset(std::move(queues), networks, options.timing_only);
  return {};
}

void CoreState::start_clock(Cycles at) {
  boxes.wakes.wake(Box::kTaskManager, at);
  end = at;
  for (std::size_t n = 0; n < networks.size(); ++n)
    end_segments(n, at - 1);  // those without a task
}

bool CoreState::done() const {
  return boxes.task_manager.done() && boxes.control.retired() == boxes.task_manager.dispatched();
}

bool CoreState::step_cycle(Cycles now, StepOrder* order) {
  const bool channel_due = boxes.step_due(now, order);
  end = now;
  settle_networks(now);
  return channel_due;
}

void CoreState::end_clock() {
  for (const Progress& at : progress) end = std::max(end, at.end);
}

Error CoreState::deadlock() const {
  return Error{
      ErrorCode::kInvalidModel,
      fmt::format("deadlock at cycle {}: no box has anything to do\n  {}", end, boxes.describe())};
}

Status CoreState::run_clock(const CoreOptions& options) {
  StepOrder order(boxes.layout, options.shuffle_seed);
  start_clock();
  while (!done()) {
    const Cycles now = boxes.wakes.earliest();
    if (now == kNever) {
      if (stop_deadlocked()) continue;
      return deadlock();
    }
    step_cycle(now, options.shuffle_seed == 0 ? nullptr : &order);
  }
  end_clock();
  return {};
}

Status races_of(const engines::HazardCheck& hazards) {
  const std::vector<std::string>& races = hazards.races();
  if (races.empty()) return {};
  std::string text = fmt::format("{}", fmt::join(races, "\n  "));
  if (races.size() == engines::HazardCheck::kRacesMax) {
    text += fmt::format("\n  no more than {} are listed", races.size());
  }
  return Error{ErrorCode::kInvalidModel, std::move(text)};
}

NetworksResult CoreState::collect(std::span<const NetworkRun> runs) {
  NetworksResult result;
  RunStatistics& statistics = result.statistics;
  statistics.cycles = end;
  for (auto& port : boxes.message_ports) port->end_run(end);
  arith::StickyFlags flags;
  for (auto& math : boxes.products) flags |= math->take_flags();
  statistics.status_flags =
      (flags.nan ? 1u : 0u) | (flags.infinity ? 2u : 0u) | (flags.accumulator_range ? 4u : 0u);
  if (boxes.channel) statistics.row_misses = boxes.channel->row_misses();
  for (const Box box : report_order(boxes.layout)) {
    if (box == Box::kDram && !boxes.channel) continue;  // its group's
    TimeAccount& account = boxes.account(box);
    account.settle(end);
    const engines::EngineCounters& c = account.counters;
    const bool moves = box == Box::kLoad || box == Box::kStore || box == Box::kKernel;
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
                                  .bytes_written = c.bytes_written,
                                  .share_cycles = moves ? boxes.port(box).share_cycles : 0,
                                  .blocked_on_core = c.blocked_on_core});
  }
  for (const EngineStatistics& engine : statistics.engines) {
    if (engine.kind == "neural" || engine.kind == "planar") {
      statistics.idle_engine_cycles += engine.idle;
    }
  }
  for (const engines::DramPort* port : boxes.ports_of_dram()) {
    if (!boxes.channel) break;
    EngineStatistics& dram = statistics.engines.back();
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

NetworkResult CoreState::result_of(std::size_t network) const {
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

}  // namespace tessera::card

#include "compile/layer_timeline.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::compile {
namespace {

constexpr double kKernelsPartLeft = 16;  // one cycle of so many is left for kernels

const std::vector<ShareNeed>& of_core(const OperandDemand& operand, std::size_t core) {
  static const std::vector<ShareNeed> none;
  return core < operand.needs.size() ? operand.needs[core] : none;
}

}  // namespace

double LayerTimeline::made_after(const CoreDemand& core, double rows) {
  const double parts = core.bands * core.steps;
  const double made = std::clamp(std::ceil(rows * parts - 1e-9), 1.0, parts);
  const double band = std::ceil(made / core.steps - 1e-9) - 1;  // in which these end
  const double in_band = (made - band * core.steps) / core.steps;
  return (band * core.slices + core.slices - 1 + in_band) / (core.bands * core.slices);
}

double LayerTimeline::begun_after(const CoreDemand& core, double rows) {
  const double parts = core.bands * core.steps;
  const double begun = std::clamp(std::floor(rows * parts + 1e-9), 0.0, parts - 1);
  const double band = std::floor(begun / core.steps + 1e-9);
  const double in_band = (begun - band * core.steps) / core.steps;
  return (band * core.slices + in_band) / (core.bands * core.slices);
}

double LayerTimeline::take(Memory& memory, ChannelTime& channel, double from, double cycles) {
  memory.owed += cycles;
  const double whole = std::floor(memory.owed);
  memory.owed -= whole;
  const auto end = static_cast<double>(channel.take(std::llround(from), std::llround(whole)));
  return std::max(end, from + cycles);
}

bool LayerTimeline::meets_kernels(double from, double to) const {
  for (std::size_t layer = before_.size(); layer < expected_.size(); ++layer) {
    const LayerSpan& span = expected_[layer];
    if (span.begin <= to && from < span.end) return true;
  }
  return false;
}

LayerTimeline::Memory& LayerTimeline::memory_of(std::size_t core, std::int32_t one) {
  return memories_[one >= 0 ? static_cast<std::size_t>(one) : memory_of_core_[core]];
}

LayerTimeline::DataEnd LayerTimeline::take_data(Memory& memory, double from, double cycles) {
  if (cycles <= 0) return {from, from};
  const double owed = memory.owed;
  const double end = take(memory, memory.channel, from, cycles);
  DataEnd result{end, end};
  if (meets_kernels(from, end)) result.there += kernels_accepted_;
  if (chip_.dram.arbitration != Arbitration::kKernelsLast) return result;
  // Kernels that were asked for before wait, but for those that the channel has accepted.
  memory.owed = owed;
  const double data = take(memory, memory.data, from, cycles);
  return {std::min(end, data), std::min(result.there, data + kernels_accepted_)};
}

// Loads and stores wait for room and for each other, so that they never take all of the channel.
double LayerTimeline::take_kernels(double from, double cycles) {
  double end = from;
  for (Memory& memory : memories_) {
    end = std::max(end, take(memory, memory.channel, from, cycles));
  }
  return std::min(end, from + kKernelsPartLeft * cycles);
}

bool LayerTimeline::before(const ShareNeed& need) const {
  return static_cast<std::size_t>(need.maker) < before_.size();
}

double LayerTimeline::made(const ShareNeed& need, double rows) const {
  const auto maker = static_cast<std::size_t>(need.maker);
  const bool every = need.writer == ShareNeed::kEveryCore;
  const std::size_t first = every ? 0 : static_cast<std::size_t>(need.writer);
  double latest = 0;
  for (std::size_t core = first; core < (every ? cores_ : first + 1); ++core) {
    const CoreSpan& span = core_spans_[maker][core];
    const double part = made_after(before_[maker].cores[core], rows);
    latest = std::max(latest, span.begin + (span.end - span.begin) * part);
    if (need.kept) continue;
    latest = std::max(latest, span.store_begin + (span.store_end - span.store_begin) * rows);
  }
  return latest;
}

template <typename Taken>
double LayerTimeline::room_for(std::size_t core, std::int64_t size, std::int64_t room,
                               const Taken& taken) const {
  std::int64_t left = std::max<std::int64_t>(0, room - size);
  std::size_t kept = before_.size();
  while (kept > 0 && taken(before_[kept - 1]) <= left) left -= taken(before_[--kept]);
  if (kept == 0) return 0;
  // A layer gives up its part bit by bit.
  const CoreSpan& last = core_spans_[kept - 1][core];
  const double part = static_cast<double>(left) / static_cast<double>(taken(before_[kept - 1]));
  return std::max(ended_[kept - 1][core], last.end - (last.end - last.begin) * part);
}

double LayerTimeline::ahead(std::size_t core) const {
  return room_for(core, 0, chip_.task_manager.task_buffer_entries,
                  [core](const LayerDemand& layer) { return layer.cores[core].tasks; });
}

void LayerTimeline::begin(const std::vector<ProgramFetch>& cores) {
  for (std::size_t core = 0; core < cores_; ++core) {
    queues_[core] = {.engines = {end_, end_, end_},
                     .loads = end_,
                     .stores = end_,
                     .dispatched = end_ + cores[core].first,
                     .fetched = cores[core].ahead};
    take_data(memory_of(core), end_, cores[core].ahead);
  }
}

// A layer's tasks come to the engines behind those before it, when the task buffer has room, and more of
// the program is fetched for them.
void LayerTimeline::dispatch(const LayerDemand& layer) {
  const auto& manager = chip_.task_manager;
  const double each = static_cast<double>(std::max<std::int64_t>(
      ceil_div(kTaskBytes, 4 * manager.configuration_words_per_cycle), manager.dispatch_cycles));
  for (std::size_t core = 0; core < cores_; ++core) {
    const CoreDemand& own = layer.cores[core];
    Queues& queues = queues_[core];
    queues.dispatched = std::max(queues.dispatched, ahead(core));
    const double fetched = std::max(0.0, own.fetched - queues.fetched);
    queues.fetched -= own.fetched - fetched;
    take_data(memory_of(core), queues.dispatched, fetched);
    dispatched_[core] = queues.dispatched;
    queues.dispatched += each * static_cast<double>(own.tasks);
  }
}

void LayerTimeline::add_wait(const CoreDemand& own, double arrival, double rows, Wait& wait) const {
  const double after = begun_after(own, rows);
  if (after == 0) wait.first = std::max(wait.first, arrival);
  wait.last = std::max(wait.last, arrival + own.compute * (1 - after));
  wait.all = std::max(wait.all, arrival);
}

// When a core's part of an earlier layer has left the room.
double LayerTimeline::room_at(const RoomWait& room, std::size_t core) const {
  const auto layer = static_cast<std::size_t>(room.layer);
  if (layer >= before_.size()) return 0;
  const CoreSpan& span = core_spans_[layer][core];
  if (room.stored) return span.store_begin + (span.store_end - span.store_begin) * room.done;
  return span.begin + (span.end - span.begin) * room.done;
}

// The first portion of a need, and its last, come when they are made, and the loads before are through.
void LayerTimeline::load(const LayerDemand& layer, const OperandDemand& operand, std::size_t core,
                         Wait& wait) {
  const CoreDemand& own = layer.cores[core];
  const std::vector<ShareNeed>& needs = of_core(operand, core);
  const double portions = std::max(1.0, own.steps * own.bands * operand.loads);
  Queues& queues = queues_[core];
  double begin = std::max(dispatched_[core], queues.loads), through = 0;
  const auto some_of = [&](const ShareNeed& need) {
    const double parts =
        std::max(1.0, std::round(portions * (need.wanted_last - need.wanted_first)));
    const double first = need.made_first + (need.made_last - need.made_first) / parts;
    return made(need, std::min(need.made_last, first + need.ahead)) + operand.late;
  };
  for (const ShareNeed& need : needs) {
    // Of the first portion.
    if (need.kept || !before(need) || need.wanted_first * portions >= 1) continue;
    begin = std::max(begin, some_of(need));
  }
  for (const RoomWait& room : own.rooms) {
    if (room.loads && room.before == 0) begin = std::max(begin, room_at(room, core));
  }
  const double cycles = operand.loaded / static_cast<double>(cores_);
  const DataEnd data = take_data(memory_of(core, operand.one_memory), begin, cycles);
  const double moving = std::max(operand.links, operand.passage[core]);
  const double longest = std::max(data.there - begin, moving);
  const double portion = longest / portions;
  for (const ShareNeed& need : needs) {
    if (need.kept || !before(need)) continue;
    const double rows = need.wanted_last - need.wanted_first;
    const double parts = std::max(1.0, std::round(portions * rows));
    add_wait(own, some_of(need) + portion, need.wanted_first, wait);
    const double last = made(need, need.made_last) + operand.late + portion;
    add_wait(own, last, need.wanted_last - rows / parts, wait);
    through = std::max(through, last);
  }
  add_wait(own, begin + portion, 0, wait);
  add_wait(own, begin + longest, 1 - 1 / portions, wait);
  wait.last = std::max(wait.last, begin + operand.passage[core] + own.writes);
  // The next one is asked for while this one waits for kernels.
  queues.loads = std::max({queues.loads, data.moved, begin + moving, through});
}

LayerTimeline::Wait LayerTimeline::wait(const LayerDemand& layer, std::size_t core) {
  const CoreDemand& own = layer.cores[core];
  Wait result;
  for (const RoomWait& room : own.rooms) {
    const double at = room_at(room, core);
    if (!room.loads && room.before == 0) result.first = std::max(result.first, at);
    result.last = std::max(result.last, at + own.compute * (1 - room.before));
  }
  for (const OperandDemand& operand : layer.operands) {
    const std::vector<ShareNeed>& needs = of_core(operand, core);
    for (const ShareNeed& need : needs) {
      if (!need.kept || !before(need)) continue;
      const double rows = need.wanted_last - need.wanted_first;
      const double parts = std::max(1.0, std::round(own.steps * own.bands * rows));
      const double first = need.made_first + (need.made_last - need.made_first) / parts;
      add_wait(own, made(need, std::min(need.made_last, first + need.ahead)), need.wanted_first,
               result);
      add_wait(own, made(need, need.made_last), need.wanted_last - rows / parts, result);
    }
    if (core < operand.passage.size() && operand.passage[core] > 0) {
      load(layer, operand, core, result);
      continue;
    }
    for (const ShareNeed& need : needs) {
      if (need.kept || !before(need)) continue;
      const double last = made(need, need.made_last) + operand.late;
      add_wait(own, last, need.wanted_first, result);
    }
  }
  return result;
}

LayerTimeline::Wait LayerTimeline::load_kernels(const LayerDemand& layer) const {
  Wait result;
  if (layer.kernels <= 0) return result;
  const std::int64_t room = chip_.neural.kernel_bytes_per_partition;
  for (std::size_t core = 0; core < cores_; ++core) {
    if (layer.cores[core].compute == 0) continue;
    const double from = std::max(
        dispatched_[core], room_for(core, std::min(layer.kernel_bytes, room), room,
                                    [](const LayerDemand& before) { return before.kernel_bytes; }));
    result.first = std::max(result.first, from);
  }
  return result;
}

void LayerTimeline::compute(const LayerDemand& layer, std::size_t core, const Wait& data,
                            const Wait& kernels, CoreSpan& span) {
  const CoreDemand& own = layer.cores[core];
  const auto of_own = [&](double there) {
    return kernels.asked + (there - kernels.asked) * own.kernel_part;
  };
  const double kernels_first = of_own(kernels.first), kernels_all = of_own(kernels.all);
  double& engine = queues_[core].engines[static_cast<std::size_t>(layer.engines)];
  span.begin = std::max({engine, data.first, kernels_first, dispatched_[core]});
  if (load_before_arithmetic_) span.begin = std::max({span.begin, data.all, kernels_all});
  span.end = std::max(
      {span.begin + own.compute, data.last, kernels_all + own.compute / layer.kernel_tasks});
  engine = span.end - own.drain;
}

void LayerTimeline::copy(const LayerDemand& layer, std::size_t core, const Wait& data,
                         CoreSpan& span) {
  Queues& queues = queues_[core];
  span.begin = std::max({queues.stores, data.all, dispatched_[core]});
  const double cycles = layer.copied / static_cast<double>(cores_);
  span.end = std::max(span.begin + layer.cores[core].compute,
                      take_data(memory_of(core), span.begin, cycles).there);
  span.store_begin = span.begin;
  span.store_end = queues.stores = span.end;
}

void LayerTimeline::store(const LayerDemand& layer, std::size_t core, CoreSpan& span) {
  const CoreDemand& own = layer.cores[core];
  if (own.stores <= 0) return;
  Queues& queues = queues_[core];
  const double part = 1 / (own.steps * own.slices * own.bands);
  span.store_begin = std::max(queues.stores, span.begin + (span.end - span.begin) * part);
  span.store_end = std::max({span.store_begin + own.stores, span.end + own.stores * part,
                             store_data(layer, core, span.store_begin)});
  queues.stores = span.store_end;
}

// A few writes wait until nobody reads.
double LayerTimeline::store_data(const LayerDemand& layer, std::size_t core, double from) {
  const auto stored = [&](Memory& memory, double all) {
    const double cycles = all / static_cast<double>(cores_);
    if (!layer.stores_wait) return take_data(memory, from, cycles).there;
    const double through = take(memory, memory.channel, from, cycles);
    return meets_kernels(from, through) ? through + kernels_accepted_ : through;
  };
  const double beside = stored(memory_of(core), layer.stored);
  const OneMemory& one = layer.stored_in_one;
  return one.memory < 0 ? beside
                        : std::max(beside, stored(memory_of(core, one.memory), one.cycles));
}

void LayerTimeline::add(const LayerDemand& layer) {
  TESSERA_CHECK(layer.cores.size() == cores_, "{} cores of {}", layer.cores.size(), cores_);
  const bool kernels_last = chip_.dram.arbitration == Arbitration::kKernelsLast;
  dispatch(layer);
  std::vector<Wait> data(cores_);
  const auto load_data = [&] {
    for (std::size_t core = 0; core < cores_; ++core) {
      if (layer.cores[core].compute > 0) data[core] = wait(layer, core);
    }
  };
  Wait kernels = load_kernels(layer);
  if (kernels_last) load_data();
  LayerSpan on_way;
  if (layer.kernels > 0) {
    const double some = layer.kernels / layer.kernel_tasks;
    on_way.begin = kernels.asked = kernels.first;
    kernels.first = take_kernels(kernels.first, some);
    kernels.all = take_kernels(kernels.first, layer.kernels - some);
    on_way.end = kernels.all;
  }
  kernels_.push_back(on_way);
  if (!kernels_last) load_data();
  std::vector<CoreSpan>& spans = core_spans_.emplace_back(cores_);
  LayerSpan all;
  for (std::size_t core = 0; core < cores_; ++core) {
    if (layer.cores[core].compute == 0) continue;
    CoreSpan& span = spans[core];
    if (layer.copies) {
      copy(layer, core, data[core], span);
    } else {
      compute(layer, core, data[core], kernels, span);
      store(layer, core, span);
    }
    all.begin = all.end == 0 ? span.begin : std::min(all.begin, span.begin);
    all.end = std::max(all.end, span.end);
    end_ = std::max({end_, span.end, span.store_end});
  }
  spans_.push_back(all);
  ended_.push_back(last_end_);
  for (std::size_t core = 0; core < cores_; ++core) {
    last_end_[core] = std::max(last_end_[core], spans[core].end);
  }
  LayerDemand& kept = before_.emplace_back();
  kept.cores = layer.cores;
  kept.kernel_bytes = layer.kernel_bytes;
}

}  // namespace tessera::compile

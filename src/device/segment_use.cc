#include "device/segment_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "arith/value_extent.h"
#include "base/check.h"

namespace tessera::device {
namespace {

using isa::EngineKind;

// Adds the timings of a segment's tasks to their layers.
void add_layers(const isa::Program& program, const isa::Segment& segment,
                const std::vector<card::TaskTiming>& tasks, RunResult& result) {
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const isa::TaskDescriptor& task = program.tasks[segment.task_first + i];
    const card::TaskTiming& timing = tasks[i];
    if (task.layer >= result.layers.size()) continue;
    LayerUse& layer = result.layers[task.layer];
    const Cycles begin = result.cycles + timing.first_step_begin;
    if (layer.end == 0 || begin < layer.begin) layer.begin = begin;
    layer.end = std::max(layer.end, result.cycles + timing.end);
    std::int64_t& busy = task.engine == EngineKind::kNeural   ? layer.neural
                         : task.engine == EngineKind::kPlanar ? layer.planar
                                                              : layer.dma;
    busy += timing.busy;
    layer.blocked_dependency += timing.blocked_dependency;
    layer.blocked_memory += timing.blocked_memory;
    layer.blocked_ports += timing.blocked_ports;
    layer.extent = arith::further(layer.extent, timing.extent);
    layer.accumulator_range |= timing.accumulator_range;
  }
}

// Of the row whose engine did the step.
const std::string& engine_name(const card::RunStatistics& statistics,
                               const card::TraceEvent& event) {
  const auto found = std::find_if(statistics.engines.begin(), statistics.engines.end(),
                                  [&](const card::EngineStatistics& engine) {
                                    return engine.index == event.index &&
                                           engine.kind == isa::engine_kind_name(event.engine);
                                  });
  TESSERA_CHECK(found != statistics.engines.end(), "{} engine {} has no row",
                isa::engine_kind_name(event.engine), event.index);
  return found->name;
}

// `hints` are those of the layers; `whose` stands in front of the engines' names.
void add_timeline(const isa::Program& program, const std::vector<isa::LayerHint>& hints,
                  const card::RunStatistics& statistics, std::size_t place,
                  const std::string& whose, RunResult& result) {
  for (const card::TraceEvent& event : statistics.trace) {
    if (event.network != place) continue;
    const std::uint32_t layer = program.tasks[event.task].layer;
    result.timeline.push_back({whose + engine_name(statistics, event),
                               layer < hints.size() ? hints[layer].name : "", event.task,
                               event.step, result.cycles + event.begin, result.cycles + event.end,
                               event.blocked_ports, event.blocked_message});
  }
}

}  // namespace

namespace {

void add_engine(const card::EngineStatistics& engine, const std::string& name, std::int32_t core,
                std::vector<EngineUse>& engines) {
  auto found = std::find_if(engines.begin(), engines.end(),
                            [&](const EngineUse& use) { return use.name == name; });
  if (found == engines.end()) {
    engines.push_back({});
    found = engines.end() - 1;
    found->name = name;
    found->kind = engine.kind;
    found->index = engine.index;
    found->core = core;
  }
  found->busy += engine.busy;
  found->blocked_dependency += engine.blocked_dependency;
  found->blocked_memory += engine.blocked_memory;
  found->blocked_ports += engine.blocked_ports;
  found->idle += engine.idle;
  found->tasks += engine.tasks;
  found->steps += engine.steps;
  found->macs += engine.macs;
  found->blocked_message += engine.blocked_message;
  found->share_cycles += engine.share_cycles;
  found->wire_bytes += engine.wire_bytes;
  if (engine.kind.starts_with("message_")) {
    found->message_bytes += engine.bytes_read + engine.bytes_written;
    return;
  }
  found->dram_bytes_read += engine.bytes_read;
  found->dram_bytes_written += engine.bytes_written;
}

}  // namespace

void add_engines(const card::RunStatistics& statistics, std::vector<EngineUse>& engines) {
  for (const card::EngineStatistics& engine : statistics.engines) {
    add_engine(engine, engine.name, 0, engines);
  }
}

namespace {

// The layer of each load in common, by its number.
std::map<std::uint32_t, std::uint32_t> layers_of_shares(const isa::CardProgram& program,
                                                        std::size_t segment) {
  std::map<std::uint32_t, std::uint32_t> layers;
  for (const isa::Program& core : program.cores) {
    const isa::Segment& range = core.segments[segment];
    for (std::size_t task = range.task_first; task < range.task_last; ++task) {
      const std::uint32_t share = core.tasks[task].header.share.number;
      if (share != 0) layers.try_emplace(share, core.tasks[task].layer);
    }
  }
  return layers;
}

// Adds those of another segment.
void merge_waits(std::vector<CoreWait> more, std::vector<CoreWait>& waits) {
  if (waits.empty()) {
    waits = std::move(more);
    return;
  }
  const auto place_of = [](const CoreWait& wait) {
    return std::tuple(wait.kind, wait.who, wait.what, wait.layer, wait.share);
  };
  std::map<decltype(place_of(waits.front())), std::size_t> places;
  for (std::size_t i = 0; i < waits.size(); ++i) places.emplace(place_of(waits[i]), i);
  for (CoreWait& wait : more) {
    const auto [place, is_new] = places.try_emplace(place_of(wait), waits.size());
    if (is_new) {
      waits.push_back(std::move(wait));
    } else {
      waits[place->second].cycles += wait.cycles;
    }
  }
}

CoreWait step_wait(std::size_t core, const card::EngineStatistics& engine, std::size_t other) {
  return {.kind = "core",
          .who = fmt::format("core {} {}", core, engine.name),
          .what = fmt::format("core {}", other),
          .layer = {},
          .core = static_cast<int>(core),
          .other = static_cast<int>(other),
          .cycles = engine.blocked_on_core[other]};
}

CoreWait request_wait(const card::RequestWait& of, const card::CardStatistics& statistics) {
  CoreWait wait{.kind = "share", .share = of.share, .cycles = of.cycles};
  const bool of_groups = of.what == card::RequestWait::For::kShareOfGroups;
  const char* const kind = of_groups ? "group" : "core";
  wait.who = fmt::format("{} {}", kind, of.who);
  wait.what = fmt::format("{} {}", kind, of.other);
  if (of_groups) return wait;
  wait.core = of.who;
  if (of.what == card::RequestWait::For::kShareOfCores) {
    wait.other = of.other;
  } else {
    wait.kind = "link";
    const char* const wire = card::wire_kind_name(of.wire);
    const auto row = std::ranges::find_if(statistics.shared, [&](const auto& one) {
      return one.kind == wire && one.index == of.other;
    });
    wait.what = row != statistics.shared.end() ? row->name : fmt::format("{} {}", wire, of.other);
  }
  return wait;
}

void add_waits(const isa::CardProgram& program, std::size_t segment,
               const card::CardStatistics& statistics, std::vector<CoreWait>& waits) {
  std::vector<CoreWait> found;
  for (std::size_t core = 0; core < statistics.cores.size(); ++core) {
    for (const card::EngineStatistics& engine : statistics.cores[core].engines) {
      for (std::size_t other = 0; other < engine.blocked_on_core.size(); ++other) {
        if (engine.blocked_on_core[other] > 0) found.push_back(step_wait(core, engine, other));
      }
    }
  }
  const auto layers = layers_of_shares(program, segment);
  const std::vector<isa::LayerHint>& hints = program.cores[0].hints;
  for (const card::RequestWait& of : statistics.waits) {
    found.push_back(request_wait(of, statistics));
    const auto layer = layers.find(of.share);
    if (layer != layers.end() && layer->second < hints.size()) {
      found.back().layer = hints[layer->second].name;
    }
  }
  merge_waits(std::move(found), waits);
  std::ranges::stable_sort(waits, std::greater<>{}, &CoreWait::cycles);
}

}  // namespace

void add_card_segment(const isa::CardProgram& program, std::size_t segment,
                      const card::CardStatistics& statistics, RunResult& result) {
  for (std::size_t core = 0; core < statistics.cores.size(); ++core) {
    const card::RunStatistics& of = statistics.cores[core];
    const std::string whose = fmt::format("core {} ", core);
    for (const card::EngineStatistics& engine : of.engines) {
      add_engine(engine, whose + engine.name, static_cast<std::int32_t>(core), result.engines);
    }
    add_layers(program.cores[core], program.cores[core].segments[segment], of.tasks, result);
    add_timeline(program.cores[core], program.cores[0].hints, of, 0, whose, result);
    result.status_flags |= of.status_flags;
  }
  std::vector<card::WireEvent> wires = statistics.wires;
  std::ranges::stable_sort(wires, {}, [](const card::WireEvent& event) {
    return std::tuple(event.row, event.begin, event.end);
  });
  for (const card::WireEvent& event : wires) {
    TimelineEvent bar;
    bar.engine = statistics.shared[event.row].name;
    bar.begin = result.cycles + event.begin;
    bar.end = result.cycles + event.end;
    bar.bytes = event.bytes;
    bar.write = event.write;
    bar.core = event.core;
    if (event.core != card::WireEvent::kNobody) {
      const isa::Program& of = program.cores[static_cast<std::size_t>(event.core)];
      bar.task = of.segments[segment].task_first + event.task;
      if (bar.task < std::ssize(of.tasks)) {  // else another process says what is not so
        const std::uint32_t layer = of.tasks[static_cast<std::size_t>(bar.task)].layer;
        if (layer < program.cores[0].hints.size()) bar.layer = program.cores[0].hints[layer].name;
      }
    }
    result.timeline.push_back(std::move(bar));
  }
  for (const card::EngineStatistics& shared : statistics.shared) {
    add_engine(shared, shared.name, -1, result.engines);
  }
  add_waits(program, segment, statistics, result.waits);
  result.cycles += statistics.cycles;
}

void add_hints(const isa::Program& program, RunResult& result) {
  for (const isa::LayerHint& hint : program.hints) {
    LayerUse layer;
    layer.name = hint.name;
    layer.kind = hint.kind;
    layer.output_dims = hint.output_dims;
    layer.macs = hint.macs;
    result.layers.push_back(std::move(layer));
  }
}

void add_segment(const isa::Program& program, std::size_t segment,
                 const card::RunStatistics& statistics, RunResult& result) {
  add_engines(statistics, result.engines);
  add_layers(program, program.segments[segment], statistics.tasks, result);
  add_timeline(program, program.hints, statistics, 0, "", result);
  result.cycles += statistics.cycles;
  result.status_flags |= statistics.status_flags;
}

void add_tasks(const isa::Program& program, const std::vector<card::TaskTiming>& tasks,
               RunResult& result) {
  add_layers(program, {0, static_cast<std::uint32_t>(tasks.size()), {}}, tasks, result);
}

void add_network(const isa::Program& program, std::size_t place, const card::NetworksResult& run,
                 RunResult& result) {
  add_tasks(program, run.networks[place].tasks, result);
  add_timeline(program, program.hints, run.statistics, place, "", result);
}

}  // namespace tessera::device

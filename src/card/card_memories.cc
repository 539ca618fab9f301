#include "card/card_memories.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>

namespace tessera::card {
namespace {

engines::FrameSizes frames_of(const CardConfig& card) {
  return {.frame_bytes = card.load_save.frame_bytes,
          .header_bytes = card.load_save.header_bytes,
          .unpack_cycles = card.load_save.unpack_cycles,
          .pack_cycles = card.load_save.pack_cycles};
}

engines::UnitSizes units_of(const ChipConfig& chip, const CardPlacement& placement) {
  const CardConfig& card = chip.card;
  engines::UnitSizes sizes;
  sizes.groups = placement.cards * card.groups;
  sizes.cards = placement.cards;
  sizes.cores_per_group = card.cores_per_group;
  sizes.frame = frames_of(card);
  sizes.port_bytes = card.load_save.port_bytes;
  sizes.broadcast_bytes = card.load_save.broadcast_bytes;
  sizes.merge = card.features.merge != 0;
  sizes.broadcast = card.features.broadcast != 0;
  sizes.kernels_last = chip.dram.arbitration == Arbitration::kKernelsLast;
  sizes.forward = card.features.forward != 0;
  sizes.needed_bytes_only = card.features.needed_bytes_only != 0;
  sizes.bandwidth.slice_cycles = card.bandwidth.slice_cycles;
  sizes.bandwidth.dynamic = card.features.dynamic_bandwidth != 0;
  const int cores = placement.cards * card.cores();
  // A fixed part is a core's also where no program runs on it.
  sizes.bandwidth.weights.assign(static_cast<std::size_t>(cores), sizes.bandwidth.dynamic ? 0 : 1);
  for (const int core : placement.core) {
    sizes.bandwidth.weights[static_cast<std::size_t>(core)] = 1;
  }
  return sizes;
}

// The row of a wire, or none.
std::optional<std::int32_t> row_of(const std::vector<EngineStatistics>& rows,
                                   engines::WireUse::Wire wire, int index) {
  const char* const kind = wire_kind_name(static_cast<std::uint8_t>(wire));
  const auto row = std::ranges::find_if(
      rows, [&](const auto& one) { return one.kind == kind && one.index == index; });
  if (row == rows.end()) return std::nullopt;
  return static_cast<std::int32_t>(row - rows.begin());
}

// The place of a core of the cards among these, or none.
std::optional<std::int32_t> place_of(const std::vector<int>& cores, int core) {
  const auto found = std::ranges::find(cores, core);
  if (found == cores.end()) return std::nullopt;
  return static_cast<std::int32_t>(found - cores.begin());
}

}  // namespace

CardMemories::CardMemories(const ChipConfig& chip, const CardPlacement& placement,
                           const std::vector<std::vector<engines::DramPort*>>& ports, Use use)
    : chip_(chip), placement_(placement), units_(units_of(chip, placement)) {
  const CardConfig& card = chip.card;
  ring_ = {.groups = card.groups,
           .bytes_per_cycle = card.ring.bytes_per_cycle,
           .hop_cycles = card.ring.hop_cycles,
           .frame = units_.frame,
           .lanes = use == Use::kTenants ? placement.cards * card.cores() : 1};
  network_ = {.cards = placement.cards,
              .cycles_of_byte = engines::NetworkSizes::cycles_at(chip.clock_hertz,
                                                                 card.network.gigabits_per_second),
              .latency_cycles =
                  Ratio(chip.clock_hertz, 1'000'000'000).ceil_of(card.network.latency_nanoseconds),
              .frame = units_.frame,
              .lanes = ring_.lanes};
  for (const int core : placement.core) places_.core.push_back(static_cast<std::uint8_t>(core));
  for (const int group : placement.group) places_.group.push_back(static_cast<std::uint8_t>(group));
  std::vector<std::vector<engines::CorePort>> by_group(static_cast<std::size_t>(units_.groups));
  for (std::size_t core = 0; core < ports.size(); ++core) {
    group_of_core_.push_back(placement.core[core] / card.cores_per_group);
    for (engines::DramPort* port : ports[core]) {
      by_group[static_cast<std::size_t>(group_of_core_.back())].push_back(
          {.port = port,
           .core = placement.core[core] % card.cores_per_group,
           .places = use == Use::kOneProgram ? &places_ : nullptr});
      outstanding_ += port->completions.capacity();
    }
  }
  std::vector<engines::MemoryPort*> memories;
  for (int group = 0; group < units_.groups; ++group) {
    channels_.push_back(std::make_unique<engines::ChannelMemory>(chip, outstanding_));
    memories.push_back(channels_.back().get());
  }
  memory_ = std::make_unique<engines::CardMemory>(units_, ring_, network_, by_group, memories);
}

Result<std::unique_ptr<CardMemories>> CardMemories::shared(
    const ChipConfig& chip, int cards, const std::vector<std::vector<engines::DramPort*>>& ports) {
  std::vector<int> all(ports.size());
  std::iota(all.begin(), all.end(), 0);
  TESSERA_TRY(const CardPlacement placement, place_on(chip, cards, std::move(all)));
  return std::unique_ptr<CardMemories>(new CardMemories(chip, placement, ports, Use::kTenants));
}

Status CardMemories::check_exceptions() {
  if (!memory_->has_exceptions()) return {};
  return Error{ErrorCode::kInvalidModel, memory_->take_exceptions().front().reason};
}

Cycles CardMemories::news_between(int a, int b) const {
  const Cycles sync = std::max<Cycles>(1, chip_.card.sync_cycles);
  if (a == b) return sync;
  const Cycles packed = sync + units_.frame.pack_cycles + units_.frame.unpack_cycles;
  const int groups = chip_.card.groups;
  if (a / groups != b / groups) return packed + network_.quiet_cycles(0);
  return packed + ring_.quiet_cycles(0, ring_.hops(a % groups, b % groups));
}

std::vector<int> CardMemories::card_of_core() const {
  std::vector<int> cards;
  for (const int group : group_of_core_) cards.push_back(group / chip_.card.groups);
  return cards;
}

void CardMemories::send_result(int from, std::uint32_t to, std::int64_t bytes, std::uint32_t number,
                               Cycles now) {
  for (int card = 0; card < placement_.cards; ++card) {
    if ((to >> card & 1) != 0) memory_->send_result(from, card, bytes, number, now);
  }
}

std::vector<engines::NetworkStations::ResultDelivery> CardMemories::take_results() {
  auto results = memory_->network()->take_results();
  for (auto& result : results) {
    result.at += units_.frame.pack_cycles + units_.frame.unpack_cycles +
                 std::max<Cycles>(1, chip_.card.sync_cycles);
  }
  return results;
}

void CardMemories::add_channels(Cycles end, std::vector<EngineStatistics>& rows) {
  for (const int group : placement_.group) {
    engines::DramChannel& channel = channels_[static_cast<std::size_t>(group)]->channel();
    channel.account().settle(end);
    const engines::EngineCounters& counters = channel.account().counters;
    const engines::ChannelMemory& memory = *channels_[static_cast<std::size_t>(group)];
    EngineStatistics row;
    row.kind = "dram";
    row.index = group;
    row.busy = counters.busy;
    row.idle = counters.idle;
    row.bytes_read = memory.bytes_read();
    row.bytes_written = memory.bytes_written();
    row.steps = memory_->unit(group).counters().requests;
    rows.push_back(row);
  }
}

void CardMemories::add_wires(Cycles end, std::vector<EngineStatistics>& rows) {
  const auto add = [&](const char* kind, int index, Cycles busy, std::int64_t bytes,
                       std::int64_t steps) {
    EngineStatistics row;
    row.kind = kind;
    row.index = index;
    row.busy = std::min(busy, end);
    row.idle = end - row.busy;
    row.wire_bytes = bytes;
    row.steps = steps;
    rows.push_back(row);
  };
  for (const int group : placement_.group) {
    const auto& unit = memory_->unit(group).counters();
    add("broadcast", group, unit.bus.busy, unit.bus.bytes, unit.merged);
  }
  for (int card = 0; card < placement_.cards; ++card) {
    for (int group = 0; memory_->ring(card) != nullptr && group < ring_.groups; ++group) {
      const auto& link = memory_->ring(card)->counters(group);
      add("ring", card * ring_.groups + group, link.busy, link.bytes, link.transfers);
    }
  }
  for (int card = 0; memory_->network() != nullptr && card < placement_.cards; ++card) {
    const engines::NetworkStations& network = *memory_->network();
    const auto port = network.counters(card);
    add("network_out", card, network.busy_cycles(port.sent), port.sent.bytes, port.sent.messages);
    add("network_in", card, network.busy_cycles(port.received), port.received.bytes,
        port.received.messages);
  }
}

std::vector<EngineStatistics> CardMemories::statistics(Cycles end) {
  std::vector<EngineStatistics> rows;
  add_channels(end, rows);
  add_wires(end, rows);
  const auto count = [&rows](const std::string& kind) {
    return std::ranges::count_if(rows, [&](const auto& row) { return row.kind == kind; });
  };
  for (EngineStatistics& row : rows) {
    row.name = count(row.kind) == 1 ? row.kind : fmt::format("{} {}", row.kind, row.index);
  }
  return rows;
}

std::vector<WireEvent> CardMemories::take_trace(std::uint32_t program,
                                                const std::vector<int>& cores,
                                                const std::vector<EngineStatistics>& rows,
                                                Cycles begin) {
  std::vector<WireEvent> events;
  for (const engines::WireUse& use : memory_->trace().take(program)) {
    const auto row = row_of(rows, use.wire, use.index);
    if (!row) continue;
    WireEvent event{.row = static_cast<std::uint32_t>(*row),
                    .begin = use.begin - begin,
                    .end = use.end - begin,
                    .bytes = use.bytes,
                    .write = use.write};
    const auto core = place_of(cores, use.core);
    if (core && use.task != DramRequest::kNoTask) {
      event.core = *core;
      event.task = use.task;
    }
    events.push_back(event);
  }
  return events;
}

std::vector<RequestWait> CardMemories::take_waits(std::uint32_t program,
                                                  const std::vector<int>& cores) {
  std::vector<RequestWait> waits;
  for (const engines::CardWait& wait : memory_->waits().take(program)) {
    RequestWait request{.what = static_cast<RequestWait::For>(wait.what),
                        .wire = static_cast<std::uint8_t>(wait.wire),
                        .who = wait.who,
                        .other = wait.other,
                        .share = wait.share,
                        .cycles = wait.cycles};
    if (wait.what != engines::CardWait::For::kShareOfGroups) {
      const auto who = place_of(cores, wait.who);
      if (!who) continue;
      request.who = *who;
    }
    if (wait.what == engines::CardWait::For::kShareOfCores) {
      const auto other = place_of(cores, wait.other);
      if (!other) continue;
      request.other = *other;
    }
    waits.push_back(request);
  }
  std::ranges::sort(waits);
  return waits;
}

const char* wire_kind_name(std::uint8_t wire) {
  static constexpr std::array<const char*, kWireKinds> kNames = {"dram", "broadcast", "ring",
                                                                 "network_out", "network_in"};
  return kNames.at(wire);
}

void add_waits(const std::vector<RequestWait>& more, std::vector<RequestWait>& waits) {
  std::vector<RequestWait> all;
  std::ranges::merge(waits, more, std::back_inserter(all));
  waits.clear();
  for (const RequestWait& wait : all) {
    RequestWait same = wait;
    same.cycles = waits.empty() ? 0 : waits.back().cycles;
    if (!waits.empty() && waits.back() == same) {
      waits.back().cycles += wait.cycles;
    } else {
      waits.push_back(wait);
    }
  }
}

std::int64_t CardMemories::row_misses() {
  std::int64_t misses = 0;
  for (const auto& channel : channels_) misses += channel->channel().row_misses();
  return misses;
}

}  // namespace tessera::card

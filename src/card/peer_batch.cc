#include "card/peer_batch.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/field_bytes.h"

namespace tessera::card {
namespace {

using engines::CardMessage;
using engines::CardRequest;
using engines::News;

void request(auto& way, auto& of) {
  way(of.dram.first_run), way(of.dram.runs), way(of.dram.skip), way(of.dram.bytes);
  way(of.dram.write), way(of.dram.task), way(of.home), way(of.core), way(of.can_wait);
  way(of.share.number), way(of.share.sequence), way(of.share.members);
}

void grid(auto& way, auto& of) {
  way(of.address), way(of.run_bytes), way(of.axes);
  for (auto& extent : of.extents) way(extent);
  for (auto& stride : of.strides) way(stride);
}

void news(auto& way, auto& of) {
  way(of.at), way(of.to), way(of.from), way(of.task);
  way(of.progress.finished), way(of.progress.all);
}

void message(auto& way, auto& of) {
  small(way, of.kind, static_cast<int>(CardMessage::Kind::kDone));
  way(of.from), way(of.to), way(of.cores);
  request(way, of.request);
  for (auto& ticket : of.tickets) way(ticket);
}

void frame(auto& way, auto& of) {
  auto& departure = of.departure;
  way(departure.at), way(departure.is_result), way(departure.from_card), way(departure.to_card);
  way(departure.message.bytes), way(departure.number), way(of.is_whole);
  if (!of.is_whole) return;
  way(of.data);
  if (departure.is_result) {
    way.each(of.runs, [&](auto& run) { way(run.address), way(run.bytes); });
    way.each(of.held, [&](auto& one) { news(way, one); });
    return;
  }
  message(way, departure.message);
  grid(way, departure.grid);
}

void failure(FieldsOut& way, const std::optional<PeerFailure>& of) {
  way(of.has_value());
  if (!of.has_value()) return;
  way(of->at);
  small(way, of->error.code, 0);
  way(of->error.message);
}
void failure(FieldsIn& way, std::optional<PeerFailure>& of) {
  bool is_there = false;
  way(is_there);
  if (!is_there) return;
  of.emplace();
  way(of->at);
  small(way, of->error.code, static_cast<int>(ErrorCode::kInternal));
  way(of->error.message);
}

void batch(auto& way, auto& of) {
  way(of.window), way(of.next), way(of.first_news), way(of.last), way(of.is_done);
  failure(way, of.failure);
  way.each(of.frames, [&](auto& one) { frame(way, one); });
  way.each(of.news, [&](auto& one) { news(way, one); });
}

void engine(auto& way, auto& of) {
  way(of.name), way(of.kind), way(of.index), way(of.busy), way(of.blocked_dependency);
  way(of.blocked_memory), way(of.blocked_message), way(of.blocked_ports), way(of.idle);
  way(of.tasks), way(of.steps), way(of.macs), way(of.bytes_read), way(of.bytes_written);
  way(of.share_cycles), way(of.wire_bytes);
  way.each(of.blocked_on_core, [&](auto& cycles) { way(cycles); });
}

void wait(auto& way, auto& of) {
  small(way, of.what, static_cast<int>(RequestWait::For::kWire));
  way(of.wire), way(of.who), way(of.other), way(of.share), way(of.cycles);
}

void task(auto& way, auto& of) {
  way(of.dispatched), way(of.first_step_begin), way(of.end), way(of.busy);
  way(of.blocked_dependency), way(of.blocked_memory), way(of.blocked_ports);
  small(way, of.extent, static_cast<int>(ValueExtent::kNotNumber));
  way(of.accumulator_range);
}

void event(auto& way, auto& of) {
  way(of.task);
  small(way, of.engine, isa::kEngineKindCount - 1);
  way(of.index), way(of.step), way(of.begin), way(of.end), way(of.network);
  way(of.blocked_ports), way(of.blocked_message);
}

void wire(auto& way, auto& of) {
  way(of.row), way(of.begin), way(of.end), way(of.bytes), way(of.write), way(of.core), way(of.task);
}

void statistics_of(auto& way, auto& of) {
  const auto engine_row = [&](auto& row) { engine(way, row); };
  way(of.cycles), way(of.row_misses);
  way.each(of.shared, engine_row);
  way.each(of.wires, [&](auto& row) { wire(way, row); });
  way.each(of.waits, [&](auto& row) { wait(way, row); });
  way.each(of.cores, [&](auto& core) {
    way(core.cycles), way(core.row_misses), way(core.idle_engine_cycles), way(core.status_flags);
    way.each(core.engines, engine_row);
    way.each(core.tasks, [&](auto& row) { task(way, row); });
    way.each(core.trace, [&](auto& row) { event(way, row); });
  });
}

// Visits fields as those of base/field_bytes.h, and sees whether each number is one that a run can come to.
struct NumbersOfARun {
  static constexpr std::int64_t kMost = std::int64_t{1} << 48;
  bool ok = true;
  template <typename Number>
    requires std::is_integral_v<Number>
  void operator()(const Number& number) {
    if constexpr (sizeof number == sizeof(std::int64_t)) {
      const auto value = static_cast<std::int64_t>(number);
      ok = ok && value >= -kMost && value <= kMost;
    }
  }
  void operator()(const std::string& /*text*/) {}
  template <typename Item>
  void each(const std::vector<Item>& items, const auto& visit) {
    for (const Item& item : items) visit(item);
  }
};
template <typename Enum>
void small(NumbersOfARun& /*way*/, const Enum& /*value*/, int /*last*/) {}

bool can_be_of(const RunStatistics& core, const isa::Program& program, std::size_t segment,
               std::size_t cores) {
  const isa::Segment& range = program.segments[segment];
  if (core.tasks.size() > range.task_last - range.task_first) return false;
  const auto fits = [&](const EngineStatistics& engine) {
    return engine.blocked_on_core.size() <= cores &&
           std::ranges::all_of(engine.blocked_on_core, [](Cycles cycles) { return cycles >= 0; });
  };
  return std::ranges::all_of(core.engines, fits) &&
         std::ranges::all_of(core.trace, [&](const TraceEvent& event) {
           return event.task < program.tasks.size() && event.network == 0 &&
                  std::ranges::any_of(
                      core.engines,
                      [&](const EngineStatistics& engine) {
                        return engine.index == event.index &&
                               engine.kind == isa::engine_kind_name(event.engine);
                      });
         });
}

bool can_be(const RequestWait& wait, std::size_t cores) {
  const auto within = [](std::int32_t number, std::size_t count) {
    return number >= 0 && static_cast<std::size_t>(number) < count;
  };
  if (wait.cycles <= 0 || wait.wire >= kWireKinds) return false;
  const bool is_wire = wait.what == RequestWait::For::kWire;
  if (!is_wire && wait.who == wait.other) return false;
  const bool of_groups = wait.what == RequestWait::For::kShareOfGroups;
  return within(wait.who, of_groups ? engines::kGroupsMax : cores) &&
         within(wait.other, is_wire || of_groups ? engines::kGroupsMax : cores);
}

Error damaged(const char* what, const FieldsIn& in) {
  return {ErrorCode::kInvalidModel, std::string(what) + (in.ok ? ": there are bytes behind its end"
                                                               : ": its bytes are none of one")};
}

}  // namespace

std::vector<std::byte> encode_batch(const PeerBatch& of) {
  FieldsOut out;
  batch(out, of);
  return std::move(out.bytes);
}

Result<PeerBatch> parse_batch(std::span<const std::byte> bytes) {
  FieldsIn in(bytes);
  PeerBatch of;
  batch(in, of);
  if (!in.ok || !in.at_end()) return damaged("a batch of another process's cards", in);
  for (News& one : of.news) one.progress.heard_at = one.at;
  return of;
}

std::vector<std::byte> encode_statistics(const CardStatistics& statistics) {
  FieldsOut out;
  statistics_of(out, statistics);
  return std::move(out.bytes);
}

Status check_statistics(const CardStatistics& statistics, const isa::CardProgram& program,
                        std::size_t segment, std::size_t shared_rows) {
  const std::size_t cores = program.cores.size();
  NumbersOfARun numbers;
  statistics_of(numbers, statistics);
  bool fits =
      numbers.ok && statistics.cores.size() <= cores && statistics.shared.size() <= shared_rows;
  for (std::size_t core = 0; fits && core < statistics.cores.size(); ++core) {
    fits = can_be_of(statistics.cores[core], program.cores[core], segment, cores);
  }
  fits = fits && std::ranges::all_of(statistics.wires, [&](const WireEvent& event) {
           return event.row < shared_rows && event.core >= WireEvent::kNobody &&
                  event.core < std::ssize(program.cores);
         });
  fits = fits && std::ranges::all_of(statistics.waits,
                                     [&](const RequestWait& wait) { return can_be(wait, cores); });
  // Each once.
  const auto not_behind = [](const RequestWait& a, RequestWait b) {
    b.cycles = a.cycles;
    return !(a < b);
  };
  fits = fits && std::ranges::adjacent_find(statistics.waits, not_behind) == statistics.waits.end();
  if (fits) return {};
  return Error{ErrorCode::kInvalidModel,
               "the statistics of another process's cards are not of this program's cores"};
}

Result<CardStatistics> parse_statistics(std::span<const std::byte> bytes) {
  FieldsIn in(bytes);
  CardStatistics statistics;
  statistics_of(in, statistics);
  if (!in.ok || !in.at_end()) return damaged("the statistics of another process's cards", in);
  return statistics;
}

}  // namespace tessera::card

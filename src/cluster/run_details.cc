#include "cluster/run_details.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "arch/card_config.h"
#include "base/field_bytes.h"

namespace tessera::cluster {
namespace {

void engine(auto& way, auto& use) {
  way(use.name), way(use.busy), way(use.blocked_dependency), way(use.blocked_memory);
  way(use.idle), way(use.tasks), way(use.steps), way(use.macs);
  way(use.dram_bytes_read), way(use.dram_bytes_written), way(use.kind), way(use.index);
  way(use.blocked_ports), way(use.blocked_message), way(use.message_bytes), way(use.core);
  way(use.share_cycles), way(use.wire_bytes);
}

void split(auto& way, auto& of) {
  way(of.way), way(of.cores), way(of.reason);
  way.each(of.before, [&](auto& text) { way(text); });
  way(of.movement), way(of.weights), way(of.dram_bytes_read), way(of.dram_bytes_written);
  way(of.merged_bytes), way(of.ring_bytes), way(of.network_bytes);
}

void layer(auto& way, auto& use) {
  way(use.name), way(use.kind);
  way.each(use.output_dims, [&](auto& dim) { way(dim); });
  way(use.macs), way(use.begin), way(use.end), way(use.neural), way(use.planar), way(use.dma);
  way(use.blocked_dependency), way(use.blocked_memory), way(use.blocked_ports);
  split(way, use.split);
}

void event(auto& way, auto& bar) {
  way(bar.engine), way(bar.layer), way(bar.task), way(bar.step), way(bar.begin), way(bar.end);
  way(bar.blocked_ports), way(bar.blocked_message);
}

void details(auto& way, auto& run) {
  way(run.cycles), way(run.host_cycles), way(run.transfer_cycles), way(run.clock_hertz);
  way(run.images), way(run.card_begin), way(run.card_end), way(run.status_flags);
  way.each(run.engines, [&](auto& use) { engine(way, use); });
  way.each(run.layers, [&](auto& use) { layer(way, use); });
  way.each(run.timeline, [&](auto& bar) { event(way, bar); });
  way.each(run.cores, [&](auto& place) { way(place.card), way(place.group), way(place.number); });
}

}  // namespace

std::vector<std::byte> encode_details(const RunResult& result) {
  FieldsOut out;
  details(out, result);
  return std::move(out.bytes);
}

nlohmann::json layer_values(const RunResult& result) {
  nlohmann::json values = nlohmann::json::array();
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    const LayerUse& layer = result.layers[i];
    if (layer.extent == ValueExtent::kUnknown && !layer.accumulator_range) continue;
    if (layer.extent == ValueExtent::kNormal && !layer.accumulator_range) continue;
    values.push_back({i, static_cast<int>(layer.extent), layer.accumulator_range});
  }
  return values;
}

void take_layer_values(const nlohmann::json& values, RunResult& result) {
  if (!values.is_array()) return;
  for (LayerUse& layer : result.layers) layer.extent = ValueExtent::kNormal;
  for (const nlohmann::json& value : values) {
    const bool fits = value.is_array() && value.size() == 3 && value[0].is_number_unsigned() &&
                      value[1].is_number_unsigned() && value[2].is_boolean() &&
                      value[0].get<std::size_t>() < result.layers.size() &&
                      value[1].get<unsigned>() <= static_cast<unsigned>(ValueExtent::kNotNumber);
    if (!fits) continue;
    LayerUse& layer = result.layers[value[0].get<std::size_t>()];
    layer.extent = static_cast<ValueExtent>(value[1].get<unsigned>());
    layer.accumulator_range = value[2].get<bool>();
  }
}

nlohmann::json bar_bytes(const RunResult& result) {
  nlohmann::json bars = nlohmann::json::array();
  const TimelineEvent none;
  for (std::size_t i = 0; i < result.timeline.size(); ++i) {
    const TimelineEvent& bar = result.timeline[i];
    if (bar.bytes == none.bytes && bar.write == none.write && bar.core == none.core) continue;
    bars.push_back({i, bar.bytes, bar.write, bar.core});
  }
  return bars;
}

void take_bar_bytes(const nlohmann::json& bars, RunResult& result) {
  if (!bars.is_array()) return;
  const TimelineEvent none;
  for (const nlohmann::json& bar : bars) {
    const bool fits =
        bar.is_array() && bar.size() == 4 && bar[0].is_number_unsigned() &&
        bar[1].is_number_integer() && bar[2].is_boolean() && bar[3].is_number_integer() &&
        bar[0].get<std::size_t>() < result.timeline.size() && bar[1].get<std::int64_t>() >= 0 &&
        bar[3].get<std::int64_t>() >= none.core && bar[3].get<std::int64_t>() <= kCardCoresMax;
    if (!fits) continue;
    TimelineEvent& event = result.timeline[bar[0].get<std::size_t>()];
    event.bytes = bar[1].get<std::int64_t>();
    event.write = bar[2].get<bool>();
    event.core = static_cast<decltype(event.core)>(bar[3].get<std::int64_t>());
  }
}

nlohmann::json core_waits(const RunResult& result) {
  nlohmann::json waits = nlohmann::json::array();
  for (const CoreWait& wait : result.waits) {
    waits.push_back({wait.kind, wait.who, wait.what, wait.layer, wait.core, wait.other, wait.share,
                     wait.cycles});
  }
  return waits;
}

void take_core_waits(const nlohmann::json& waits, RunResult& result) {
  if (!waits.is_array()) return;
  const auto is_core = [](const nlohmann::json& number) {
    if (!number.is_number_integer()) return false;
    if (number.is_number_unsigned()) return number.get<std::uint64_t>() < kCardCoresMax;
    return number.get<std::int64_t>() >= -1 && number.get<std::int64_t>() < kCardCoresMax;
  };
  for (const nlohmann::json& wait : waits) {
    const bool fits = wait.is_array() && wait.size() == 8 &&
                      std::all_of(wait.begin(), wait.begin() + 4,
                                  [](const nlohmann::json& text) { return text.is_string(); }) &&
                      is_core(wait[4]) && is_core(wait[5]) && wait[6].is_number_unsigned() &&
                      wait[6].get<std::uint64_t>() <= UINT32_MAX && wait[7].is_number_integer() &&
                      wait[7].get<std::int64_t>() > 0;
    if (!fits) continue;
    result.waits.push_back({.kind = wait[0],
                            .who = wait[1],
                            .what = wait[2],
                            .layer = wait[3],
                            .core = wait[4],
                            .other = wait[5],
                            .share = wait[6],
                            .cycles = wait[7]});
  }
}

Result<RunResult> parse_details(std::span<const std::byte> bytes) {
  FieldsIn in(bytes);
  RunResult result;
  details(in, result);
  if (in.ok && in.at_end()) return result;
  return Error{ErrorCode::kInvalidModel, in.ok ? "a run's result: there are bytes behind its end"
                                               : "a run's result: its bytes end before it does"};
}

}  // namespace tessera::cluster

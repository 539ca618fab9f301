#include "cluster/run_details.h"

#include <utility>

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
  way(bar.blocked_ports), way(bar.blocked_message), way(bar.bytes), way(bar.write), way(bar.core);
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

Result<RunResult> parse_details(std::span<const std::byte> bytes) {
  FieldsIn in(bytes);
  RunResult result;
  details(in, result);
  if (in.ok && in.at_end()) return result;
  return Error{ErrorCode::kInvalidModel, in.ok ? "a run's result: there are bytes behind its end"
                                               : "a run's result: its bytes end before it does"};
}

}  // namespace tessera::cluster

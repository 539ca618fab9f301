// Packets that debugging sends to the host, in place of the devices or after them; then what both
// gave is compared (debugging.h).
#include <fmt/format.h>

#include <algorithm>

#include "base/guarded.h"
#include "device/device_form.h"
#include "runtime/compare.h"
#include "runtime/execute_stage.h"

namespace tessera::runtime {
namespace {

// Where two devices part, in words; what a look at all layers adds to the outputs' difference.
std::pair<std::string, std::string> locate(const ModelState& model, DeviceKind kind,
                                           const std::vector<Tensor>& inputs) {
  const NetworkState& network = model.on_devices.state();
  CompareOptions options;
  options.a.device = kind;
  options.b.device = DeviceKind::kHost;
  const auto graph = network::dense_graph_of(network);
  if (!graph.ok()) return {"", "comparing the layers failed: " + graph.error().message};
  std::vector<Tensor> dense = inputs;
  for (std::size_t i = 0; i < network.input_layouts.size(); ++i) {
    if (!network.input_layouts[i].changes()) continue;
    dense[i] = Tensor::zeros(inputs[i].format, network.inputs[i].dims);
    device::from_device(network.input_layouts[i], inputs[i].bytes, dense[i].bytes);
  }
  const auto comparison = compare(*graph, network.chip, dense, options);
  if (!comparison.ok()) {
    return {"", "comparing the layers failed: " + comparison.error().message};
  }
  if (!comparison->first_layer.has_value()) {
    return {"", "run alone, all layers are equal: the difference is not of the arithmetic"};
  }
  const LayerComparison& layer = comparison->layers[*comparison->first_layer];
  return {layer.layer,
          fmt::format("the first layer that differs is '{}' (tensor '{}'), {} of {} elements; "
                      "element {}: {} and {}",
                      layer.layer, layer.tensor, layer.different, layer.elements, layer.first_index,
                      layer.first_a, layer.first_b)};
}

}  // namespace

// Loads the model for the host, which may take a while; packets that cannot go there fail.
void ExecuteStage::prepare_host() {
  const auto host = guarded("", [this] { return model_->place_for_debugging(); });
  Leaving leaving;
  {
    const std::lock_guard lock(mutex_);
    host_wanted_ = false;
    if (host_.device != nullptr) return;  // another thread was first, and runs go there
    if (host.ok()) {
      host_.device = host->device;
      host_.loaded = host->loaded;
    } else {
      for (std::size_t i = held_.size(); i-- > 0;) {
        Held& held = *held_[i];
        if (held.phase != Phase::kHost || held.packet->failure != pipeline::Failure::kNone)
          continue;
        held.packet->fail(pipeline::Failure::kError,
                          error_or_no_memory([&] { return host.error(); }));
        end_runs(held, false);
        leave_if_over(held, leaving);
      }
    }
  }
  hand_over(leaving);
}

Status ExecuteStage::check_values(const std::string& device) const {
  for (const Place& place : places_) {
    if (place.device->name() != device || place.device->device().properties().values) continue;
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("device '{}' computes no values (timing only), so there is nothing to "
                             "compare; open it without, or do not compare",
                             device)};
  }
  return {};
}

// The devices are done with the packet: its runs go to the host, too.
void ExecuteStage::begin_comparison(Held& held) {
  NetworkPacket& packet = held.task();
  const Status comparable = guarded("", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(check_values(*packet.device));
    std::vector<std::vector<Tensor>> inputs = held.inputs;
    held.results = std::exchange(packet.task.runs, std::move(inputs));
    return {};
  });
  if (!comparable.ok()) {
    packet.fail(pipeline::Failure::kError, error_or_no_memory([&] { return comparable.error(); }));
    held.ending = true;
    return;
  }
  debugging_.compared.fetch_add(1, std::memory_order_relaxed);
  held.phase = Phase::kHost;
  held.next = 0;
  note_to_start(held);
}

void ExecuteStage::compare(Held& held) {
  try {
    compare_results(held);
  } catch (...) {
    held.packet->fail_with_exception();
  }
}

void ExecuteStage::compare_results(Held& held) {
  NetworkPacket& packet = held.task();
  const std::vector<std::vector<Tensor>> inputs = std::move(held.inputs);
  const std::vector<std::vector<Tensor>> results = std::move(held.results);
  const auto different = std::mismatch(results.begin(), results.end(), packet.task.runs.begin());
  if (different.first == results.end()) return;
  debugging_.mismatches.fetch_add(1, std::memory_order_relaxed);
  const auto run = static_cast<std::size_t>(different.first - results.begin());
  DeviceKind kind = DeviceKind::kSim;
  for (const Place& place : places_) {
    if (place.device->name() == *packet.device) kind = place.device->kind();
  }
  const auto [layer, where] = locate(*model_, kind, inputs[run]);
  packet.layer = layer;
  packet.fail(pipeline::Failure::kMismatch,
              {ErrorCode::kInternal, fmt::format("device '{}' and the host gave different bits; {}",
                                                 *packet.device, where)});
}

}  // namespace tessera::runtime

#include "device/card_network.h"

#include "device/segment_use.h"
#include "device/tensor_places.h"
#include "network/card_layers.h"
#include "network/card_program.h"

namespace tessera::device {
namespace {

std::vector<Loaded::Tensor> tensors_of_slots(const std::vector<isa::TensorSlot>& slots) {
  std::vector<Loaded::Tensor> tensors;
  for (const isa::TensorSlot& slot : slots) tensors.push_back({slot.name, Bytes{slot_bytes(slot)}});
  return tensors;
}

}  // namespace

std::vector<Loaded::Tensor> CardNetwork::inputs() const { return tensors_of_slots(first().inputs); }
std::vector<Loaded::Tensor> CardNetwork::outputs() const {
  return tensors_of_slots(first().outputs);
}

std::int64_t CardNetwork::host_bytes() const {
  std::int64_t bytes = std::ssize(first().weights);
  for (const isa::Program& core : program.cores) {
    bytes += std::ssize(core.stream) + std::ssize(core.tasks) * std::int64_t{sizeof(core.tasks[0])};
    bytes += std::ssize(core.stream_offsets) * std::int64_t{sizeof(core.stream_offsets[0])};
    bytes += std::ssize(core.pieces) * std::int64_t{sizeof(core.pieces[0])};
  }
  return bytes;
}

RunResult CardNetwork::begin_result(const ChipConfig& chip) const {
  RunResult result;
  result.clock_hertz = chip.clock_hertz;
  add_hints(first(), result);
  for (std::size_t i = 0; i < result.layers.size(); ++i) result.layers[i].split = splits[i];
  result.cores = places;
  add_host_time(first(), host_steps, chip, result);
  return result;
}

std::vector<CorePlace> places_of(const CardPlacement& placement, const ChipConfig& chip) {
  std::vector<CorePlace> places;
  for (const int core : placement.core) {
    places.push_back({core / chip.card.cores(), core / chip.card.cores_per_group, core});
  }
  return places;
}

Result<CardNetwork> compile_for_card(const NetworkState& network, const ChipConfig& chip,
                                     const CardPlacement& placement, CoreSplit split,
                                     int cores_per_image) {
  TESSERA_TRY(compile::SharedProgram shared,
              network::program_for_cores(network, placement, split, cores_per_image));
  CardNetwork result;
  result.splits = network.program != nullptr
                      ? std::vector<LayerSplit>(shared.card.cores.front().hints.size())
                      : network::layer_splits(network.graph(), chip, placement, shared);
  result.places = places_of(placement, chip);
  result.filled_in = shared.filled_in;
  result.program = std::move(shared.card);
  TESSERA_TRY(result.host_steps, open_steps(result.first()));
  return result;
}

}  // namespace tessera::device

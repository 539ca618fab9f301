#include "network/prepared_program.h"

#include <fmt/format.h>

#include <utility>

#include "arch/architecture_file.h"
#include "link/templates.h"
#include "package/weight_pool.h"

namespace tessera::network {

using compile::SharedProgram;
using isa::PreparedFor;
using isa::PreparedLayer;
using isa::PreparedPrograms;

PreparedFor key_of_cores(const ChipConfig& chip, int cores, CoreSplit split,
                         const std::vector<std::uint8_t>& memories, int cards) {
  return {cores, cards, static_cast<std::uint8_t>(split), memories, card_fingerprint(chip)};
}

Result<std::optional<SharedProgram>> prepared_program(const NetworkState& network,
                                                      const PreparedFor& key) {
  using Found = std::optional<SharedProgram>;
  const PreparedPrograms* all = network.package.prepared.get();
  const auto prepared = all == nullptr ? nullptr : all->find(key);
  if (prepared == nullptr) return Found();
  SharedProgram shared;
  shared.filled_in = true;
  TESSERA_TRY(shared.card, link::program_of(all->templates, *prepared));
  isa::Program& first = shared.card.cores.front();
  first.weights = package::region_of_parts(network.package.weights.bytes(), all->kernels.bytes(),
                                           first.weights.parts());
  shared.remote_dependencies = prepared->remote_dependencies;
  shared.load_shares = prepared->load_shares;
  shared.model = prepared->model;
  for (std::size_t i = 0; i < prepared->layers.size(); ++i) {
    const PreparedLayer& layer = prepared->layers[i];
    if (layer.way > static_cast<std::uint8_t>(compile::ShareWay::kNone)) {
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("layer {} is cut in the way {}, allowed 0..{}", i, layer.way,
                               static_cast<int>(compile::ShareWay::kNone))};
    }
    if (layer.hand_over >= compile::kHandOverCount) {
      return Error{ErrorCode::kInvalidModel,
                   fmt::format("layer {} hands over in the way {}, allowed 0..{}", i,
                               layer.hand_over, compile::kHandOverCount - 1)};
    }
    shared.layers.push_back({first.hints[i].name, layer.node,
                             static_cast<compile::ShareWay>(layer.way), layer.cores, layer.reason,
                             layer.bytes_read, layer.bytes_written,
                             static_cast<compile::HandOver>(layer.hand_over)});
  }
  return Found(std::move(shared));
}

}  // namespace tessera::network

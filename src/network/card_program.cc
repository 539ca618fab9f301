#include "network/card_program.h"

#include <fmt/format.h>

#include "compile/split_choice.h"
#include "isa/verify.h"

namespace tessera::network {

namespace {

// All layers one way, as is asked for or as the architecture's card does it.
CoreSplit split_of(const ChipConfig& chip, CoreSplit split) {
  if (split != CoreSplit::kAuto) return split;
  if (chip.card.features.split == CardSplit::kWidth) return CoreSplit::kRows;
  return chip.card.features.split == CardSplit::kChannels ? CoreSplit::kChannels : split;
}

}  // namespace

Result<compile::SharedProgram> program_for_cores(const NetworkState& network,
                                                 const CardPlacement& placement, CoreSplit split) {
  const auto cores = static_cast<int>(placement.core.size());
  TESSERA_RETURN_IF_ERROR(check_package(network, fmt::format("running on {} cores", cores)));
  const CardFeatures& features = network.chip.card.features;
  split = split_of(network.chip, split);
  compile::ShareChoice choice{
      .cores = cores,
      .split = split == CoreSplit::kChannels ? compile::Split::kChannels : compile::Split::kRows,
      .of_nodes = {}};
  if (split == CoreSplit::kAuto) {
    TESSERA_TRY(choice, compile::choose_splits(network.package.graph, network.chip, {}, cores));
  }
  // Where nothing is forwarded every memory has everything.
  if (features.forward != 0) choice.memory_of_core = placement.memory;
  choice.share_loads = features.merge != 0;
  choice.meet_after_layers = features.instruction_sync == 0;
  choice.load_before_arithmetic = features.loads_beside_arithmetic == 0;
  TESSERA_TRY(compile::SharedProgram shared,
              compile::compile_shares(network.package.graph, network.chip, {}, choice));
  const Status proved = isa::verify_card_program(shared.card, network.chip);
  if (!proved.ok()) return proved.error().with_context("'" + network.path + "'");
  return shared;
}

}  // namespace tessera::network

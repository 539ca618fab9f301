#include "network/card_program.h"

#include <fmt/format.h>

#include "compile/split_choice.h"
#include "isa/verify.h"

namespace tessera::network {

Result<compile::SharedProgram> program_for_cores(const NetworkState& network, int cores,
                                                 CoreSplit split) {
  TESSERA_RETURN_IF_ERROR(check_package(network, fmt::format("running on {} cores", cores)));
  const int most = network.chip.card.cores_per_group;
  if (cores < 1 || cores > most) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} cores; a group of architecture '{}' has {}, allowed 1 to {} "
                             "(card.cores_per_group; tessera128x4 has 4)",
                             cores, network.chip.name, most, most)};
  }
  compile::ShareChoice choice{
      .cores = cores,
      .split = split == CoreSplit::kChannels ? compile::Split::kChannels : compile::Split::kRows,
      .of_nodes = {}};
  if (split == CoreSplit::kAuto) {
    TESSERA_TRY(choice, compile::choose_splits(network.package.graph, network.chip, {}, cores));
  }
  TESSERA_TRY(compile::SharedProgram shared,
              compile::compile_shares(network.package.graph, network.chip, {}, choice));
  const Status proved = isa::verify_card_program(shared.card, network.chip);
  if (!proved.ok()) return proved.error().with_context("'" + network.path + "'");
  return shared;
}

}  // namespace tessera::network

#include "network/card_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "compile/image_cores.h"
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

// Which of a team's cores have a memory in common: those that have in every team.
Result<std::vector<std::uint8_t>> memories_of_team(const std::vector<std::uint8_t>& memories,
                                                   std::size_t of_team) {
  std::vector<std::uint8_t> result;
  std::vector<std::vector<std::uint8_t>> known;  // of a core of each team
  for (std::size_t core = 0; core < of_team; ++core) {
    std::vector<std::uint8_t> its;
    for (std::size_t at = core; at < memories.size(); at += of_team) its.push_back(memories[at]);
    const auto found = std::ranges::find(known, its);
    result.push_back(static_cast<std::uint8_t>(found - known.begin()));
    if (found == known.end()) known.push_back(std::move(its));
  }
  if (std::ssize(known) <= isa::kCardMemoriesMax) return result;
  return Error{ErrorCode::kUnsupported,
               fmt::format("teams of {} of {} cores, which lie in the groups in different ways: {} "
                           "kinds of places, allowed {}; take a number of cores that the groups "
                           "divide",
                           of_team, memories.size(), known.size(), isa::kCardMemoriesMax)};
}

// With the features of the chip's card; `memories` as in isa/card_program.h, of `cards` cards.
Result<compile::SharedProgram> compile_team(const NetworkState& network, int cores, CoreSplit split,
                                            std::vector<std::uint8_t> memories, int cards) {
  const CardFeatures& features = network.chip.card.features;
  split = split_of(network.chip, split);
  compile::ShareChoice choice{
      .cores = cores,
      .split = split == CoreSplit::kChannels ? compile::Split::kChannels : compile::Split::kRows,
      .of_nodes = {}};
  choice.memory_of_core = std::move(memories);
  // Cards that exchange whole results have them in memory.
  choice.hand_over = features.hand_over != 0 && (features.needed_bytes_only != 0 || cards == 1);
  choice.share_loads = features.merge != 0;
  choice.meet_after_layers = features.instruction_sync == 0;
  choice.load_before_arithmetic = features.loads_beside_arithmetic == 0;
  const compile::CompileOptions options{.kernels = network.kernels};
  if (split == CoreSplit::kAuto && cores > 1) {
    TESSERA_TRY(choice, compile::choose_splits(network.package.graph, network.chip, options, choice,
                                               cards));
  }
  return compile::compile_shares(network.package.graph, network.chip, options, choice);
}

}  // namespace

Result<compile::SharedProgram> program_for_cores(const NetworkState& network,
                                                 const CardPlacement& placement, CoreSplit split,
                                                 int cores_per_image) {
  const auto cores = static_cast<int>(placement.core.size());
  TESSERA_RETURN_IF_ERROR(check_package(network, fmt::format("running on {} cores", cores)));
  const CardFeatures& features = network.chip.card.features;
  const int of_team = cores_per_image == 0 ? cores : cores_per_image;
  TESSERA_CHECK(of_team >= 1 && cores % of_team == 0, "{} cores in teams of {}", cores, of_team);
  // Where nothing is forwarded every memory has everything.
  std::vector<std::uint8_t> memories;
  if (features.forward != 0) memories = placement.memory;
  std::vector<std::uint8_t> of_one = memories;
  if (of_team < cores && !memories.empty()) {
    TESSERA_TRY(of_one, memories_of_team(memories, static_cast<std::size_t>(of_team)));
  }
  TESSERA_TRY(compile::SharedProgram shared,
              compile_team(network, of_team, split, of_one, of_team < cores ? 1 : placement.cards));
  if (of_team < cores) {
    memories.resize(static_cast<std::size_t>(cores), 0);
    TESSERA_TRY(shared.card,
                compile::repeat_for_images(shared.card, memories, features.merge != 0));
  }
  const Status proved = isa::verify_card_program(shared.card, network.chip);
  if (!proved.ok()) return proved.error().with_context("'" + network.path + "'");
  return shared;
}

}  // namespace tessera::network

#include "network/card_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "compile/image_cores.h"
#include "compile/split_choice.h"
#include "isa/verify.h"
#include "network/core_candidates.h"
#include "network/prepared_program.h"

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

// As the package has it, or compiled.
Result<compile::SharedProgram> program_for_team(const NetworkState& network,
                                                const TeamOfCores& team, CoreSplit split,
                                                compile::SplitChooser* chooser) {
  split = split_of(network.chip, split);
  TESSERA_TRY(auto prepared, prepared_program(network, key_of_cores(network.chip, team.cores, split,
                                                                    team.memories, team.cards)));
  if (prepared) return std::move(*prepared);
  if (team.cores == 1 && runs_one_core_program(network.chip)) return one_core_shares(network);
  const compile::CompileOptions options{.kernels = network.kernels};
  if (split != CoreSplit::kAuto || team.cores == 1) {
    return compile::compile_shares(network.package.graph, network.chip, options,
                                   share_choice(network.chip, team, split));
  }
  compile::SplitChooser own(*network.package.graph, network.chip, options);
  return fastest_program(network, team, chooser == nullptr ? own : *chooser);
}

// A linked program as it is, which is one for one core: nothing is cut, and no layer is compiled.
Result<compile::SharedProgram> shares_of_program(const NetworkState& network, std::size_t cores) {
  if (cores > 1) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("'{}' is a program for one core, and here are {}; take one core, or "
                             "give the package or the model, which is made ready for any number",
                             network.path, cores)};
  }
  if (!runs_one_core_program(network.chip)) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("'{}' is a program, which a card of '{}' does not run as it is, since "
                             "its features leave out handing over results or loading beside "
                             "arithmetic; give the package or the model",
                             network.path, network.chip.name)};
  }
  compile::SharedProgram shared;
  shared.card.cores.push_back(*network.program);
  return shared;
}

Result<compile::SharedProgram> proved(const NetworkState& network, const CardPlacement& placement,
                                      compile::SharedProgram shared) {
  shared.card.cards = placement.cards;
  const Status status = isa::verify_card_program(shared.card, network.chip);
  if (!status.ok()) return status.error().with_context("'" + network.path + "'");
  return shared;
}

}  // namespace

isa::PreparedFor key_of_placement(const ChipConfig& chip, const CardPlacement& placement,
                                  CoreSplit split) {
  const bool forwards = chip.card.features.forward != 0;
  return key_of_cores(chip, static_cast<int>(placement.core.size()), split_of(chip, split),
                      forwards ? placement.memory : std::vector<std::uint8_t>(), placement.cards);
}

Result<compile::SharedProgram> program_for_cores(const NetworkState& network,
                                                 const CardPlacement& placement, CoreSplit split,
                                                 int cores_per_image,
                                                 compile::SplitChooser* chooser) {
  const auto cores = static_cast<int>(placement.core.size());
  if (network.program != nullptr) {
    TESSERA_TRY(compile::SharedProgram shared, shares_of_program(network, placement.core.size()));
    return proved(network, placement, std::move(shared));
  }
  const CardFeatures& features = network.chip.card.features;
  const int of_team = cores_per_image == 0 ? cores : cores_per_image;
  TESSERA_CHECK(of_team >= 1 && cores % of_team == 0, "{} cores in teams of {}", cores, of_team);
  // Where nothing is forwarded every memory has everything.
  std::vector<std::uint8_t> memories;
  if (features.forward != 0) memories = placement.memory;
  TeamOfCores team{cores, memories, placement.cards, &placement};
  CardPlacement first;  // of the teams
  if (of_team < cores) {
    team = {of_team, {}, 1, nullptr};
    if (!memories.empty()) {
      TESSERA_TRY(team.memories, memories_of_team(memories, static_cast<std::size_t>(of_team)));
    }
    std::vector<int> its(placement.core.begin(), placement.core.begin() + of_team);
    const int cards = *std::ranges::max_element(its) / network.chip.card.cores() + 1;
    TESSERA_TRY(first, place_on(network.chip, cards, std::move(its)));
    if (memories.empty() || first.memory == team.memories) team.places = &first;
  }
  TESSERA_TRY(compile::SharedProgram shared, program_for_team(network, team, split, chooser));
  if (of_team < cores) {
    memories.resize(static_cast<std::size_t>(cores), 0);
    TESSERA_TRY(shared.card,
                compile::repeat_for_images(shared.card, memories, features.merge != 0));
  }
  shared.card.images = cores / of_team;
  return proved(network, placement, std::move(shared));
}

Result<compile::SharedProgram> program_for_ways(const NetworkState& network,
                                                const CardPlacement& placement,
                                                const std::vector<std::uint8_t>& of_nodes) {
  const auto cores = static_cast<int>(placement.core.size());
  TESSERA_RETURN_IF_ERROR(check_package(network, fmt::format("running on {} cores", cores)));
  std::vector<std::uint8_t> memories;
  if (network.chip.card.features.forward != 0) memories = placement.memory;
  compile::ShareChoice choice =
      share_choice(network.chip, {cores, std::move(memories), placement.cards}, CoreSplit::kAuto);
  const std::size_t nodes = network.package.graph->nodes.size();
  const bool known = std::ranges::all_of(
      of_nodes, [](std::uint8_t way) { return std::size_t{way} < compile::kSplitWays; });
  if (of_nodes.size() != nodes || !known) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("ways of {} nodes, allowed are {} below {}", of_nodes.size(), nodes,
                             compile::kSplitWays)};
  }
  for (const std::uint8_t way : of_nodes) {
    choice.of_nodes.push_back(static_cast<compile::Split>(way));
  }
  TESSERA_TRY(compile::SharedProgram shared,
              compile::compile_shares(network.package.graph, network.chip,
                                      {.kernels = network.kernels}, choice));
  return proved(network, placement, std::move(shared));
}

}  // namespace tessera::network

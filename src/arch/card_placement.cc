#include "arch/card_placement.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr int kMemoriesMax = 16;

Status check_cards(const ChipConfig& chip, int cards) {
  const int most = std::min(kCardCoresMax / chip.card.cores(), kMemoriesMax / chip.card.groups);
  if (cards >= 1 && cards <= most) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} cards of '{}' with {} cores in {} groups each, allowed 1 to {} (at "
                           "most {} cores and {} groups together)",
                           cards, chip.name, chip.card.cores(), chip.card.groups, most,
                           kCardCoresMax, kMemoriesMax)};
}

// Parts of `count`, the first ones larger by one where it does not divide.
int part(int count, int parts, int index) {
  return count / parts + (index < count % parts ? 1 : 0);
}

}  // namespace

Result<CardPlacement> place_on(const ChipConfig& chip, int cards, std::vector<int> cores) {
  TESSERA_RETURN_IF_ERROR(check_cards(chip, cards));
  const int all = cards * chip.card.cores();
  CardPlacement placement;
  placement.cards = cards;
  std::vector<bool> taken(static_cast<std::size_t>(all), false);
  for (const int core : cores) {
    if (core < 0 || core >= all || taken[static_cast<std::size_t>(core)]) {
      return Error{
          ErrorCode::kInvalidArgument,
          fmt::format("core {} of '{}', allowed 0 to {}, each once", core, chip.name, all - 1)};
    }
    taken[static_cast<std::size_t>(core)] = true;
    const int group = core / chip.card.cores_per_group;
    const auto found = std::ranges::find(placement.group, group);
    placement.memory.push_back(static_cast<std::uint8_t>(found - placement.group.begin()));
    if (found == placement.group.end()) placement.group.push_back(group);
  }
  if (cores.empty()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("no core of '{}'", chip.name)};
  }
  placement.core = std::move(cores);
  return placement;
}

Status check_taken(const ChipConfig& chip, const CardPlacement& placement) {
  const int all = placement.cards * chip.card.cores();
  if (!is_taken_whole(chip) || std::ssize(placement.core) == all) return {};
  return Error{ErrorCode::kUnsupported,
               fmt::format("{} of {} cores of '{}', which own fixed parts of the channels "
                           "(card_features.dynamic_bandwidth = 0): a tenant takes all of them; "
                           "take {}, or use an architecture without",
                           placement.core.size(), all, chip.name, all)};
}

Result<CardPlacement> spread_cores(const ChipConfig& chip, int cards, int cores) {
  TESSERA_RETURN_IF_ERROR(check_cards(chip, cards));
  const int most = cards * chip.card.cores();
  if (cores < 1 || cores > most) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} cores; {} of '{}' {} {}, allowed 1 to {} (card.groups, "
                             "card.cores_per_group; tessera128x4 has 4, cloud16 16)",
                             cores, cards == 1 ? "a card" : fmt::format("{} cards", cards),
                             chip.name, cards == 1 ? "has" : "have", most, most)};
  }
  std::vector<int> places;
  for (int card = 0; card < cards; ++card) {
    const int of_card = part(cores, cards, card);
    for (int group = 0; group < chip.card.groups; ++group) {
      const int first = (card * chip.card.groups + group) * chip.card.cores_per_group;
      const int of_group = part(of_card, chip.card.groups, group);
      for (int slot = 0; slot < of_group; ++slot) places.push_back(first + slot);
    }
  }
  return place_on(chip, cards, std::move(places));
}

}  // namespace tessera

#include "cluster/placement.h"

#include <algorithm>
#include <tuple>

#include "device/core_choice.h"

namespace tessera::cluster {
namespace {

constexpr std::int64_t kMemoryUnit = 4096;

bool is_alone(const CardState& card, const std::vector<int>& cores, const std::vector<int>& own) {
  for (const int core : cores) {
    const int first = core / card.shape.cores_per_group * card.shape.cores_per_group;
    for (int other = first; other < first + card.shape.cores_per_group; ++other) {
      if (!card.free[static_cast<std::size_t>(other)] && std::ranges::count(own, other) == 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::int64_t placement_memory(const CardRecord& shape, std::int64_t wanted_bytes) {
  if (wanted_bytes > 0) return (wanted_bytes + kMemoryUnit - 1) / kMemoryUnit * kMemoryUnit;
  return shape.memory_bytes / shape.cores_per_group / kMemoryUnit * kMemoryUnit;
}

std::optional<PlacementChoice> choose_on_card(const CardState& card,
                                              const PlacementRequest& request) {
  if (!request.arch.empty() && card.shape.arch != request.arch) return std::nullopt;
  if (!request.node.empty() && card.node != request.node) return std::nullopt;
  if (std::ssize(card.free) != card.shape.cores()) return std::nullopt;
  PlacementChoice choice;
  choice.memory_bytes = placement_memory(card.shape, request.memory_bytes);
  std::vector<device::CoreUse> uses;
  for (int core = 0; core < card.shape.cores(); ++core) {
    const auto place = static_cast<std::size_t>(core);
    const auto group = static_cast<std::size_t>(core / card.shape.cores_per_group);
    const bool own = std::ranges::count(request.own, core) > 0;
    // A group whose memory does not suffice offers no core.
    const bool room = card.memory_taken[group] + choice.memory_bytes <= card.shape.memory_bytes;
    uses.push_back(own                        ? device::CoreUse::kOwn
                   : card.free[place] && room ? device::CoreUse::kFree
                                              : device::CoreUse::kOthers);
  }
  choice.cores = device::choose_cores(
      uses, {.cores_per_group = card.shape.cores_per_group, .groups_per_card = card.shape.groups},
      request.cores);
  if (std::ssize(choice.cores) != request.cores) return std::nullopt;
  return choice;
}

std::optional<PlacementChoice> choose_placement(const std::vector<CardState>& cards,
                                                const PlacementRequest& request) {
  std::optional<PlacementChoice> best;
  std::tuple<bool, std::int64_t, std::string, int> best_rank;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const CardState& card = cards[i];
    if (card.draining) continue;
    auto choice = choose_on_card(card, request);
    if (!choice.has_value()) continue;
    std::tuple rank{!is_alone(card, choice->cores, request.own),
                    static_cast<std::int64_t>(std::ranges::count(card.free, true)), card.node,
                    card.card};
    if (best.has_value() && best_rank <= rank) continue;
    choice->card = i;
    best = std::move(choice);
    best_rank = std::move(rank);
  }
  return best;
}

}  // namespace tessera::cluster

#include "cluster/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "device/core_choice.h"

namespace tessera::cluster {
namespace {

constexpr std::int64_t kMemoryUnit = 4096;

// Cores of each card, at least.
int ceil_of(const PlacementRequest& request) {
  return (request.cores + request.cards - 1) / request.cards;
}

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

bool takes_as_many(const CardRecord& shape, int cores) {
  return !shape.is_whole || cores == shape.cores();
}

std::int64_t placement_memory(const CardRecord& shape, std::int64_t wanted_bytes) {
  if (wanted_bytes > 0) return (wanted_bytes + kMemoryUnit - 1) / kMemoryUnit * kMemoryUnit;
  if (shape.is_whole) return shape.memory_bytes;
  return shape.memory_bytes / shape.cores_per_group / kMemoryUnit * kMemoryUnit;
}

std::string room_text(const std::vector<CardState>& cards, const PlacementRequest& placement) {
  std::int64_t most = 0, fitting = 0, whole = 0;
  int cores_of_whole = 0;
  for (const CardState& card : cards) {
    if (!placement.arch.empty() && card.shape.arch != placement.arch) continue;
    if (!placement.node.empty() && card.node != placement.node) continue;
    ++fitting;
    if (!takes_as_many(card.shape, placement.cores)) {
      ++whole;
      cores_of_whole = card.shape.cores();
    }
    if (!card.draining) most = std::max(most, std::ranges::count(card.free, true));
  }
  if (placement.cards > 1) {
    return fmt::format(
        "{} cards are wanted as a whole; of the cluster's cards with {} cores{} that nobody has "
        "there are not as many; take fewer, or wait until others leave",
        placement.cards,
        placement.cores == 0 ? "any" : fmt::format("{} or more", ceil_of(placement)),
        placement.arch.empty() ? "" : fmt::format(" of '{}'", placement.arch));
  }
  const std::string kind = placement.arch.empty() ? "" : fmt::format(" of '{}'", placement.arch);
  const std::string where =
      placement.node.empty() ? "" : fmt::format(" on node '{}'", placement.node);
  if (fitting == 0) return fmt::format("there is no card{}{} in the cluster", kind, where);
  if (whole == fitting) {
    return fmt::format(
        "{} cores are wanted; the {} cards{}{} have cores that own fixed parts of the channels "
        "(card_features.dynamic_bandwidth = 0) and go as a whole, {} each; take all cores of one",
        placement.cores, fitting, kind, where, cores_of_whole);
  }
  return fmt::format(
      "{} cores are wanted; of the {} cards{}{} none has as many free (the most is {}), with the "
      "memory that is wanted; take less, or wait until others leave",
      placement.cores, fitting, kind, where, most);
}

std::optional<PlacementChoice> choose_on_card(const CardState& card,
                                              const PlacementRequest& request) {
  if (!request.arch.empty() && card.shape.arch != request.arch) return std::nullopt;
  if (!request.node.empty() && card.node != request.node) return std::nullopt;
  if (std::ssize(card.free) != card.shape.cores()) return std::nullopt;
  if (!takes_as_many(card.shape, request.cores)) return std::nullopt;
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

std::optional<std::vector<std::size_t>> choose_whole_cards(const std::vector<CardState>& cards,
                                                           const PlacementRequest& request) {
  const auto is_free = [&](const CardState& card) {
    return !card.draining && (request.arch.empty() || card.shape.arch == request.arch) &&
           (request.node.empty() || card.node == request.node) &&
           std::ssize(card.free) == card.shape.cores() &&
           std::ranges::count(card.free, false) == 0 &&
           request.cores <= request.cards * card.shape.cores();
  };
  // By architecture, then node.
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> free;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    if (is_free(cards[i])) free[cards[i].shape.fingerprint][cards[i].node].push_back(i);
  }
  std::optional<std::vector<std::size_t>> best;
  std::size_t best_nodes = 0;
  for (const auto& [fingerprint, of_nodes] : free) {
    std::vector<std::vector<std::size_t>> nodes;
    for (const auto& [node, of_node] : of_nodes) nodes.push_back(of_node);
    std::ranges::stable_sort(nodes, std::greater<>{}, &std::vector<std::size_t>::size);
    std::vector<std::size_t> chosen;
    std::size_t used = 0;
    while (used < nodes.size() && std::ssize(chosen) < request.cards) {
      for (const std::size_t card : nodes[used]) {
        if (std::ssize(chosen) < request.cards) chosen.push_back(card);
      }
      ++used;
    }
    if (std::ssize(chosen) < request.cards || (best.has_value() && best_nodes <= used)) continue;
    best = std::move(chosen);
    best_nodes = used;
  }
  return best;
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

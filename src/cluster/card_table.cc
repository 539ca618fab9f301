#include "cluster/card_table.h"

#include <algorithm>

namespace tessera::cluster {
namespace {

// Cores that an allocation would get; with `alone` of groups that nobody else is in.
int cores_with_room(const CardState& card, std::int64_t memory_bytes, bool alone) {
  int cores = 0;
  for (int group = 0; group < card.shape.groups; ++group) {
    const auto begin = card.free.begin() + group * card.shape.cores_per_group;
    const auto free = std::count(begin, begin + card.shape.cores_per_group, true);
    if (alone && free < card.shape.cores_per_group) continue;
    const std::int64_t taken = card.memory_taken[static_cast<std::size_t>(group)];
    if (taken + memory_bytes <= card.shape.memory_bytes) cores += static_cast<int>(free);
  }
  return cores;
}

bool has_its_shape(const CardState& card) {
  return std::ssize(card.free) == card.shape.cores() &&
         std::ssize(card.memory_taken) == card.shape.groups;
}

}  // namespace

CardTable::Kind CardTable::kind_of(const CardState& card) {
  return {card.shape.arch, card.shape.groups, card.shape.cores_per_group, card.shape.memory_bytes,
          card.shape.is_whole};
}

CardTable::Fill CardTable::fill_of(const CardState& card) {
  int whole = 0;
  for (int group = 0; group < card.shape.groups; ++group) {
    const auto begin = card.free.begin() + group * card.shape.cores_per_group;
    whole += std::all_of(begin, begin + card.shape.cores_per_group, [](bool is) { return is; });
  }
  return {static_cast<int>(std::ranges::count(card.free, true)), whole};
}

void CardTable::put(CardState card) {
  const Key key{card.node, card.card};
  remove(key);
  if (!card.draining && has_its_shape(card)) kinds_[kind_of(card)][fill_of(card)].insert(key);
  cards_.emplace(key, std::move(card));
}

void CardTable::remove(const Key& key) {
  const auto known = cards_.find(key);
  if (known == cards_.end()) return;
  const CardState& card = known->second;
  const auto kind = kinds_.find(kind_of(card));
  if (!card.draining && has_its_shape(card) && kind != kinds_.end()) {
    const auto fill = kind->second.find(fill_of(card));
    fill->second.erase(key);
    if (fill->second.empty()) kind->second.erase(fill);
    if (kind->second.empty()) kinds_.erase(kind);
  }
  cards_.erase(known);
}

void CardTable::clear() {
  cards_.clear();
  kinds_.clear();
}

const CardState* CardTable::find(const Key& key) const {
  const auto found = cards_.find(key);
  return found == cards_.end() ? nullptr : &found->second;
}

// Of those with fewest free cores the first name.
std::optional<CardTable::Found> CardTable::find_in(const Fills& fills, int free_min,
                                                   int whole_groups_min,
                                                   const std::function<bool(const Key&)>& fits) {
  std::optional<Found> best;
  for (auto fill = fills.lower_bound({free_min, 0}); fill != fills.end(); ++fill) {
    if (best.has_value() && fill->first.first > best->free) return best;
    if (fill->first.second < whole_groups_min) continue;
    for (const Key& key : fill->second) {
      if (best.has_value() && best->key < key) break;
      if (!fits(key)) continue;
      best = {.is_alone = whole_groups_min > 0, .free = fill->first.first, .key = key};
      break;
    }
  }
  return best;
}

std::optional<CardTable::Found> CardTable::find_of_kind(
    const Fills& fills, const PlacementRequest& request,
    const std::set<std::string>& without_nodes) const {
  const CardRecord& shape = cards_.at(*fills.begin()->second.begin()).shape;
  if (!takes_as_many(shape, request.cores)) return std::nullopt;
  const std::int64_t memory_bytes = placement_memory(shape, request.memory_bytes);
  const int groups = (request.cores + shape.cores_per_group - 1) / shape.cores_per_group;
  for (const bool alone : {true, false}) {
    const auto fits = [&](const Key& key) {
      return !without_nodes.contains(key.first) &&
             cores_with_room(cards_.at(key), memory_bytes, alone) >= request.cores;
    };
    if (auto found = find_in(fills, request.cores, alone ? groups : 0, fits)) return found;
  }
  return std::nullopt;
}

// It has few cards, and an allocation may have cores of them already.
std::optional<CardTable::Choice> CardTable::choose_of_node(
    const PlacementRequest& request, const std::set<std::string>& without_nodes) const {
  if (without_nodes.contains(request.node)) return std::nullopt;
  std::vector<CardState> of_node;
  for (auto card = cards_.lower_bound({request.node, 0});
       card != cards_.end() && card->first.first == request.node; ++card) {
    of_node.push_back(card->second);
  }
  auto choice = choose_placement(of_node, request);
  if (!choice.has_value()) return std::nullopt;
  return Choice{find({request.node, of_node[choice->card].card}), std::move(choice->cores),
                choice->memory_bytes};
}

std::optional<CardTable::Choice> CardTable::choose(
    const PlacementRequest& request, const std::set<std::string>& without_nodes) const {
  if (!request.node.empty()) return choose_of_node(request, without_nodes);
  const auto rank = [](const Found& found) {
    return std::tuple(!found.is_alone, found.free, found.key);
  };
  std::optional<Found> best;
  for (const auto& [kind, fills] : kinds_) {
    if (!request.arch.empty() && std::get<0>(kind) != request.arch) continue;
    auto found = find_of_kind(fills, request, without_nodes);
    if (!found.has_value()) continue;
    if (!best.has_value() || rank(*found) < rank(*best)) best = std::move(found);
  }
  if (!best.has_value()) return std::nullopt;
  const CardState& card = cards_.at(best->key);
  auto choice = choose_on_card(card, request);
  if (!choice.has_value()) return std::nullopt;
  return Choice{&card, std::move(choice->cores), choice->memory_bytes};
}

}  // namespace tessera::cluster

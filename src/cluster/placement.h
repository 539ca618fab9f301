// Which cores an allocation gets.
//
// Of the cards that have room those come first on which it would be alone in its groups, since it is undisturbed
// there; then those with the fewest free cores, so that large ones stay free; then the order of the names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/records.h"

namespace tessera::cluster {

// A card of a node that is there.
struct CardState {
  std::string node;
  int card = 0;
  CardRecord shape;
  std::vector<bool> free;                  // by core
  std::vector<std::int64_t> memory_taken;  // by group
  bool draining = false;
};

struct PlacementRequest {
  std::string arch;  // that the card has; empty: any
  int cores = 1;
  std::int64_t memory_bytes = 0;  // of each group; 0: a group's memory divided by its cores, or all
  std::string node = {};          // empty: any
  std::vector<int> own = {};      // cores that it has on the card, and keeps as far as it can
  int cards = 1;                  // over so many, each of them as a whole
};

struct PlacementChoice {
  std::size_t card = 0;  // of those that were given
  std::vector<int> cores;
  std::int64_t memory_bytes = 0;
};

// Of each group: what is wanted in whole units, or a core's part of the group's memory.
std::int64_t placement_memory(const CardRecord& shape, std::int64_t wanted_bytes);
// Whether an allocation of one card may have so many cores of it.
bool takes_as_many(const CardRecord& shape, int cores);
// What of it is not there, for people.
std::string room_text(const std::vector<CardState>& cards, const PlacementRequest& request);
// Looks at all cards; the obvious form of CardTable::choose() (card_table.h). Nothing: no card has room.
std::optional<PlacementChoice> choose_placement(const std::vector<CardState>& cards,
                                                const PlacementRequest& request);
// For one over several cards: those of as few nodes as can be, of one architecture, that nobody has a core of; by
// place of those that were given. Nothing: there are not as many.
std::optional<std::vector<std::size_t>> choose_whole_cards(const std::vector<CardState>& cards,
                                                           const PlacementRequest& request);
// What of it a card offers, or nothing.
std::optional<PlacementChoice> choose_on_card(const CardState& card,
                                              const PlacementRequest& request);

}  // namespace tessera::cluster

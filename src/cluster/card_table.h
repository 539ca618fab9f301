// The cards of a cluster, ordered by how full they are: which one an allocation gets is found without looking at
// all of them. The choice is that of choose_placement() over the same cards.
//
//   kind of card ─► (free cores, groups that are free as a whole) ─► names, in their order
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/placement.h"

namespace tessera::cluster {

// Not for several threads at once.
class CardTable {
 public:
  using Key = std::pair<std::string, int>;  // node, card

  // In place of what is known of the card.
  void put(CardState card);
  void remove(const Key& key);
  void clear();
  // Null: it is not known.
  const CardState* find(const Key& key) const;
  const std::map<Key, CardState>& cards() const { return cards_; }

  struct Choice {
    const CardState* card = nullptr;  // until the table changes
    std::vector<int> cores;
    std::int64_t memory_bytes = 0;  // of each group
  };
  // Nothing: no card has room, but for those of the nodes that are left out. Of N cards it takes time as log N; where
  // cores are free whose group has no memory left, the cards of as many free cores are looked at one after the other.
  std::optional<Choice> choose(const PlacementRequest& request,
                               const std::set<std::string>& without_nodes = {}) const;

 private:
  using Kind = std::tuple<std::string, int, int, std::int64_t,
                          bool>;     // architecture, groups, cores, memory, whole
  using Fill = std::pair<int, int>;  // free cores, groups that are free as a whole
  struct Found {
    bool is_alone = false;
    int free = 0;
    Key key;
  };
  using Fills = std::map<Fill, std::set<Key>>;
  static Kind kind_of(const CardState& card);
  static Fill fill_of(const CardState& card);
  static std::optional<Found> find_in(const Fills& fills, int free_min, int whole_groups_min,
                                      const std::function<bool(const Key&)>& fits);
  std::optional<Found> find_of_kind(const Fills& fills, const PlacementRequest& request,
                                    const std::set<std::string>& without_nodes) const;
  std::optional<Choice> choose_of_node(const PlacementRequest& request,
                                       const std::set<std::string>& without_nodes) const;

  std::map<Key, CardState> cards_;
  std::map<Kind, Fills> kinds_;  // of those that are not draining
};

}  // namespace tessera::cluster

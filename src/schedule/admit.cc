#include "schedule/admit.h"

#include <algorithm>

namespace tessera::schedule {
namespace {

// Cores by card.
struct Room {
  std::vector<int> behind;  // besides those who come before
  std::vector<int> kept;    // at the least, of those who come later and are there
  int most = 0;             // no less than the largest of `behind`
};

int least_cores(const Tenant& tenant) { return tenant.points.front().cores; }

Room room_of(const State& state) {
  const auto cards = static_cast<int>(state.cards.size());
  Room room{.behind = std::vector<int>(cards), .kept = std::vector<int>(cards)};
  for (int card = 0; card < cards; ++card) room.behind[card] = working_cores(state, card);
  for (const Tenant& tenant : state.tenants) {
    if (tenant.admitted() && !tenant.points.empty()) room.kept[tenant.card] += least_cores(tenant);
  }
  room.most = *std::max_element(room.behind.begin(), room.behind.end());
  return room;
}

// The card for a tenant that has none, or -1.
int card_for(Room& room, int cores) {
  if (cores > room.most) return -1;
  int best = -1;
  int best_room = 0;
  bool best_beside = false;
  room.most = 0;
  for (int card = 0; card < static_cast<int>(room.behind.size()); ++card) {
    const int behind = room.behind[card];
    room.most = std::max(room.most, behind);
    if (behind < cores) continue;
    const bool beside = behind - room.kept[card] >= cores;
    const int size = beside ? behind - room.kept[card] : behind;
    if (best >= 0 && (best_beside > beside || (best_beside == beside && best_room >= size)))
      continue;
    best = card;
    best_room = size;
    best_beside = beside;
  }
  return best;
}

}  // namespace

std::vector<int> admit(const State& state) {
  Room room = room_of(state);
  std::vector<int> cards;
  cards.reserve(state.tenants.size());
  for (const Tenant& tenant : state.tenants) {
    int card = -1;
    if (!tenant.points.empty()) {
      const int cores = least_cores(tenant);
      if (tenant.admitted()) room.kept[tenant.card] -= cores;
      const bool stays = tenant.admitted() && room.behind[tenant.card] >= cores;
      card = stays ? tenant.card : card_for(room, cores);
      if (card >= 0) room.behind[card] -= cores;
    }
    cards.push_back(card);
  }
  return cards;
}

int room_for(const State& state, const Tenant& waiting) {
  std::vector<int> room;
  for (int card = 0; card < static_cast<int>(state.cards.size()); ++card) {
    room.push_back(working_cores(state, card));
  }
  for (const Tenant& tenant : state.tenants) {
    if (tenant.id == waiting.id) break;
    if (tenant.admitted()) room[tenant.card] -= least_cores(tenant);
  }
  return *std::max_element(room.begin(), room.end());
}

}  // namespace tessera::schedule

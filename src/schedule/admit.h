// Who is served, and on which card.
//
// In the order of priority, then of arrival, each tenant is admitted where a card has as many cores as it
// needs at the least besides those that come before it. So a tenant waits only for those who come
// before it, and yields only to them; a small one behind a large one that waits is served meanwhile.
//
// A tenant stays on its card while it fits there. Else it goes to the card with most room besides all
// who are there; where none has enough, to the card with most room besides those who come before it.
#pragma once

#include <vector>

#include "schedule/state.h"

namespace tessera::schedule {

// By tenant of the state: the card, or -1.
std::vector<int> admit(const State& state);

// Cores of the card with most room besides the tenants that come before this one, which waits.
int room_for(const State& state, const Tenant& waiting);

}  // namespace tessera::schedule

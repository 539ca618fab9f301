// The plan of a card: which cores each of its tenants is to have.
#pragma once

#include "schedule/state.h"

namespace tessera::schedule {

// Writes Tenant::planned of the tenants admitted on the card, and Core::next of its cores. It begins from
// where each tenant will be when what is under way is done (Tenant::coming).
void plan_card(State& state, int card);

}  // namespace tessera::schedule

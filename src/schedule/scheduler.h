// The scheduler: which tenant has which cores of which card.
//
//   event ──► [ admit ] ──► [ divide ] ──► [ place ] ──► [ carry out ] ──► actions
//             who, and      how many       which          give, take, relink, clear
//             which card    cores each     cores
//
// A function of state and event alone: no clock, no thread, no randomness. The same state and event give
// the same state and actions. docs/schedule.md says by which rules.
#pragma once

#include "schedule/carry_out.h"
#include "schedule/event.h"
#include "schedule/state.h"

namespace tessera::schedule {

// Changes the state as the event says and gives the actions, which lead from the state before to that
// behind, in their order. An error names what cannot be (a tenant or core that is not there, an order
// that was never given, terms outside their ranges), and leaves the state as it was. Threads: none may
// use the state meanwhile.
Result<Actions> step(State& state, const Event& event);

}  // namespace tessera::schedule

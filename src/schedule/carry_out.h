// From what is to what is planned, by orders: who has to give up cores is linked for the others, drains
// and is cleared; who gets cores waits until they are free, is linked for them and changes over.
#pragma once

#include <vector>

#include "schedule/event.h"

namespace tessera::schedule {

using Actions = std::vector<Action>;

// Begins what the tenant's plan allows now: nothing while a relink is under way or a core is not free.
void pursue(State& state, Tenant& tenant, Actions& actions);

// The tenant begins nothing new on a core of its own.
void take_core(State& state, CoreId core, Actions& actions);

// Takes all cores that the tenant has; a relink under way ends without effect.
void stop(State& state, Tenant& tenant, Actions& actions);

// The core's contents go.
void clear_core(State& state, CoreId core, Actions& actions);

// The cores are lost to whoever has them. A program linked for one of them runs no longer, and a relink
// for one of them ends without effect.
void fail_cores(State& state, const std::vector<CoreId>& cores, Actions& actions);

// The orders are carried out; the tenant's relink, the core's drain or clearing is under way.
void finish_relink(State& state, Tenant& tenant, Actions& actions);
void finish_drain(State& state, CoreId core, Actions& actions);
void finish_clear(State& state, CoreId core, Actions& actions);

}  // namespace tessera::schedule

// What must hold of every state that step() gives: for tests and simulations.
#pragma once

#include "schedule/state.h"

namespace tessera::schedule {

// Every core is held by one tenant at most, and by whom the tenants' lists say; plans are apart, on cores
// that work, and hold the bounds; who waits holds nothing and has no room; no core is left over that
// would make a tenant of its card faster. The error names what does not hold.
Status check_state(const State& state);

// Nothing is under way: everyone runs as planned, and no core drains or is cleared.
bool at_rest(const State& state);

}  // namespace tessera::schedule

// Lets the allocation of this program's choice fail, as SQLite's tests do: a scenario is run again
// and again, and each time another allocation of it fails, in whichever thread that is.
#pragma once

#include <cstdint>
#include <functional>

namespace tessera::limits {

// The allocations of run() from now on.
std::int64_t count_allocations(const std::function<void()>& run);

// Allocations that were not released yet.
std::int64_t live_allocations();

// Runs it with allocation number `first` and the `count - 1` behind it failing (1 is its first).
void run_with_failing_allocations(std::int64_t first, std::int64_t count,
                                  const std::function<void()>& run);

}  // namespace tessera::limits

// How little memory blocks need: a lower bound, heuristics, and an exact search in bounded time.
//
//   lower bound   the largest sum of the blocks alive at one time
//   heuristics    first fit and best fit, blocks ordered by size, life, area or time
//   exact search  branch and bound over placements built from the bottom up (below)
//
// Any placement can be let down until every block lies at 0 or on another that lives beside it, so
// the search lays blocks in ascending order of their offsets: the next block goes to the lowest
// place above all that lie there already. A branch ends where some time's blocks cannot fit below
// the best peak, or where the block leaves a hole that another one would fill. The search counts
// the steps it takes, never wall time: the result is the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compile/placement.h"

namespace tessera::compile {

// Sizes are counted in whole multiples of `alignment`.
struct TightPlacement {
  std::int64_t bound = 0;     // no placement needs fewer bytes
  std::int64_t peak = 0;      // of the placement found
  bool proved = false;        // no placement has a lower peak
  std::string_view found_by;  // "first fit by size", ..., "exact search"
  std::int64_t steps = 0;     // of the exact search
  std::int64_t gap() const { return peak - bound; }
};

struct SearchOptions {
  std::int64_t alignment = 64;
  std::int64_t target = 0;              // low enough: search no further
  std::int64_t steps_max = 20'000'000;  // of the exact search; 0: heuristics only
};

// The largest sum of blocks alive at one time, sizes rounded up.
std::int64_t placement_bound(const std::vector<PlacedBlock>& blocks, std::int64_t alignment);

// Sets every offset (wishes are not looked at).
TightPlacement place_tightly(std::vector<PlacedBlock>& blocks, const SearchOptions& options = {});

}  // namespace tessera::compile

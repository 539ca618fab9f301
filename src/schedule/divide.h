// How many cores each tenant of a card gets.
//
// Of all divisions with at most the card's cores in which each tenant has a number that holds its
// bounds, the one with
//   1. the largest sum of weight x images a second,
//   2. the fewest tenants whose number changes,
//   3. the fewest cores,
//   4. more cores for those who come first.
// A dynamic programme over (tenant, cores left): exact, tenants x cores x cores steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/performance.h"

namespace tessera::schedule {

struct Claim {
  std::span<const OperatingPoint>
      points;  // those that hold its bounds, ascending by cores; not empty
  std::int64_t weight = 1;
  int cores_now = 0;  // 0: none yet
};

// By claim, the index of its point. The fewest cores of all claims together are at most `cores`.
std::vector<int> divide(std::span<const Claim> claims, int cores);

}  // namespace tessera::schedule

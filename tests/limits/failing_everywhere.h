// Runs a scenario again and again, with another allocation of it failing each time.
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/result.h"

namespace tessera::limits {

// How many of a scenario's allocations fail in turn, at most.
struct Points {
  std::int64_t everyday, whole;
  bool protobuf = false;  // which loses what it has just made where its list of it cannot grow
};
inline constexpr Points kMany = {60, 4000}, kFew = {5, 100}, kProtobuf = {60, 4000, true};

// Runs the scenario with one allocation failing, and with that and the next 19 behind it. It must
// succeed where nothing fails.
void fail_everywhere(const char* name, const Points& points,
                     const std::function<Status()>& scenario);

}  // namespace tessera::limits

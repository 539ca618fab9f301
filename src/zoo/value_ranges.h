// What the values of a network range over, by their names in its float32 form.
#pragma once

#include <map>
#include <string>

namespace tessera::zoo {

struct ValueRange {
  float lowest = 0, highest = 0;
};
using ValueRanges = std::map<std::string, ValueRange>;

}  // namespace tessera::zoo

#include "tessera/traps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tessera {
namespace {

struct TrapName {
  std::string_view name;
  int bits;
};
constexpr TrapName kNames[] = {
    {"nan", kTrapNan},
    {"infinity", kTrapInfinity},
    {"range", kTrapRange},
    {"saturation", kTrapSaturation},
    {"overflow", kTrapInfinity | kTrapRange | kTrapSaturation},
};

}  // namespace

Result<std::uint8_t> traps_from_names(std::string_view names) {
  int traps = 0;
  for (std::size_t first = 0; first <= names.size();) {
    const std::size_t comma = std::min(names.find(',', first), names.size());
    const std::string_view word = names.substr(first, comma - first);
    int bits = 0;
    for (const TrapName& known : kNames) {
      if (known.name == word) bits = known.bits;
    }
    if (bits == 0) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("trap '{}' is not known; allowed: nan, infinity, range, saturation, "
                               "overflow (the last three), with commas between",
                               word)};
    }
    traps |= bits;
    first = comma + 1;
  }
  return static_cast<std::uint8_t>(traps);
}

}  // namespace tessera

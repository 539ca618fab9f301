// Exceptions of values that stop a network on the virtual processor, with the task, its step and
// its layer.
#pragma once

#include <cstdint>
#include <string_view>

#include "tessera/result.h"

namespace tessera {

// Bits of SessionOptions::traps, SharedSessionOptions::traps and DeviceOptions::traps. Each is met by a step of a task on the neural or planar engine.
enum Trap : std::uint8_t {
  kTrapNan = 1,         // a NaN among its results, or among the operands of the array
  kTrapInfinity = 2,    // an infinity, likewise; f16 results have none, they saturate
  kTrapRange = 4,       // a sum of 2^33 or more in an accumulator of the array
  kTrapSaturation = 8,  // a result that is the largest or smallest number of its format
};

// "nan,overflow": names of traps with commas between. "overflow" is infinity, range and saturation
// together. The error names the word and what is allowed.
Result<std::uint8_t> traps_from_names(std::string_view names);

}  // namespace tessera

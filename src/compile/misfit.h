// What an attempt at a plan found no room for.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace tessera::compile {

struct Misfit {
  Error error;
  std::int32_t first_layer = 0, last_layer = 0;  // where giving up a resident would help
};

}  // namespace tessera::compile

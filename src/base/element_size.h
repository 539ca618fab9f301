// Elements known by their size alone, for code that moves them and never looks into them.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace tessera {

// Calls f with an unsigned integer of `bytes` bytes: 1, 2, 4 or 8.
template <typename F>
void with_element(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      TESSERA_CHECK(bytes == 8, "elements of {} bytes", bytes);
      return f(std::uint64_t{});
  }
}

}  // namespace tessera

// When each box next has something to do. The chip owns the clock and jumps to the earliest entry.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/quantity.h"
#include "base/table.h"
#include "isa/descriptor.h"

namespace tessera::engines {

// The boxes of a core, in the order of isa::EngineKind, then the others.
enum class Box : std::uint8_t { kNeural, kPlanar, kLoad, kStore, kKernel, kTaskManager, kDram };
inline constexpr int kBoxCount = 7;
const char* box_name(Box box);
inline Box box_of(isa::EngineKind engine) { return static_cast<Box>(engine); }

class WakeTable {
 public:
  void reset() { at_.fill(kNever); }
  // `box` is stepped at `when`, or earlier if something else wakes it.
  void wake(Box box, Cycles when) {
    Cycles& at = at_[box];
    at = std::min(at, when);
  }
  // The boxes due at `now`, a bit each, taken out before any is stepped: what they ask for while
  // they are stepped is for later cycles.
  std::uint32_t take_due(Cycles now) {
    std::uint32_t due = 0;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      if (at_[i] > now) continue;
      due |= 1u << i;
      at_[i] = kNever;
    }
    return due;
  }
  Cycles earliest() const { return *std::min_element(at_.begin(), at_.end()); }

 private:
  FixedTable<Box, Cycles, kBoxCount> at_{};
};

}  // namespace tessera::engines

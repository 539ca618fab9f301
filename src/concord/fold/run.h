// Whether equal, consecutive stretches of operations are the turns of one loop.
//
//   turn 0: a b c   turn 1: a b c   turn 2: a b c         period 3, turns 3
//
// They are where every operand is, in all turns, one of: the same value made before the run; what
// the same place of this turn makes; what the same place made `lag` turns ago, and values made
// before the run in the first `lag` turns; values made before the run, another each turn. Floats
// that are constants and change from turn to turn are weights: then they are layers of their own.
// Internal to src/concord.
#pragma once

#include <optional>
#include <vector>

#include "concord/software.h"

namespace tessera::concord {

struct TurnOperand {
  enum class Source : std::uint8_t { kSame, kThisTurn, kEarlierTurn, kGiven };
  Source source = Source::kSame;
  ValueId same;
  std::size_t place = 0, lag = 0;  // of the operation that makes it, from the turn's first
  std::vector<ValueId> outside;    // kEarlierTurn: of the first turns; kGiven: of every turn
};

struct Run {
  std::size_t first = 0, period = 0, turns = 0;    // operations
  std::vector<std::vector<TurnOperand>> operands;  // of each operation of a turn
  std::size_t end() const { return first + period * turns; }
  // Values that pass from turn to turn.
  std::size_t carried() const;
};

// made[v]: the operation that makes value v, or -1. Nothing where it is no loop.
std::optional<Run> find_turns(const Software& software, const Table<ValueId, int>& made,
                              std::size_t first, std::size_t period, std::size_t turns);

}  // namespace tessera::concord

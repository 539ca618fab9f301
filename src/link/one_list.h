// A program of several cores as one of one core: for what reads programs of one core only.
//
//   core 0: a0 a1 a2     core 1: b0 b1 b2     ─►   a0 b0 a1 a2 b1 b2, each behind the one before
//
// It has the bits of the card's program, and other cycles.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/card_program.h"

namespace tessera::link {

// All cores' tasks in one list that every dependency allows, each waiting for the one before, for a
// chip whose core has the memories of all cores, side by side.
struct OneList {
  isa::Program program;
  ChipConfig chip;
};

// Which core goes on where several can.
enum class ListOrder : std::uint8_t {
  kFirstCore,  // the first, for as long as nothing it needs is missing
  kLastCore,   // the last, likewise
  kLayers,     // the one whose next task is of the earliest layer: a layer's tasks stand together
};

// An error if the cores wait for each other for ever.
Result<OneList> in_one_list(const isa::CardProgram& card, const ChipConfig& chip, ListOrder order);

}  // namespace tessera::link

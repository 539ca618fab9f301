// Programs of several cores, without the clock that runs them: what their dependencies force, step by
// step.
#pragma once

#include <cstdint>
#include <string>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/card_program.h"

namespace tessera::agreement {

// Proves the program of one core by itself: whatever it reads of DRAM is taken as there, as inputs are.
Status prove_core(const isa::CardProgram& card, std::size_t core, const ChipConfig& chip);

// Empty if for any two steps that touch the same byte of DRAM, one of them writing, the dependencies and the queues say which comes first; else two where they do not. Walks
// all pairs of steps that touch the same bytes. Weights are only read, and left out.
std::string find_race(const isa::CardProgram& card);

}  // namespace tessera::agreement
